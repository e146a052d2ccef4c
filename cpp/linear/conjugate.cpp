// The loop over labels, and what is done for a group of them at once.

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
      n_features_(rows.n_features()) {
    directions_.assign(static_cast<std::size_t>(n_features_), RoundedPairs{});
    gradients_.assign(static_cast<std::size_t>(n_features_), Lanes{});
    for (Group& group : groups_) {
        group.lanes.resize(kLanes);
        group.margins.assign(static_cast<std::size_t>(rows.n_rows()), Lanes{});
        group.moves.assign(static_cast<std::size_t>(rows.n_rows()), Lanes{});
        for (Lane& lane : group.lanes) {
            lane.negatives.values.resize(static_cast<std::size_t>(rows.n_rows()));
            lane.negatives.moves.resize(static_cast<std::size_t>(rows.n_rows()));
            for (Curvature& curvature : lane.curvatures) {
                curvature.step.assign(static_cast<std::size_t>(n_features_), 0.0F);
                curvature.change = curvature.step;
            }
            for (auto* vector : {&lane.weights, &lane.gradient, &lane.earlier, &lane.direction})
                vector->assign(static_cast<std::size_t>(n_features_), 0.0F);
        }
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
        for (Group& group : groups_) {
            for (int at = 0; at < kLanes; ++at) {
                while (!group.lanes[at].is_busy && next < label_ids.size()) begin(group, at, label_ids[next++]);
                n_busy += group.lanes[at].is_busy ? 1 : 0;
            }
        }
        if (n_busy == 0) return refused;
        const auto step_begin = Clock::now();
        step();
        const double step_share = seconds_since(step_begin) / n_busy;
        for (Group& group : groups_) {
            for (int at = 0; at < kLanes; ++at) {
                if (!group.lanes[at].is_busy) continue;
                end_step(group.lanes[at], step_share, refused);
                if (!group.lanes[at].is_busy) group.is_busy[at] = 0.0F;
            }
        }
    }
}

// Go on, or free the lane.
void ConjugateTrainer::end_step(Lane& lane, double step_share, std::vector<std::int32_t>& refused) {
    const auto begin_time = Clock::now();
    const Outcome outcome = judge(lane);
    if (outcome == Outcome::goes_on) set_direction(lane);
    control_.throw_if_stopped();
    lane.record.seconds += step_share + seconds_since(begin_time);
    if (outcome == Outcome::goes_on) return;
    if (outcome == Outcome::refused)
        refused.push_back(static_cast<std::int32_t>(lane.label));
    else
        hand_over(lane);
    lane.is_busy = false;
}

void ConjugateTrainer::hand_over(Lane& lane) {
    lane.weights.push_back(static_cast<float>((lane.shift - 1.0) / config_.bias));
    sink_.put(lane.label, lane.weights.data(), n_features_, std::move(lane.record));
    lane.weights.pop_back();
    control_.add_done(1);
}

// By the same steps, from w = 0, where all rows are active.
void ConjugateTrainer::solve_background() {
    Group& group = groups_[0];
    Lane& lane = group.lanes[0];
    const auto n_rows = static_cast<double>(rows_.n_rows());
    lane.is_busy = true;
    group.is_busy[0] = 1.0F;
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
    const float* const margins = reinterpret_cast<const float*>(group.margins.data());
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) background_.margins[row] = margins[row * kLanes];
    lane.is_busy = false;
    group.is_busy[0] = 0.0F;
}

// Put a label into an empty lane, if there is something to train.
void ConjugateTrainer::begin(Group& group, int at, std::int64_t label) {
    Lane& lane = group.lanes[at];
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
    group.is_new[at] = 1.0F;
    group.is_busy[at] = 1.0F;
    lane.record.seconds += seconds_since(begin_time);
}

// One step of all lanes.
void ConjugateTrainer::step() {
    for (Group& group : groups_) group.positives.assign(group.lanes, rows_.n_rows());
    write_directions();
    if (directions_.size() * sizeof(RoundedPairs) > kCachedBytes)
        set_moves<kFetchAhead>();
    else
        set_moves<0>();
    for (Group& group : groups_) {
        if (group.is_idle()) continue;
        guess_lengths(group);
        list_movers(group);
        for (Lane& lane : group.lanes)
            if (lane.is_busy) search_line(lane);
        move_on(group);
        std::uint32_t ending = 0;
        for (int at = 0; at < kLanes; ++at) {
            if (!group.lanes[at].is_busy) continue;
            read_gradient(group, at);
            if (may_end(group.lanes[at]) && !is_surely_converged(group.lanes[at])) ending |= 1U << at;
        }
        if (ending != 0) list_near(group, ending);
    }
}

// Rounds the directions of all lanes: any direction will do, as long as margins and weights move by the same.
void ConjugateTrainer::write_directions() {
    for (std::int64_t begin = 0; begin < n_features_; begin += kLanes) {
        const std::int64_t end = std::min(begin + kLanes, n_features_);
        for (int at = 0; at < kGroups * kLanes; ++at) {
            Lane& lane = groups_[at / kLanes].lanes[at % kLanes];
            if (!lane.is_busy) continue;
            float* const direction = lane.direction.data();
            for (std::int64_t f = begin; f < end; ++f) {
                const std::uint32_t bits = RoundedPairs::round_bits(std::bit_cast<std::uint32_t>(direction[f]));
                direction[f] = std::bit_cast<float>(bits);
                directions_[f].set_bits(at, bits);
            }
        }
    }
}

// How the directions change the margins of all rows, and sums over the rows that are active now.
template <int kAhead>
void ConjugateTrainer::set_moves() {
    Lanes shifts[kGroups] = {};
    bool is_idle[kGroups];
    for (int of = 0; of < kGroups; ++of) {
        is_idle[of] = groups_[of].is_idle();
        for (int at = 0; at < kLanes; ++at) shifts[of][at] = static_cast<float>(groups_[of].lanes[at].shift);
    }
    LaneSum sums[kGroups][5];
    std::size_t cursors[kGroups] = {};
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        Lanes moves_of[kGroups] = {};
        rows_.template rounded_dots<1, 1, kAhead>(row, directions_.data(), moves_of);
        for (int of = 0; of < kGroups; ++of) {
            if (is_idle[of]) continue;
            Group& group = groups_[of];
            const Lanes moves = moves_of[of];
            const Lanes margins =
                select(group.is_new > Lanes{}, Lanes{} + background_.margins[row], group.margins[row]);
            group.margins[row] = margins;
            group.moves[row] = moves;
            Lanes gaps = max_lanes(margins + shifts[of], Lanes{});
            if (group.positives.has(row, cursors[of]))
                gaps = choose(group.positives.take(row, cursors[of]), Lanes{}, gaps);
            // Every row is added, active or not: rounding must not depend on the other lanes.
            const Lanes is_active = select(gaps > Lanes{}, Lanes{} + 1.0F, Lanes{});
            const Lanes active_moves = is_active * moves;
            sums[of][0].add(gaps);
            sums[of][1].add(gaps * moves);
            sums[of][2].add(is_active);
            sums[of][3].add(active_moves);
            sums[of][4].add(active_moves * moves);
        }
    }
    for (int of = 0; of < kGroups; ++of) {
        for (LaneSum& sum : sums[of]) sum.flush();
        for (int at = 0; at < kLanes; ++at)
            groups_[of].first_sums[at] = {sums[of][0].total[at], sums[of][1].total[at], sums[of][2].total[at],
                                          sums[of][3].total[at], sums[of][4].total[at]};
        groups_[of].is_new = Lanes{};
    }
}

// The Newton steps of length and δ at the beginning, and how far from there rows are listed.
void ConjugateTrainer::guess_lengths(Group& group) const {
    for (int at = 0; at < kLanes; ++at) {
        Lane& lane = group.lanes[at];
        if (!lane.is_busy) continue;
        Movers& positives = lane.positive_rows;
        positives.n = std::ssize(lane.positives);
        positives.values.resize(lane.positives.size());
        positives.moves.resize(lane.positives.size());
        for (std::int64_t i = 0; i < positives.n; ++i) {
            positives.values[i] = reinterpret_cast<const float*>(&group.margins[lane.positives[i]])[at];
            positives.moves[i] = reinterpret_cast<const float*>(&group.moves[lane.positives[i]])[at];
        }
        lane.along = sum_of(n_features_,
                            [&](std::int64_t f) { return static_cast<double>(lane.weights[f]) * lane.direction[f]; });
        lane.square = sum_of_squares(lane.direction.data(), n_features_);
        lane.first = newton_step(slopes(lane, group.first_sums[at], 0.0, lane.shift));
        lane.first.length = std::max(0.0, lane.first.length);
        group.reaches[at] = static_cast<float>(kReach * lane.first.length);
        group.first_shifts[at] = static_cast<float>(lane.shift);
        group.last_shifts[at] =
            static_cast<float>(lane.shift + kReach * lane.first.shift + kPadShare * std::abs(lane.first.shift));
    }
}

// List the negatives that are active at the beginning of their step or at the end of the reach. Gaps are linear between.
void ConjugateTrainer::list_movers(Group& group) const {
    std::uint32_t busy = 0;
    float* values_of[kLanes];
    float* moves_of[kLanes];
    std::int64_t n_of[kLanes] = {};
    const Lanes first_shifts = group.first_shifts;
    const Lanes last_shifts = group.last_shifts;
    const Lanes reaches = group.reaches;
    for (int at = 0; at < kLanes; ++at) {
        values_of[at] = group.lanes[at].negatives.values.data();
        moves_of[at] = group.lanes[at].negatives.moves.data();
        busy |= group.lanes[at].is_busy ? 1U << at : 0U;
    }
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        const Lanes margins = group.margins[row];
        const Lanes moves = group.moves[row];
        const Lanes last = margins + last_shifts + reaches * moves;
        std::uint32_t bits = bits_greater(max_lanes(margins + first_shifts, last), Lanes{}) & busy;
        if (group.positives.has(row, cursor)) bits &= ~group.positives.take(row, cursor);
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
    for (int at = 0; at < kLanes; ++at) group.lanes[at].negatives.n = n_of[at];
}

// The margins at the ends of the steps, and the gradients of the rows that are active there.
void ConjugateTrainer::move_on(Group& group) {
    Lanes lengths{};
    Lanes shifts{};
    for (int at = 0; at < kLanes; ++at) {
        lengths[at] = group.lanes[at].is_busy ? static_cast<float>(group.lanes[at].length) : 0.0F;
        shifts[at] = static_cast<float>(group.lanes[at].shift);
    }
    const auto twice = static_cast<float>(2.0 * cost_);
    LaneSum squares;
    LaneSum sums;
    LaneSum counts;
    std::fill(gradients_.begin(), gradients_.end(), Lanes{});
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row + kRowsAhead < rows_.n_rows()) rows_.prefetch(row + kRowsAhead);
        const Lanes margins = group.margins[row] + lengths * group.moves[row];
        group.margins[row] = margins;
        Lanes gaps = group.is_busy * max_lanes(margins + shifts, Lanes{});
        if (group.positives.has(row, cursor)) gaps = choose(group.positives.take(row, cursor), Lanes{}, gaps);
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
        group.losses[at] = cost_ * squares.total[at];
        group.gaps[at] = sums.total[at];
        group.lanes[at].n_active = static_cast<std::int32_t>(counts.total[at]);
    }
}

void ConjugateTrainer::list_near(Group& group, std::uint32_t which) const {
    Lanes shifts{};
    for (int at = 0; at < kLanes; ++at) shifts[at] = static_cast<float>(group.lanes[at].shift) + kNearZero;
    for (std::uint32_t bits = which; bits != 0; bits &= bits - 1) group.lanes[std::countr_zero(bits)].near_ids.clear();
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        std::uint32_t bits = bits_greater(group.margins[row] + shifts, Lanes{}) & which;
        if (group.positives.has(row, cursor)) bits &= ~group.positives.take(row, cursor);
        for (; bits != 0; bits &= bits - 1)
            group.lanes[std::countr_zero(bits)].near_ids.push_back(static_cast<std::int32_t>(row));
    }
}

}  // namespace longtail::linear
