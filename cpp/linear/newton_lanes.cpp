#include "linear/newton_lanes.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace longtail::linear {

namespace {

constexpr double kArmijo = 0.01;  // the paper's η
constexpr int kMaxHalvings = 20;
constexpr int kMaxCgSteps = 200;
constexpr float kDiagonalShare = 0.01F;  // the paper's α: preconditioner (1 - α)·1 + α·diag(H)
// The Hessian of the logistic loss takes rows of little curvature times ‖x‖² (beside the 1 of the regulariser) from a
// sample. Tuned on 300 labels of EURLex-4K: half the time of a Hessian of all rows.
constexpr float kLittleCurvature = 0.2F;
constexpr std::int64_t kSampled = 16;         // one row in so many, counted so many times, for rare labels;
constexpr std::int64_t kSampledOfMany = 4;    // for labels with many rows, whose Hessian the regulariser hides less
constexpr std::int64_t kManyPositives = 32;   // (16 ended looser than LIBLINEAR by the same rule on Bibtex);
constexpr std::int64_t kRowsOfSample = 4096;  // if there are at least so many rows
constexpr int kMaxFinalSteps = 5;             // of a label that meets the stopping rule
constexpr double kStartShare = 0.25;          // a start counts if its loss is below this share of the loss at zero
constexpr std::int64_t kGradientRows = 256;   // dense rows whose part of the gradient is added up in float32

using Clock = std::chrono::steady_clock;

}  // namespace

template <class Rows, class LossFunction>
NewtonTrainer<Rows, LossFunction>::NewtonTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                                 const OvaStart& start, const OvaConfig& config, LabelSink& sink,
                                                 Control& control)
    : rows_(rows),
      labels_(labels),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      width_(rows.n_features() + 1),
      lanes_(kLanes) {
    if constexpr (!Rows::kSparse) {
        gradient_sums_.assign(width_ * kLanes, 0.0);
        if (WholeHessians::suits(rows, config)) hessians_.emplace(rows, labels, config, control);
    }
    for (auto* per_row : {&margins_, &along_, &curvatures_}) per_row->assign(rows.n_rows(), Lanes{});
    for (auto* per_feature : {&weights_, &gradient_, &step_, &residual_, &direction_, &product_, &preconditioner_})
        per_feature->assign(width_, Lanes{});
    if (config.keep_history) first_weights_.assign(width_, Lanes{});
    column_.assign(width_, 0.0F);
    // Only the Hessian samples: the gradient, the line search and the stopping rule use all rows.
    if (!LossFunction::kIsSmooth || hessians_ || rows.n_rows() < kRowsOfSample) return;
    little_curvatures_.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        float square = config.bias * config.bias;
        rows.for_each(row, [&](std::int32_t, float value) { square += value * value; });
        little_curvatures_.push_back(kLittleCurvature / std::max(square, std::numeric_limits<float>::min()));
    }
}

template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::train(std::span<const std::int32_t> label_ids) {
    std::size_t next = 0;
    for (;;) {
        const auto begin_time = Clock::now();
        int n_busy = 0;
        bool any_fresh = false;
        for (int at = 0; at < kLanes; ++at) {
            while (lanes_[at].label < 0 && next < label_ids.size())
                if (begin(lanes_[at], at, label_ids[next++])) break;
            n_busy += lanes_[at].label >= 0 ? 1 : 0;
            any_fresh = any_fresh || lanes_[at].is_fresh;
        }
        if (n_busy == 0) return;
        if (any_fresh) {
            index_positives();
            set_fresh_margins();
        }
        set_gradient();
        int n_working = 0;
        for (int at = 0; at < kLanes; ++at) {
            if (lanes_[at].label < 0) continue;
            if (is_finished(lanes_[at]))
                retire(at);
            else
                ++n_working;
        }
        if (n_working > 0) {
            set_steps();
            for (int at = 0; at < kLanes; ++at)
                if (lanes_[at].label >= 0 && lanes_[at].is_near) retire(at);
            search_lines();
        }
        const double share = std::chrono::duration<double>(Clock::now() - begin_time).count() / n_busy;
        for (int at = 0; at < kLanes; ++at) {
            Lane& lane = lanes_[at];
            if (lane.label < 0) continue;
            lane.record.seconds += share;
            if (config_.keep_history) {
                lane.record.history.back().seconds = static_cast<float>(share);
                lane.record.history.back().cg_steps = lane.record.cg_steps - lane.earlier_cg_steps;
                lane.earlier_cg_steps = lane.record.cg_steps;
            }
            const bool is_stuck = lane.step_size == 0.0F;  // no step lowers the objective any more
            if (!is_stuck && lane.record.iterations < config_.max_iterations) continue;
            lane.record.converged = is_stuck && meets_rule(lane);
            retire(at);
        }
    }
}

template <class Rows, class LossFunction>
bool NewtonTrainer<Rows, LossFunction>::begin(Lane& lane, int at, std::int64_t label) {
    const auto positives = labels_.positives.row_labels(label);
    lane.record = {};
    std::fill(column_.begin(), column_.end(), 0.0F);
    const bool is_asked = config_.train_empty || !positives.empty();
    if (is_asked) lane.start = starter_.prepare(label);
    if (!is_asked || lane.start.tolerance <= 0.0) {
        sink_.put(label, column_.data(), rows_.n_features(), {});
        control_.add_done(1);
        return false;
    }
    lane.label = label;
    lane.is_fresh = true;
    lane.n_final_steps = 0;
    lane.is_near = false;
    starter_.set_weights(label, lane.start, column_.data());
    if (hessians_) hessians_->begin(at);
    for (std::int64_t f = 0; f < width_; ++f) weights_[f][at] = column_[f];
    if (config_.keep_history)
        for (std::int64_t f = 0; f < width_; ++f) first_weights_[f][at] = column_[f];
    lane.earlier_cg_steps = 0;
    negative_costs_[at] = static_cast<float>(config_.cost);
    positive_costs_[at] = static_cast<float>(lane.start.positive_cost);
    const bool has_many = std::ssize(positives) > kManyPositives;
    counted_[at] = has_many ? 0.0F : static_cast<float>(kSampled);
    counted_of_many_[at] = has_many ? static_cast<float>(kSampledOfMany) : 0.0F;
    return true;
}

template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::index_positives() {
    positives_.clear();
    for (int at = 0; at < kLanes; ++at)
        if (lanes_[at].label >= 0)
            for (const std::int32_t row : labels_.positives.row_labels(lanes_[at].label))
                positives_.emplace_back(row, at);
    std::sort(positives_.begin(), positives_.end());
    positives_.emplace_back(static_cast<std::int32_t>(rows_.n_rows()), 0);  // a row no cursor passes
}

template <class Rows, class LossFunction>
auto NewtonTrainer<Rows, LossFunction>::row_signs(std::int64_t row, std::size_t& cursor) const -> RowSigns {
    while (positives_[cursor].first < row) ++cursor;
    std::uint32_t positive = 0;
    for (; positives_[cursor].first == row; ++cursor) positive |= 1U << positives_[cursor].second;
    RowSigns out{Lanes{} - 1.0F, negative_costs_};
    if (positive != 0) {
        out.signs = choose(positive, Lanes{} + 1.0F, out.signs);
        out.costs = choose(positive, positive_costs_, out.costs);
    }
    if (!labels_.row_weights.empty()) out.costs *= labels_.row_weights[row];
    return out;
}

template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::set_fresh_margins() {
    LaneMask fresh = {};
    for (int at = 0; at < kLanes; ++at) fresh[at] = lanes_[at].is_fresh ? -1 : 0;
    LaneSum loss;
    LaneSum zero_loss;
    const Lanes value_at_zero = LossFunction::value(Lanes{});
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        Lanes margins = weights_.back() * config_.bias;
        rows_.template lane_dots<1>(row, weights_.data(), &margins);
        margins_[row] = select(fresh, margins, margins_[row]);
        if (!hessians_) continue;
        const RowSigns at_row = row_signs(row, cursor);
        loss.add(at_row.costs * LossFunction::value(at_row.signs * margins_[row]));
        zero_loss.add(at_row.costs * value_at_zero);
    }
    loss.flush();
    zero_loss.flush();
    if (hessians_) reject_starts(fresh, loss.total, zero_loss.total);
}

// Let fresh lanes begin at zero whose start is not much better than that.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::reject_starts(const LaneMask& fresh, const double* loss,
                                                      const double* zero_loss) {
    LaneMask rejected = {};
    for (int at = 0; at < kLanes; ++at)
        if (fresh[at] != 0 && loss[at] > kStartShare * zero_loss[at]) rejected[at] = -1;
    for (auto* vectors : {&margins_, &weights_, &first_weights_})
        for (Lanes& entry : *vectors) entry = select(rejected, Lanes{}, entry);
}

// ∇L in all lanes, with the curvatures, the objective and the active rows on the way.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::set_gradient() {
    gradient_ = weights_;
    LaneSum loss;
    LaneSum n_active;
    if (!config_.regularize_bias) gradient_.back() = Lanes{};
    LaneSum half_squares = inner(gradient_, gradient_);
    active_rows_.clear();
    const bool samples = !little_curvatures_.empty();
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        if (!Rows::kSparse && row % kGradientRows == 0) flush_gradient();
        const RowSigns at_row = row_signs(row, cursor);
        const Lanes z = at_row.signs * margins_[row];
        const Lanes curvature = at_row.costs * LossFunction::curvature(z);
        // Each lane decides for itself: no label sees which others share its lanes.
        const Lanes little = Lanes{} + (samples ? little_curvatures_[row] : 0.0F);
        Lanes counted = row % kSampled == 0 ? counted_ : Lanes{};
        if (row % kSampledOfMany == 0) counted += counted_of_many_;
        curvatures_[row] = select(curvature > little, curvature, curvature * counted);
        if (bits_greater(curvature, Lanes{}) == 0) continue;
        if (bits_greater(curvatures_[row], Lanes{}) != 0) active_rows_.push_back(static_cast<std::int32_t>(row));
        n_active.add(select(curvature > 0.0F, Lanes{} + 1.0F, Lanes{}));
        loss.add(at_row.costs * LossFunction::value(z));
        const Lanes slope = at_row.costs * at_row.signs * LossFunction::slope(z);
        rows_.lane_add(row, slope, gradient_.data());
        gradient_.back() += slope * config_.bias;
    }
    loss.flush();
    n_active.flush();
    if (!Rows::kSparse) {
        flush_gradient();
        for (std::int64_t f = 0; f < width_; ++f)
            for (int at = 0; at < kLanes; ++at)
                gradient_[f][at] = static_cast<float>(std::exchange(gradient_sums_[f * kLanes + at], 0.0));
    }
    const LaneSum squares = inner(gradient_, gradient_);
    for (int at = 0; at < kLanes; ++at) {
        Lane& lane = lanes_[at];
        if (lane.label < 0) continue;
        lane.gradient_norm = std::sqrt(squares.total[at]);
        lane.record.last_objective = 0.5 * half_squares.total[at] + loss.total[at];
        lane.record.gradient_ratio = lane.gradient_norm / lane.start.zero_gradient;
        if (lane.is_fresh) lane.record.first_objective = lane.record.last_objective;
        lane.is_fresh = false;
        if (config_.keep_history)
            lane.record.history.push_back({lane.record.last_objective, static_cast<std::int32_t>(n_active.total[at]),
                                           lane.record.iterations == 0 ? 0.0F : lane.step_size});
    }
}

// Add what the last rows gave to the gradient to its sums: float32 would lose the digits of a rare label's gradient.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::flush_gradient() {
    for (std::int64_t f = 0; f < width_; ++f) {
        float parts[kLanes];
        store(gradient_[f], parts);
        for (int at = 0; at < kLanes; ++at) gradient_sums_[f * kLanes + at] += parts[at];
        gradient_[f] = Lanes{};
    }
}

// How far above its minimum L may be in the end. The stopping rule says little about that for labels with many positives,
// whose tolerance is large. Half of ε₀²·L, as what is compared with it is right only while no row crosses its margin.
template <class Rows, class LossFunction>
double NewtonTrainer<Rows, LossFunction>::most_gap(const Lane& lane) const {
    if (!config_.working_sets) return std::numeric_limits<double>::infinity();  // as in the paper
    return 0.5 * config_.tolerance * config_.tolerance * lane.record.last_objective;
}

template <class Rows, class LossFunction>
bool NewtonTrainer<Rows, LossFunction>::is_finished(Lane& lane) const {
    if (!meets_rule(lane)) return false;
    // No curvature is below 1, so L is at most ½‖∇L‖² above its minimum. float32 may not reach that, and a label that meets
    // the rule has converged however many steps are left.
    return 0.5 * lane.gradient_norm * lane.gradient_norm <= most_gap(lane) || lane.n_final_steps++ == kMaxFinalSteps ||
           lane.record.iterations + 1 >= config_.max_iterations;
}

// L is at most `gap` above its minimum, by its quadratic model.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::note_gap(Lane& lane, double gap) const {
    lane.is_near = meets_rule(lane) && gap <= most_gap(lane);
}

// Hand a label over and empty its lane.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::retire(int at) {
    Lane& lane = lanes_[at];
    for (std::int64_t f = 0; f < width_; ++f) {
        column_[f] = weights_[f][at];
        weights_[f][at] = 0.0F;
    }
    if (config_.keep_history) {
        double square = 0.0;
        for (std::int64_t f = 0; f < width_; ++f) {
            const double moved = static_cast<double>(column_[f]) - first_weights_[f][at];
            square += moved * moved;
        }
        lane.record.distance = std::sqrt(square);
    }
    sink_.put(lane.label, column_.data(), rows_.n_features(), std::move(lane.record));
    control_.add_done(1);
    lane.record = {};
    lane.label = -1;
    negative_costs_[at] = 0.0F;
    positive_costs_[at] = 0.0F;
}

template <class Rows, class LossFunction>
auto NewtonTrainer<Rows, LossFunction>::inner(const AlignedVector<Lanes>& a, const AlignedVector<Lanes>& b) const
    -> LaneSum {
    LaneSum out;
    for (std::int64_t f = 0; f < width_; ++f) out.add(a[f] * b[f]);
    out.flush();
    return out;
}

template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::set_preconditioner() {
    std::fill(preconditioner_.begin(), preconditioner_.end(), Lanes{} + 1.0F);
    if (!config_.regularize_bias) preconditioner_.back() = Lanes{};
    for (const std::int32_t row : active_rows_) {
        const Lanes curvature = curvatures_[row];
        rows_.for_each(row, [&](std::int32_t f, float value) { preconditioner_[f] += curvature * (value * value); });
        preconditioner_.back() += curvature * (config_.bias * config_.bias);
    }
    for (Lanes& entry : preconditioner_) entry = 1.0F / ((1.0F - kDiagonalShare) + kDiagonalShare * entry);
}

// product_ = H · direction_
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::hessian_product() {
    product_ = direction_;
    if (!config_.regularize_bias) product_.back() = Lanes{};
    std::int64_t n_done = 0;
    for (const std::int32_t row : active_rows_) {
        if (n_done++ % 4096 == 0) control_.throw_if_stopped();
        Lanes along = direction_.back() * config_.bias;
        rows_.template lane_dots<1>(row, direction_.data(), &along);
        along *= curvatures_[row];
        rows_.lane_add(row, along, product_.data());
        product_.back() += along * config_.bias;
    }
}

template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::set_steps() {
    if (!hessians_) {
        set_cg_steps();
        return;
    }
    std::uint32_t busy = 0;
    for (int at = 0; at < kLanes; ++at) busy |= lanes_[at].label >= 0 ? 1U << at : 0U;
    hessians_->update(curvatures_, busy);
    std::fill(step_.begin(), step_.end(), Lanes{});
    for (int at = 0; at < kLanes; ++at)
        if (lanes_[at].label >= 0) hessians_->solve(at, gradient_, step_);
    const LaneSum slopes = inner(gradient_, step_);
    for (int at = 0; at < kLanes; ++at)
        if (lanes_[at].label >= 0) note_gap(lanes_[at], -0.5 * slopes.total[at]);
}

// Preconditioned conjugate gradients on H p = -∇L in every lane that still works. A lane whose residual is small enough
// (CgRule::residual: a fixed share of the gradient; CgRule::quadratic: LIBLINEAR's min(½, √‖g‖) in the preconditioner's
// norm, or slow progress of the quadratic model) keeps its step while the others go on.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::set_cg_steps() {
    set_preconditioner();
    std::fill(step_.begin(), step_.end(), Lanes{});
    for (std::int64_t f = 0; f < width_; ++f) {
        residual_[f] = -gradient_[f];
        direction_[f] = residual_[f] * preconditioner_[f];
    }
    LaneSum current = inner(residual_, direction_);  // rᵀM⁻¹r
    const bool quadratic = config_.cg_rule == CgRule::quadratic;
    bool is_working[kLanes];
    double goals[kLanes];
    double models[kLanes] = {};  // value of the quadratic model at the step so far
    for (int at = 0; at < kLanes; ++at) {
        is_working[at] = lanes_[at].label >= 0;
        if (!is_working[at]) continue;
        const double norm = std::sqrt(current.total[at]);
        const double share = quadratic ? std::min(0.5, std::sqrt(norm)) : config_.cg_tolerance;
        goals[at] = share * share * current.total[at];
    }
    for (int steps = 1; steps <= kMaxCgSteps; ++steps) {
        hessian_product();
        const LaneSum curvature = inner(direction_, product_);
        Lanes length = {};
        for (int at = 0; at < kLanes; ++at) {
            if (!is_working[at]) continue;
            if (curvature.total[at] > 0.0)
                length[at] = static_cast<float>(current.total[at] / curvature.total[at]);
            else
                is_working[at] = false;
            ++lanes_[at].record.cg_steps;
        }
        for (std::int64_t f = 0; f < width_; ++f) {
            step_[f] += length * direction_[f];
            residual_[f] -= length * product_[f];
            product_[f] = residual_[f] * preconditioner_[f];
        }
        const LaneSum next = inner(residual_, product_);
        Lanes turn = {};
        for (int at = 0; at < kLanes; ++at) {
            if (!is_working[at]) continue;
            const double gain = 0.5 * static_cast<double>(length[at]) * current.total[at];  // the model falls by this
            models[at] -= gain;
            if (next.total[at] <= goals[at] || (quadratic && steps * gain <= 0.5 * -models[at])) is_working[at] = false;
            turn[at] = static_cast<float>(next.total[at] / current.total[at]);
        }
        // The model would fall by at most ½‖r‖² further.
        const bool any_final = std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
            return config_.working_sets && lane.label >= 0 && lane.n_final_steps > 0;
        });
        const LaneSum squares = any_final ? inner(residual_, residual_) : LaneSum{};
        for (int at = 0; at < kLanes; ++at) {
            if (!is_working[at] || !any_final) continue;
            note_gap(lanes_[at], 0.5 * squares.total[at] - models[at]);
            is_working[at] = !lanes_[at].is_near;
        }
        if (std::none_of(is_working, is_working + kLanes, [](bool works) { return works; })) return;
        for (std::int64_t f = 0; f < width_; ++f) direction_[f] = product_[f] + turn * direction_[f];
        current = next;
    }
}

// Backtracking by halves in every lane, on margins only: L(w + λp) needs no walk over features.
template <class Rows, class LossFunction>
void NewtonTrainer<Rows, LossFunction>::search_lines() {
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        Lanes along = step_.back() * config_.bias;
        rows_.template lane_dots<1>(row, step_.data(), &along);
        along_[row] = along;
    }
    const LaneSum slopes = inner(gradient_, step_);
    const Lanes last_weight = weights_.back();
    if (!config_.regularize_bias) weights_.back() = Lanes{};
    const LaneSum crosses = inner(weights_, step_);
    weights_.back() = last_weight;
    LaneSum squares = inner(step_, step_);
    Lanes trial = {};
    for (int at = 0; at < kLanes; ++at) {
        Lane& lane = lanes_[at];
        lane.searching = lane.label >= 0;
        lane.step_size = 0.0F;
        if (!lane.searching) continue;
        trial[at] = 1.0F;
        ++lane.record.iterations;
        if (!config_.regularize_bias) squares.total[at] -= static_cast<double>(step_.back()[at]) * step_.back()[at];
    }
    for (int halving = 0; halving <= kMaxHalvings; ++halving) {
        // Differences, not values, are added up: near the minimum they are what is left of the digits.
        LaneSum change;
        std::size_t cursor = 0;
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
            const RowSigns at_row = row_signs(row, cursor);
            const Lanes z = at_row.signs * margins_[row];
            const Lanes moved = at_row.signs * (margins_[row] + trial * along_[row]);
            change.add(at_row.costs * (LossFunction::value(moved) - LossFunction::value(z)));
        }
        change.flush();
        bool any = false;
        for (int at = 0; at < kLanes; ++at) {
            Lane& lane = lanes_[at];
            if (!lane.searching) continue;
            const double size = trial[at];
            const double total = size * crosses.total[at] + 0.5 * size * size * squares.total[at] + change.total[at];
            if (total <= kArmijo * size * slopes.total[at]) {
                lane.step_size = trial[at];
                lane.searching = false;
                trial[at] = 0.0F;
            } else {
                trial[at] *= 0.5F;
                any = true;
            }
        }
        if (!any) break;
    }
    Lanes accepted = {};
    for (int at = 0; at < kLanes; ++at) {
        accepted[at] = lanes_[at].step_size;
    }
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) margins_[row] += accepted * along_[row];
    for (std::int64_t f = 0; f < width_; ++f) weights_[f] += accepted * step_[f];
}

template class NewtonTrainer<SparseRows, SquaredHinge>;
template class NewtonTrainer<SparseRows, Logistic>;
template class NewtonTrainer<DenseRows, SquaredHinge>;
template class NewtonTrainer<DenseRows, Logistic>;

}  // namespace longtail::linear
