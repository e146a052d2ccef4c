#include "linear/working_set.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::linear {

namespace {

constexpr std::int64_t kFirstRows = 64;        // a first working set has at least so many rows, if they are near enough
constexpr float kFirstSlack = 0.5F;            // near: margin above -1 - kFirstSlack at the start
constexpr std::int64_t kGramRows = 900;        // larger sets of sparse rows are solved by rows
constexpr std::int64_t kFirstGramRows = 384;
constexpr std::int64_t kMinGrowth = 32;
constexpr double kRowsGrowth = 0.5;            // the same when solved by rows, where idle rows cost little
constexpr double kGrowth = 0.3;                // a set grows by at most this share of itself in one round
constexpr double kRoundShare = 0.05;           // a round need not reduce its gradient further than this
constexpr std::size_t kMinCandidates = 8192;
constexpr int kMaxStalls = 5;
constexpr float kNever = std::numeric_limits<float>::infinity();

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

template <class Rows>
WorkingSetTrainer<Rows>::WorkingSetTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                           const OvaStart& start, const OvaConfig& config, LabelSink& sink,
                                           Control& control)
    : rows_(rows),
      labels_(labels),
      start_(start),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      row_solver_(rows, config),
      lanes_(kWidth) {
    lane_weights_.assign(static_cast<std::size_t>(rows.n_features() * kBlocks), Lanes{});
    if (Rows::kSparse) scatter_.assign(static_cast<std::size_t>(rows.n_features()), Lanes{});
    weights_.assign(static_cast<std::size_t>(rows.n_features() + 1), 0.0F);
    gradient_.resize(weights_.size());
    for (int at = 0; at < kWidth; ++at) set_floor(at, kNever);
}

template <class Rows>
std::vector<std::int32_t> WorkingSetTrainer<Rows>::train(std::span<const std::int32_t> label_ids) {
    std::vector<std::int32_t> refused;
    std::size_t next = 0;
    for (;;) {
        int n_busy = 0;
        for (int at = 0; at < kWidth; ++at) {
            while (lanes_[at].label < 0 && next < label_ids.size())
                if (begin(lanes_[at], at, label_ids[next++])) break;
            n_busy += lanes_[at].label >= 0 ? 1 : 0;
        }
        if (n_busy == 0) return refused;
        const auto scan_begin = Clock::now();
        scan();
        const double scan_share = seconds_since(scan_begin) / n_busy;
        for (int at = 0; at < kWidth; ++at) {
            Lane& lane = lanes_[at];
            if (lane.label < 0) continue;
            const auto lane_begin = Clock::now();
            lane.record.seconds += scan_share;
            const bool finished = advance(lane, at, refused);
            lane.record.seconds += seconds_since(lane_begin);
            if (!finished) continue;
            if (refused.empty() || refused.back() != lane.label) {
                sink_.put(lane.label, weights_.data(), rows_.n_features(), std::move(lane.record));
                control_.add_done(1);
            }
            clear_lane(lane, at);
            control_.throw_if_stopped();
        }
    }
}

// Put a label's start into an empty lane; false when there is nothing to train.
template <class Rows>
bool WorkingSetTrainer<Rows>::begin(Lane& lane, int at, std::int64_t label) {
    const auto positives = labels_.positives.row_labels(label);
    lane.record = {};
    const bool is_asked = config_.train_empty || !positives.empty();
    if (is_asked) lane.start = starter_.prepare(label);
    if (!is_asked || lane.start.tolerance <= 0.0) {  // w = 0 is the answer, or no question was asked
        std::fill(weights_.begin(), weights_.end(), 0.0F);
        sink_.put(label, weights_.data(), rows_.n_features(), {});
        control_.add_done(1);
        return false;
    }
    lane.label = label;
    lane.at_start = true;
    lane.by_rows = false;
    lane.inner_share = 0.3;
    lane.problem.clear();
    lane.sorted_rows.clear();
    std::fill(weights_.begin(), weights_.end(), 0.0F);
    float& bias_weight = weights_[rows_.n_features()];
    if (lane.start.positives_scale != 0.0) {
        const float scale = static_cast<float>(lane.start.positives_scale);
        for (const std::int32_t row : positives) rows_.add_to(row, scale, weights_.data());
        bias_weight = scale * config_.bias * static_cast<float>(positives.size());
    }
    if (start_.kind == StartKind::own) {
        const auto ids = start_.own_weights.row_indices(label);
        const auto values = start_.own_weights.row_values(label);
        for (std::size_t i = 0; i < ids.size(); ++i) weights_[ids[i]] += values[i];
        if (config_.bias != 0.0F) bias_weight += start_.own_biases[label] / config_.bias;
    }
    bias_weight += static_cast<float>(lane.start.bias_weight);
    write_lane(lane, at);
    shared_scales_[at / kLanes][at % kLanes] = static_cast<float>(lane.start.shared_scale);
    set_floor(at, -1.0F - kFirstSlack);
    return true;
}

// One pass over all rows for all lanes: what lies above a lane's floor becomes its candidate.
template <class Rows>
void WorkingSetTrainer<Rows>::scan() {
    for (Lane& lane : lanes_) {
        lane.candidates.clear();
        lane.max_candidates = std::max<std::size_t>(kMinCandidates, 2 * lane.problem.row_ids.size());
        lane.n_violating = 0;
        lane.violation = 0.0;
        lane.truncated = false;
    }
    const float* shared_margins = starter_.shared_margins().data();
    bool uses_shared = false;
    for (const Lane& lane : lanes_)
        uses_shared = uses_shared || (lane.label >= 0 && lane.at_start && lane.start.shared_scale != 0.0);
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        Lanes margins[kBlocks];
        const float shared = uses_shared ? shared_margins[row] : 0.0F;
        for (int block = 0; block < kBlocks; ++block) margins[block] = biases_[block] + shared * shared_scales_[block];
        rows_.template lane_dots<kBlocks>(row, lane_weights_.data(), margins);
        for (int block = 0; block < kBlocks; ++block) {
            std::uint32_t above = bits_greater(margins[block], floors_[block]);
            for (; above != 0; above &= above - 1) {
                const int lane = std::countr_zero(above);
                report(block * kLanes + lane, static_cast<std::int32_t>(row), margins[block][lane]);
            }
        }
    }
}

template <class Rows>
void WorkingSetTrainer<Rows>::report(int at, std::int32_t row, float margin) {
    Lane& lane = lanes_[at];
    if (margin > -1.0F) {
        ++lane.n_violating;
        lane.violation += (1.0 + margin) * (1.0 + margin);
    }
    if (lane.truncated && margin <= lane.candidates.front().margin) return;
    lane.candidates.push_back({row, margin});
    if (lane.candidates.size() >= 2 * lane.max_candidates) shrink(lane, at);
}

// Too many candidates to keep: only the worst can join the working set in this round anyway.
template <class Rows>
void WorkingSetTrainer<Rows>::shrink(Lane& lane, int) {
    const auto middle = lane.candidates.begin() + static_cast<std::ptrdiff_t>(lane.max_candidates);
    std::nth_element(lane.candidates.begin(), middle, lane.candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                         return a.margin > b.margin || (a.margin == b.margin && a.row_id < b.row_id);
                     });
    std::swap(*lane.candidates.begin(), *middle);  // the lowest kept margin in front: what report() compares with
    lane.candidates.resize(lane.max_candidates);
    lane.truncated = true;
}

// One round of one label after a pass; true when it is finished, with its weights in weights_, or refused.
template <class Rows>
bool WorkingSetTrainer<Rows>::advance(Lane& lane, int at, std::vector<std::int32_t>& refused) {
    const auto n_positives = static_cast<std::int64_t>(labels_.positives.row_labels(lane.label).size());
    if (lane.at_start) {
        if (2 * (lane.n_violating - n_positives) > rows_.n_rows()) {
            refused.push_back(static_cast<std::int32_t>(lane.label));
            return true;
        }
        choose_first_rows(lane, at);
        if (config_.keep_history) record_start(lane, at);
        solve(lane, true);
        lane.at_start = false;
        shared_scales_[at / kLanes][at % kLanes] = 0.0F;
    } else {
        if (is_converged(lane)) return true;
        if (lane.record.iterations >= config_.max_iterations) {
            lane.record.converged = false;
            set_weights(lane);
            return true;
        }
        if (!grow(lane)) {
            // Nothing to add, and still not small enough: the restricted problem was not solved well enough.
            lane.inner_share *= 0.2;
            if (lane.inner_share < 0.3 * std::pow(0.2, kMaxStalls)) {
                lane.record.converged = false;
                set_weights(lane);
                return true;
            }
        }
        solve(lane, false);
    }
    set_weights(lane);
    write_lane(lane, at);
    set_floor(at, -1.0F);
    return false;
}

// All positives, and the negatives that the start places nearest to them.
template <class Rows>
void WorkingSetTrainer<Rows>::choose_first_rows(Lane& lane, int at) {
    const auto positives = labels_.positives.row_labels(lane.label);
    const auto n_positives = static_cast<std::int64_t>(positives.size());
    const std::int64_t n_wanted = std::max(kFirstRows, 2 * n_positives);
    std::sort(lane.candidates.begin(), lane.candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.row_id < b.row_id; });
    std::vector<Candidate> negatives;
    std::size_t p = 0;
    for (const Candidate& candidate : lane.candidates) {
        while (p < positives.size() && positives[p] < candidate.row_id) ++p;
        if (p == positives.size() || positives[p] != candidate.row_id) negatives.push_back(candidate);
    }
    const std::int64_t n_violating = std::count_if(negatives.begin(), negatives.end(),
                                                   [](const Candidate& c) { return c.margin > -1.0F; });
    // Begin small enough for a Gram matrix: its cheap solution is where a larger set then continues.
    const std::int64_t n_most = Rows::kSparse ? std::max(n_wanted, kFirstGramRows - n_positives) : 4 * n_wanted;
    const std::int64_t n_taken =
        std::min({std::clamp(n_violating, n_wanted, std::max(n_wanted, std::min(4 * n_wanted, n_most))),
                  static_cast<std::int64_t>(negatives.size())});
    const auto nearest = [](const Candidate& a, const Candidate& b) {
        return a.margin > b.margin || (a.margin == b.margin && a.row_id < b.row_id);
    };
    if (n_taken < static_cast<std::int64_t>(negatives.size())) {
        std::nth_element(negatives.begin(), negatives.begin() + n_taken, negatives.end(), nearest);
        negatives.resize(static_cast<std::size_t>(n_taken));
        std::sort(negatives.begin(), negatives.end(),
                  [](const Candidate& a, const Candidate& b) { return a.row_id < b.row_id; });
    }
    // The positives' margins at the start are read from the lane: weights_ serves another label by now.
    const float bias = biases_[at / kLanes][at % kLanes];
    const float scale = static_cast<float>(lane.start.shared_scale);
    for (const std::int32_t row : positives) {
        float margin = bias + (scale != 0.0F ? scale * starter_.shared_margins()[row] : 0.0F);
        rows_.for_each(row, [&](std::int32_t feature, float value) { margin += value * *lane_weight(feature, at); });
        lane.problem.append(row, 1.0F, static_cast<float>(lane.start.positive_cost), margin);
    }
    for (const Candidate& candidate : negatives)
        lane.problem.append(candidate.row_id, -1.0F, static_cast<float>(config_.cost), candidate.margin);
    lane.sorted_rows = lane.problem.row_ids;
    std::sort(lane.sorted_rows.begin(), lane.sorted_rows.end());
}

// The objective at the start, for the statistics.
template <class Rows>
void WorkingSetTrainer<Rows>::record_start(Lane& lane, int at) {
    const float scale = static_cast<float>(lane.start.shared_scale);
    for (std::int64_t feature = 0; feature < rows_.n_features(); ++feature)
        weights_[feature] =
            *lane_weight(feature, at) + (scale != 0.0F ? scale * starter_.shared()[feature] : 0.0F);
    weights_.back() = (config_.bias != 0.0F ? biases_[at / kLanes][at % kLanes] / config_.bias : 0.0F) +
                      (scale != 0.0F ? scale * starter_.shared().back() : 0.0F);
    const LossOverRows over_rows = loss_over_rows(lane);
    lane.record.first_objective = half_square() + over_rows.loss;
    lane.record.history.push_back({lane.record.first_objective, over_rows.n_active, 0.0F});
}

// What the last pass and the positives' margins (first in the working set) say about all rows.
template <class Rows>
auto WorkingSetTrainer<Rows>::loss_over_rows(const Lane& lane) const -> LossOverRows {
    LossOverRows out{config_.cost * lane.violation, static_cast<std::int32_t>(lane.n_violating)};
    for (std::int64_t i = 0; i < lane.problem.size() && lane.problem.signs[i] > 0.0F; ++i) {
        const double margin = lane.problem.margins[i];
        if (margin > -1.0) {  // the pass took it for a violating negative
            out.loss -= config_.cost * (1.0 + margin) * (1.0 + margin);
            --out.n_active;
        }
        if (margin < 1.0) {
            out.loss += lane.start.positive_cost * (1.0 - margin) * (1.0 - margin);
            ++out.n_active;
        }
    }
    return out;
}

// Add the worst violators outside the working set; false when there are none.
template <class Rows>
bool WorkingSetTrainer<Rows>::grow(Lane& lane) {
    auto& found = lane.candidates;  // is_converged() left only rows outside the set
    if (found.empty()) return false;
    const auto size = static_cast<double>(lane.problem.size());
    const double growth = lane.by_rows ? kRowsGrowth : kGrowth;
    const auto limit = static_cast<std::size_t>(std::max<double>(kMinGrowth, growth * size));
    if (found.size() > limit) {
        std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(limit), found.end(),
                         [](const Candidate& a, const Candidate& b) {
                             return a.margin > b.margin || (a.margin == b.margin && a.row_id < b.row_id);
                         });
        found.resize(limit);
        std::sort(found.begin(), found.end(),
                  [](const Candidate& a, const Candidate& b) { return a.row_id < b.row_id; });
    }
    const auto middle = static_cast<std::ptrdiff_t>(lane.sorted_rows.size());
    for (const Candidate& candidate : found) {
        lane.problem.append(candidate.row_id, -1.0F, static_cast<float>(config_.cost), candidate.margin);
        lane.sorted_rows.push_back(candidate.row_id);
    }
    std::inplace_merge(lane.sorted_rows.begin(), lane.sorted_rows.begin() + middle, lane.sorted_rows.end());
    return true;
}

template <class Rows>
void WorkingSetTrainer<Rows>::solve(Lane& lane, bool from_margins) {
    const double tolerance = lane.inner_share * lane.start.tolerance;
    const bool by_rows = !Rows::kSparse || !config_.regularize_bias || lane.problem.size() > kGramRows;
    if (by_rows && !lane.by_rows) {
        set_weights(lane);
        lane.weights.assign(weights_.begin(), weights_.end());
        lane.by_rows = true;
    }
    if (lane.by_rows) {
        lane.inner = row_solver_.solve(lane.problem, lane.weights.data(), tolerance, kRoundShare);
    } else {
        if constexpr (Rows::kSparse)
            lane.problem.gram.extend(rows_, lane.problem.row_ids, config_.bias, scatter_.data());
        lane.inner = gram_solver_.solve(lane.problem, tolerance, kRoundShare, from_margins);
    }
    ++lane.record.iterations;
    lane.record.cg_steps += lane.inner.cg_steps;
}

// The label's weights, from the betas or as they are, into weights_.
template <class Rows>
void WorkingSetTrainer<Rows>::set_weights(Lane& lane) {
    if (lane.by_rows) {
        std::copy(lane.weights.begin(), lane.weights.end(), weights_.begin());
    } else {
        std::fill(weights_.begin(), weights_.end(), 0.0F);
        float bias_weight = 0.0F;
        for (std::int64_t i = 0; i < lane.problem.size(); ++i) {
            if (lane.problem.betas[i] == 0.0F) continue;
            rows_.add_to(lane.problem.row_ids[i], lane.problem.betas[i], weights_.data());
            bias_weight += lane.problem.betas[i] * config_.bias;
        }
        weights_.back() = bias_weight;
    }
}

// ½‖w‖² of what is regularised of weights_.
template <class Rows>
double WorkingSetTrainer<Rows>::half_square() const {
    const double bias_part = config_.regularize_bias ? static_cast<double>(weights_.back()) * weights_.back() : 0.0;
    return 0.5 * (dot(weights_.data(), weights_.data(), rows_.n_features()) + bias_part);
}

// Decide by the gradient over all rows, in float64 from freshly computed margins; leaves the violators outside the
// working set in lane.candidates.
template <class Rows>
bool WorkingSetTrainer<Rows>::is_converged(Lane& lane) {
    auto& found = lane.candidates;
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.row_id < b.row_id; });
    std::size_t in_set = 0;
    std::size_t n_outside = 0;
    double outside = 0.0;  // Σ of their violations
    for (const Candidate& candidate : found) {
        while (in_set < lane.sorted_rows.size() && lane.sorted_rows[in_set] < candidate.row_id) ++in_set;
        if (in_set < lane.sorted_rows.size() && lane.sorted_rows[in_set] == candidate.row_id) continue;
        outside += 1.0 + candidate.margin;
        found[n_outside++] = candidate;
    }
    found.resize(n_outside);
    // The bias component of the gradient alone can prove that it is too early.
    const double at_least = 2.0 * config_.cost * outside * config_.bias - lane.inner.gradient_norm;
    if (!config_.keep_history && (lane.truncated || at_least > lane.start.tolerance)) return false;

    set_weights(lane);
    std::copy(weights_.begin(), weights_.end(), gradient_.begin());
    if (!config_.regularize_bias) gradient_.back() = 0.0;
    const auto add = [&](std::int32_t row, double sign, double cost, double margin) {
        const double gap = 1.0 - sign * margin;
        if (gap <= 0.0) return;
        rows_.add_to(row, -2.0 * cost * sign * gap, gradient_.data());
        gradient_.back() -= 2.0 * cost * sign * gap * config_.bias;
    };
    for (std::int64_t i = 0; i < lane.problem.size(); ++i) {
        const std::int32_t row = lane.problem.row_ids[i];
        const double margin = rows_.dot(row, weights_.data()) + config_.bias * weights_.back();
        add(row, lane.problem.signs[i], lane.problem.costs[i], margin);
    }
    for (const Candidate& candidate : found) add(candidate.row_id, -1.0, config_.cost, candidate.margin);
    double square = 0.0;
    for (const double entry : gradient_) square += entry * entry;
    const double norm = std::sqrt(square);
    const LossOverRows over_rows = loss_over_rows(lane);
    lane.record.last_objective = half_square() + over_rows.loss;
    lane.record.gradient_ratio = norm / lane.start.zero_gradient;
    if (config_.keep_history) lane.record.history.push_back({lane.record.last_objective, over_rows.n_active, 1.0F});
    return !lane.truncated && norm <= lane.start.tolerance;
}

template <class Rows>
void WorkingSetTrainer<Rows>::write_lane(Lane& lane, int at) {
    for (const std::int32_t feature : lane.support) *lane_weight(feature, at) = 0.0F;
    lane.support.clear();
    for (std::int64_t feature = 0; feature < rows_.n_features(); ++feature) {
        if (weights_[feature] == 0.0F) continue;
        *lane_weight(feature, at) = weights_[feature];
        lane.support.push_back(static_cast<std::int32_t>(feature));
    }
    biases_[at / kLanes][at % kLanes] = weights_.back() * config_.bias;
}

template <class Rows>
void WorkingSetTrainer<Rows>::clear_lane(Lane& lane, int at) {
    for (const std::int32_t feature : lane.support) *lane_weight(feature, at) = 0.0F;
    lane.support.clear();
    lane.label = -1;
    biases_[at / kLanes][at % kLanes] = 0.0F;
    shared_scales_[at / kLanes][at % kLanes] = 0.0F;
    set_floor(at, kNever);
}

template class WorkingSetTrainer<SparseRows>;
template class WorkingSetTrainer<DenseRows>;

}  // namespace longtail::linear
