// The loop over labels, and what is done for sixteen of them at once.

#include "linear/conjugate.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "linear/lane_sum.hpp"
#include "linear/sums.hpp"

namespace longtail::linear {

namespace {

// At higher costs working sets are small, and steps are more: on Bibtex, Delicious, debtags and EURLex-4K, working sets are
// quicker from 0.2 to 0.3 on where rows have so many words, and not before 0.4 where they have fewer.
constexpr double kLowCost = 0.4;
constexpr double kLowCostOfLongRows = 0.25;
// A step walks over the rows several times besides their words, which counts where rows have fewer words than this.
constexpr std::int64_t kManyWords = 40;
constexpr int kMaxBackgroundSteps = 30;
constexpr double kBackgroundShare = 0.5;        // of the tolerance of a label with one positive
constexpr std::size_t kCachedBytes = 1U << 20;  // a greater table of directions is not in the second-level cache:
constexpr int kFetchAhead = 32;                 // lines are fetched so many entries before their turn
constexpr std::int64_t kRowsAhead = 4;          // and active rows so many rows before theirs
constexpr double kReach = 1.25;                 // rows are listed for steps up to this multiple of their first guess,
constexpr double kPadShare = 0.1;               // and with this share of the change of δ added to it
constexpr float kNearZero = 1e-5F;              // gaps that rounding may have moved across zero

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool has_long_rows(const SparseRows& rows) { return rows.n_stored() >= kManyWords * rows.n_rows(); }

}  // namespace

ConjugateTrainer::ConjugateTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                   const OvaStart& start, const OvaConfig& config, LabelSink& sink, Control& control)
    : rows_(rows),
      labels_(labels),
      moments_(moments),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      cost_(config.cost),
      stiffness_(1.0 / (static_cast<double>(config.bias) * config.bias)),
      n_features_(rows.n_features()),
      lanes_(kLanes) {
    directions_.assign(static_cast<std::size_t>(n_features_), Lanes{});
    gradients_.assign(static_cast<std::size_t>(n_features_), Lanes{});
    margins_.assign(static_cast<std::size_t>(rows.n_rows()), Lanes{});
    moves_.assign(static_cast<std::size_t>(rows.n_rows()), Lanes{});
    for (Lane& lane : lanes_) {
        lane.negatives.values.resize(static_cast<std::size_t>(rows.n_rows()));
        lane.negatives.moves.resize(static_cast<std::size_t>(rows.n_rows()));
        for (Curvature& curvature : lane.curvatures) {
            curvature.step.assign(static_cast<std::size_t>(n_features_), 0.0F);
            curvature.change = curvature.step;
        }
        for (auto* vector : {&lane.weights, &lane.gradient, &lane.earlier, &lane.direction})
            vector->assign(static_cast<std::size_t>(n_features_), 0.0F);
    }
    checked_.resize(static_cast<std::size_t>(n_features_));
}

bool ConjugateTrainer::knows(const OvaStart& start, const OvaConfig& config) {
    return config.loss == Loss::squared_hinge && config.working_sets && config.regularize_bias && config.bias > 0.0F &&
           start.kind == StartKind::mean_separating;
}

bool ConjugateTrainer::suits(const SparseRows& rows, const OvaStart& start, const OvaConfig& config) {
    return knows(start, config) && config.cost <= (has_long_rows(rows) ? kLowCostOfLongRows : kLowCost);
}

bool ConjugateTrainer::suits_frequent(const SparseRows& rows, const OvaStart& start, const OvaConfig& config) {
    return knows(start, config) && has_long_rows(rows);
}

std::vector<std::int32_t> ConjugateTrainer::train(std::span<const std::int32_t> label_ids) {
    std::vector<std::int32_t> refused;
    if (label_ids.empty()) return refused;
    solve_background();
    std::size_t next = 0;
    for (;;) {
        int n_busy = 0;
        for (int at = 0; at < kLanes; ++at) {
            while (!lanes_[at].is_busy && next < label_ids.size()) begin(at, label_ids[next++]);
            n_busy += lanes_[at].is_busy ? 1 : 0;
        }
        if (n_busy == 0) return refused;
        const auto step_begin = Clock::now();
        step();
        const double step_share = seconds_since(step_begin) / n_busy;
        for (int at = 0; at < kLanes; ++at) {
            Lane& lane = lanes_[at];
            if (!lane.is_busy) continue;
            const auto lane_begin = Clock::now();
            const Outcome outcome = judge(lane);
            if (outcome == Outcome::goes_on) set_direction(lane);
            control_.throw_if_stopped();
            lane.record.seconds += step_share + seconds_since(lane_begin);
            if (outcome == Outcome::goes_on) continue;
            if (outcome == Outcome::refused)
                refused.push_back(static_cast<std::int32_t>(lane.label));
            else
                hand_over(lane);
            lane.is_busy = false;
            is_busy_[at] = 0.0F;
        }
    }
}

void ConjugateTrainer::hand_over(Lane& lane) {
    lane.weights.push_back(static_cast<float>((lane.shift - 1.0) / config_.bias));
    sink_.put(lane.label, lane.weights.data(), n_features_, std::move(lane.record));
    lane.weights.pop_back();
    control_.add_done(1);
}

// By the same steps, from w = 0, where all rows are active.
void ConjugateTrainer::solve_background() {
    Lane& lane = lanes_[0];
    const auto n_rows = static_cast<double>(rows_.n_rows());
    lane.is_busy = true;
    is_busy_[0] = 1.0F;
    lane.shift = stiffness_ / (stiffness_ + 2.0 * cost_ * n_rows);
    const auto slope = static_cast<float>(2.0 * cost_ * n_rows * lane.shift);
    for (std::int64_t f = 0; f < n_features_; ++f) lane.gradient[f] = slope * moments_.mean[f];
    for (std::int64_t f = 0; f < n_features_; ++f) lane.direction[f] = -lane.gradient[f];
    double mean_square = 0.0;
    for (const float value : moments_.mean) mean_square += static_cast<double>(value) * value;
    const double tolerance = kBackgroundShare * 2.0 * cost_ * config_.tolerance * std::sqrt(mean_square);
    background_.margins.assign(static_cast<std::size_t>(rows_.n_rows()), 0.0F);
    for (int n_steps = 0; n_steps < kMaxBackgroundSteps; ++n_steps) {
        step();
        if (std::sqrt(lane.gradient_square) <= tolerance) break;
        set_direction(lane);
    }
    // It need not be the solution: what labels take from here belongs together wherever it is.
    background_.weights = lane.weights;
    background_.gradient = lane.gradient;
    background_.shift = lane.shift;
    background_.objective = lane.objective;
    const float* const margins = reinterpret_cast<const float*>(margins_.data());
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) background_.margins[row] = margins[row * kLanes];
    lane.is_busy = false;
    is_busy_[0] = 0.0F;
}

// Put a label into an empty lane, if there is something to train.
void ConjugateTrainer::begin(int at, std::int64_t label) {
    Lane& lane = lanes_[at];
    const auto begin_time = Clock::now();
    lane.positives = labels_.positives.row_labels(label);
    const bool is_asked = config_.train_empty || !lane.positives.empty();
    if (is_asked) lane.start = starter_.prepare(label);
    if (!is_asked || lane.start.tolerance <= 0.0) {  // no positives, or w = 0 meets the rule
        sink_.put(label, std::vector<std::pair<std::int32_t, float>>{}, 0.0F, {});
        control_.add_done(1);
        return;
    }
    lane.is_busy = true;
    lane.label = label;
    lane.record = {};
    lane.n_misses = 0;
    lane.n_curvatures = 0;
    lane.end_norm = lane.start.tolerance;
    lane.weights = background_.weights;
    lane.shift = background_.shift;
    // The gradient is the background's, but for the positives.
    lane.gradient = background_.gradient;
    lane.objective = background_.objective;
    for (const std::int32_t row : lane.positives) {
        const double value = background_.margins[row];
        const double gap = std::max(0.0, 2.0 - lane.shift - value);
        const double as_negative = std::max(0.0, lane.shift + value);
        rows_.add_to(row, static_cast<float>(-2.0 * (lane.start.positive_cost * gap + cost_ * as_negative)),
                     lane.gradient.data());
        lane.objective += lane.start.positive_cost * gap * gap - cost_ * as_negative * as_negative;
    }
    lane.record.first_objective = lane.objective;
    for (std::int64_t f = 0; f < n_features_; ++f) lane.direction[f] = -lane.gradient[f];
    is_new_[at] = 1.0F;
    is_busy_[at] = 1.0F;
    lane.record.seconds += seconds_since(begin_time);
}

// One step of all lanes.
void ConjugateTrainer::step() {
    positives_.assign(lanes_, rows_.n_rows());
    write_directions();
    if (directions_.size() * sizeof(Lanes) > kCachedBytes)
        set_moves<kFetchAhead>();
    else
        set_moves<0>();
    is_new_ = Lanes{};
    guess_lengths();
    list_movers();
    for (Lane& lane : lanes_)
        if (lane.is_busy) search_line(lane);
    move_on();
    std::uint32_t ending = 0;
    for (int at = 0; at < kLanes; ++at) {
        if (!lanes_[at].is_busy) continue;
        read_gradient(lanes_[at], at);
        if (may_end(lanes_[at]) && !is_surely_converged(lanes_[at])) ending |= 1U << at;
    }
    if (ending != 0) list_near(ending);
}

void ConjugateTrainer::write_directions() {
    float* const table = reinterpret_cast<float*>(directions_.data());
    for (std::int64_t begin = 0; begin < n_features_; begin += kLanes) {
        const std::int64_t end = std::min(begin + kLanes, n_features_);
        for (int at = 0; at < kLanes; ++at) {
            if (!lanes_[at].is_busy) continue;
            const float* const direction = lanes_[at].direction.data();
            for (std::int64_t f = begin; f < end; ++f) table[f * kLanes + at] = direction[f];
        }
    }
}

// How the directions change the margins of all rows, and sums over the rows that are active now.
template <int kAhead>
void ConjugateTrainer::set_moves() {
    const CsrView& view = rows_.view();
    Lanes shifts{};
    for (int at = 0; at < kLanes; ++at) shifts[at] = static_cast<float>(lanes_[at].shift);
    LaneSum sums[5];
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        if constexpr (kAhead > 0) {
            const std::int64_t end = std::min(view.indptr[row + 1] + kAhead, rows_.n_stored());
            for (std::int64_t i = view.indptr[row] + kAhead; i < end; ++i)
                __builtin_prefetch(directions_.data() + view.indices[i]);
        }
        Lanes moves{};
        rows_.template lane_dots<1>(row, directions_.data(), &moves);
        const Lanes margins = select(is_new_ > Lanes{}, Lanes{} + background_.margins[row], margins_[row]);
        margins_[row] = margins;
        moves_[row] = moves;
        Lanes gaps = max_lanes(margins + shifts, Lanes{});
        if (positives_.has(row, cursor)) gaps = choose(positives_.take(row, cursor), Lanes{}, gaps);
        // Every row is added, active or not: rounding must not depend on the other lanes.
        const Lanes is_active = select(gaps > Lanes{}, Lanes{} + 1.0F, Lanes{});
        const Lanes active_moves = is_active * moves;
        sums[0].add(gaps);
        sums[1].add(gaps * moves);
        sums[2].add(is_active);
        sums[3].add(active_moves);
        sums[4].add(active_moves * moves);
    }
    for (LaneSum& sum : sums) sum.flush();
    for (int at = 0; at < kLanes; ++at)
        first_sums_[at] = {sums[0].total[at], sums[1].total[at], sums[2].total[at], sums[3].total[at],
                           sums[4].total[at]};
}

// The Newton steps of length and δ at the beginning, and how far from there rows are listed.
void ConjugateTrainer::guess_lengths() {
    for (int at = 0; at < kLanes; ++at) {
        Lane& lane = lanes_[at];
        if (!lane.is_busy) continue;
        Movers& positives = lane.positive_rows;
        positives.n = std::ssize(lane.positives);
        positives.values.resize(lane.positives.size());
        positives.moves.resize(lane.positives.size());
        for (std::int64_t i = 0; i < positives.n; ++i) {
            positives.values[i] = reinterpret_cast<const float*>(&margins_[lane.positives[i]])[at];
            positives.moves[i] = reinterpret_cast<const float*>(&moves_[lane.positives[i]])[at];
        }
        lane.along = sum_of(n_features_,
                            [&](std::int64_t f) { return static_cast<double>(lane.weights[f]) * lane.direction[f]; });
        lane.square = sum_of_squares(lane.direction.data(), n_features_);
        lane.first = newton_step(slopes(lane, first_sums_[at], 0.0, lane.shift));
        lane.first.length = std::max(0.0, lane.first.length);
        reaches_[at] = static_cast<float>(kReach * lane.first.length);
        first_shifts_[at] = static_cast<float>(lane.shift);
        last_shifts_[at] =
            static_cast<float>(lane.shift + kReach * lane.first.shift + kPadShare * std::abs(lane.first.shift));
    }
}

// List the negatives that are active at the beginning of their step or at the end of the reach. Gaps are linear between.
void ConjugateTrainer::list_movers() {
    std::uint32_t busy = 0;
    float* values_of[kLanes];
    float* moves_of[kLanes];
    std::int64_t n_of[kLanes] = {};
    const Lanes first_shifts = first_shifts_;
    const Lanes last_shifts = last_shifts_;
    const Lanes reaches = reaches_;
    for (int at = 0; at < kLanes; ++at) {
        values_of[at] = lanes_[at].negatives.values.data();
        moves_of[at] = lanes_[at].negatives.moves.data();
        busy |= lanes_[at].is_busy ? 1U << at : 0U;
    }
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        const Lanes margins = margins_[row];
        const Lanes moves = moves_[row];
        const Lanes last = margins + last_shifts + reaches * moves;
        std::uint32_t bits = bits_greater(max_lanes(margins + first_shifts, last), Lanes{}) & busy;
        if (positives_.has(row, cursor)) bits &= ~positives_.take(row, cursor);
        if (bits == 0) continue;
        float of_lanes[2][kLanes];
        store(margins, of_lanes[0]);
        store(moves, of_lanes[1]);
        for (; bits != 0; bits &= bits - 1) {
            const int at = std::countr_zero(bits);
            values_of[at][n_of[at]] = of_lanes[0][at];
            moves_of[at][n_of[at]++] = of_lanes[1][at];
        }
    }
    for (int at = 0; at < kLanes; ++at) lanes_[at].negatives.n = n_of[at];
}

// The margins at the ends of the steps, and the gradients of the rows that are active there.
void ConjugateTrainer::move_on() {
    Lanes lengths{};
    Lanes shifts{};
    for (int at = 0; at < kLanes; ++at) {
        lengths[at] = lanes_[at].is_busy ? static_cast<float>(lanes_[at].length) : 0.0F;
        shifts[at] = static_cast<float>(lanes_[at].shift);
    }
    const auto twice = static_cast<float>(2.0 * cost_);
    LaneSum squares;
    LaneSum sums;
    LaneSum counts;
    std::fill(gradients_.begin(), gradients_.end(), Lanes{});
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row + kRowsAhead < rows_.n_rows()) rows_.prefetch(row + kRowsAhead);
        const Lanes margins = margins_[row] + lengths * moves_[row];
        margins_[row] = margins;
        Lanes gaps = is_busy_ * max_lanes(margins + shifts, Lanes{});
        if (positives_.has(row, cursor)) gaps = choose(positives_.take(row, cursor), Lanes{}, gaps);
        squares.add(gaps * gaps);
        sums.add(gaps);
        counts.add(select(gaps > Lanes{}, Lanes{} + 1.0F, Lanes{}));
        // Adding to one lane takes as long as adding to all: the time goes into moving cache lines.
        if (any_above(gaps, 0.0F)) rows_.lane_add(row, twice * gaps, gradients_.data());
    }
    squares.flush();
    sums.flush();
    counts.flush();
    for (int at = 0; at < kLanes; ++at) {
        losses_[at] = cost_ * squares.total[at];
        gaps_[at] = sums.total[at];
        lanes_[at].n_active = static_cast<std::int32_t>(counts.total[at]);
    }
}

void ConjugateTrainer::list_near(std::uint32_t which) {
    Lanes shifts{};
    for (int at = 0; at < kLanes; ++at) shifts[at] = static_cast<float>(lanes_[at].shift) + kNearZero;
    for (std::uint32_t bits = which; bits != 0; bits &= bits - 1) lanes_[std::countr_zero(bits)].near_ids.clear();
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        std::uint32_t bits = bits_greater(margins_[row] + shifts, Lanes{}) & which;
        if (positives_.has(row, cursor)) bits &= ~positives_.take(row, cursor);
        for (; bits != 0; bits &= bits - 1)
            lanes_[std::countr_zero(bits)].near_ids.push_back(static_cast<std::int32_t>(row));
    }
}

}  // namespace longtail::linear
