// What belongs to one label: the length of its step, its gradient, the next direction, and the end.

#include <algorithm>
#include <cmath>
#include <utility>

#include "linear/conjugate.hpp"
#include "linear/sums.hpp"

namespace longtail::linear {

namespace {

constexpr double kMostGap = 1e-4;    // what a label may be above its minimum, as a share of it
constexpr int kMaxSteps = 100;       // a label that needs more is trained another way,
constexpr int kMaxMisses = 4;        // and one that rounding keeps from its tolerance
constexpr double kMissShare = 0.5;   // of the norm to reach, after a check that failed
constexpr double kSureShare = 0.98;  // of the tolerance, that needs no exact check,
constexpr double kRounding = 6e-8;   // with this share of a margin of 1 added for each step
constexpr int kMaxLineSteps = 30;
constexpr int kWholeLineSteps = 12;   // Newton steps along the line are halved after so many
constexpr double kMostCut = 0.9;      // of its length that one of them may take back
constexpr double kLineError = 1e-3;   // of the length of a step,
constexpr double kShiftError = 1e-4;  // and of its change of δ

double product(const AlignedVector<float>& a, const AlignedVector<float>& b) {
    return sum_of(std::ssize(a), [&](std::int64_t i) { return static_cast<double>(a[i]) * b[i]; });
}

}  // namespace

// Over the rows with δ + v + t · move > 0.
auto ConjugateTrainer::sums_at(const Movers& rows, double length, double shift) -> Sums {
    const auto t = static_cast<float>(length);
    const auto delta = static_cast<float>(shift);
    Lanes parts[5] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= rows.n; i += kLanes) {
        Lanes values;
        Lanes moves;
        load(values, rows.values.data() + i);
        load(moves, rows.moves.data() + i);
        const Lanes gaps = max_lanes(values + delta + moves * t, Lanes{});
        const Lanes is_active = select(gaps > Lanes{}, Lanes{} + 1.0F, Lanes{});
        const Lanes active_moves = moves * is_active;
        parts[0] += gaps;
        parts[1] += gaps * moves;
        parts[2] += is_active;
        parts[3] += active_moves;
        parts[4] += active_moves * moves;
    }
    Sums out{sum(parts[0]), sum(parts[1]), sum(parts[2]), sum(parts[3]), sum(parts[4])};
    for (; i < rows.n; ++i) {
        const double move = rows.moves[i];
        const double gap = rows.values[i] + delta + t * move;
        if (gap <= 0.0) continue;
        out.gaps += gap;
        out.gap_moves += gap * move;
        out.n += 1.0;
        out.moves += move;
        out.move_squares += move * move;
    }
    return out;
}

// `sums` are those of the negatives.
auto ConjugateTrainer::slopes(const Lane& lane, const Sums& sums, double length, double shift) const -> Slopes {
    const double twice = 2.0 * cost_;
    Slopes out{lane.along + length * lane.square + twice * sums.gap_moves,
               stiffness_ * (shift - 1.0) + twice * sums.gaps, lane.square + twice * sums.move_squares,
               twice * sums.moves, stiffness_ + twice * sums.n};
    const double of_positives = 2.0 * lane.start.positive_cost;
    for (std::int64_t i = 0; i < lane.positive_rows.n; ++i) {
        const double move = lane.positive_rows.moves[i];
        const double gap = 2.0 - shift - lane.positive_rows.values[i] - length * move;
        if (gap <= 0.0) continue;
        out.by_length -= of_positives * gap * move;
        out.by_shift -= of_positives * gap;
        out.length_length += of_positives * move * move;
        out.length_shift += of_positives * move;
        out.shift_shift += of_positives;
    }
    return out;
}

// To where the derivatives are zero, as far as they are linear. A direction without words leaves only δ to move.
auto ConjugateTrainer::newton_step(const Slopes& at) -> NewtonStep {
    const double determinant = at.length_length * at.shift_shift - at.length_shift * at.length_shift;
    if (!(determinant > 0.0)) return {0.0, -at.by_shift / at.shift_shift};
    return {(at.length_shift * at.by_shift - at.shift_shift * at.by_length) / determinant,
            (at.length_shift * at.by_length - at.length_length * at.by_shift) / determinant};
}

// The best length and δ. Steps beyond the reach may miss rows that become active, and are then not quite the best.
void ConjugateTrainer::search_line(Lane& lane) const {
    double length = lane.first.length;
    double shift = lane.shift + lane.first.shift;
    for (int step = 0; step < kMaxLineSteps; ++step) {
        const NewtonStep next = newton_step(slopes(lane, sums_at(lane.negatives, length, shift), length, shift));
        const double share = step < kWholeLineSteps ? 1.0 : 0.5;
        const double length_step = std::max(share * next.length, -kMostCut * length);
        const double shift_step = share * next.shift;
        length += length_step;
        shift += shift_step;
        if (std::abs(length_step) <= kLineError * length && std::abs(shift_step) <= kShiftError * std::abs(shift))
            break;
    }
    lane.length = length;
    lane.shift = shift;
}

// The gradient and the objective at the end of the step.
void ConjugateTrainer::read_gradient(Group& group, int at) {
    Lane& lane = group.lanes[at];
    add_scaled(lane.weights.data(), lane.direction.data(), static_cast<float>(lane.length), n_features_);
    std::swap(lane.gradient, lane.earlier);
    const float* const table = reinterpret_cast<const float*>(gradients_.data()) + at;
    for (std::int64_t f = 0; f < n_features_; ++f) lane.gradient[f] = lane.weights[f] + table[f * kLanes];
    double loss = group.losses[at];
    double by_shift = stiffness_ * (lane.shift - 1.0) + 2.0 * cost_ * group.gaps[at];
    for (std::size_t i = 0; i < lane.positives.size(); ++i) {
        const double value = reinterpret_cast<const float*>(&group.margins[lane.positives[i]])[at];
        const double gap = 2.0 - lane.shift - value;
        if (gap <= 0.0) continue;
        ++lane.n_active;
        loss += lane.start.positive_cost * gap * gap;
        by_shift -= 2.0 * lane.start.positive_cost * gap;
        rows_.add_to(lane.positives[i], static_cast<float>(-2.0 * lane.start.positive_cost * gap),
                     lane.gradient.data());
    }
    lane.bias_slope = by_shift * config_.bias;
    lane.gradient_square = sum_of_squares(lane.gradient.data(), n_features_);
    lane.objective = 0.5 * sum_of_squares(lane.weights.data(), n_features_) +
                     0.5 * stiffness_ * (lane.shift - 1.0) * (lane.shift - 1.0) + loss;
}

void ConjugateTrainer::remember_step(Lane& lane) const {
    if (lane.n_curvatures == kMemory)
        std::rotate(lane.curvatures, lane.curvatures + 1, lane.curvatures + kMemory);
    else
        ++lane.n_curvatures;
    Curvature& last = lane.curvatures[lane.n_curvatures - 1];
    const auto length = static_cast<float>(lane.length);
    for (std::int64_t f = 0; f < n_features_; ++f) last.step[f] = length * lane.direction[f];
    for (std::int64_t f = 0; f < n_features_; ++f) last.change[f] = lane.gradient[f] - lane.earlier[f];
    last.product = product(last.step, last.change);
    if (!(last.product > 0.0)) lane.n_curvatures = 0;  // no step, or rounding
}

// Minus the gradient times the inverse of a matrix that agrees with the curvatures of the last steps.
void ConjugateTrainer::set_direction(Lane& lane) const {
    remember_step(lane);
    float* const direction = lane.direction.data();
    for (std::int64_t f = 0; f < n_features_; ++f) direction[f] = -lane.gradient[f];
    if (lane.n_curvatures == 0) return;
    double shares[kMemory];
    for (int i = lane.n_curvatures - 1; i >= 0; --i) {
        const Curvature& at = lane.curvatures[i];
        shares[i] = dot(at.step.data(), direction, n_features_) / at.product;
        add_scaled(direction, at.change.data(), static_cast<float>(-shares[i]), n_features_);
    }
    const Curvature& last = lane.curvatures[lane.n_curvatures - 1];
    const auto scale = static_cast<float>(last.product / dot(last.change.data(), last.change.data(), n_features_));
    for (std::int64_t f = 0; f < n_features_; ++f) direction[f] *= scale;
    for (int i = 0; i < lane.n_curvatures; ++i) {
        const Curvature& at = lane.curvatures[i];
        const double known = dot(at.change.data(), direction, n_features_) / at.product;
        add_scaled(direction, at.step.data(), static_cast<float>(shares[i] - known), n_features_);
    }
    if (dot(direction, lane.gradient.data(), n_features_) < 0.0F) return;
    lane.n_curvatures = 0;
    for (std::int64_t f = 0; f < n_features_; ++f) direction[f] = -lane.gradient[f];
}

// The curvature is at least 1 everywhere, so that L is at most ½‖∇L‖² above its minimum.
bool ConjugateTrainer::may_end(const Lane& lane) const {
    const bool is_near =
        std::sqrt(lane.gradient_square) <= lane.end_norm && 0.5 * lane.gradient_square <= kMostGap * lane.objective;
    return is_near || lane.record.iterations + 1 >= config_.max_iterations;
}

double ConjugateTrainer::gradient_norm(const Lane& lane) {
    return std::sqrt(lane.gradient_square + lane.bias_slope * lane.bias_slope);
}

// By the published rule, with room for the rounding of margins. This is an estimate: each step moves a margin by about half
// a unit in its last place, at worst to the same side for all active rows.
bool ConjugateTrainer::is_surely_converged(const Lane& lane) const {
    const double share = static_cast<double>(lane.n_active) / static_cast<double>(rows_.n_rows());
    const double rounding = kRounding * lane.record.iterations * share * lane.start.zero_gradient;
    return gradient_norm(lane) + rounding <= kSureShare * lane.start.tolerance;
}

auto ConjugateTrainer::judge(Lane& lane) -> Outcome {
    if (config_.keep_history) {
        if (lane.record.history.empty())
            lane.record.history.push_back(
                {lane.record.first_objective, static_cast<std::int32_t>(rows_.n_rows()), 0.0F});
        lane.record.history.push_back({lane.objective, lane.n_active, static_cast<float>(lane.length)});
    }
    const bool is_ending = may_end(lane);
    const bool is_sure = is_surely_converged(lane);
    ++lane.record.iterations;
    if (is_ending) {
        lane.record.last_objective = lane.objective;
        lane.record.gradient_ratio = gradient_norm(lane) / lane.start.zero_gradient;
        lane.record.converged = is_sure || is_converged(lane);
        const bool is_last = lane.record.iterations >= config_.max_iterations && config_.max_iterations < kMaxSteps;
        if (lane.record.converged || is_last) return Outcome::finished;
        lane.end_norm *= kMissShare;
        if (++lane.n_misses > kMaxMisses) return Outcome::refused;
    }
    return lane.record.iterations < kMaxSteps ? Outcome::goes_on : Outcome::refused;
}

// Decide by that rule, from margins that are computed afresh: those of steps have the rounding of all steps.
bool ConjugateTrainer::is_converged(Lane& lane) {
    std::copy(lane.weights.begin(), lane.weights.end(), checked_.begin());
    double loss = 0.0;
    double by_shift = stiffness_ * (lane.shift - 1.0);
    const auto add = [&](std::int32_t row, double cost, double sign, double gap) {
        if (gap <= 0.0) return;
        loss += cost * gap * gap;
        by_shift += 2.0 * cost * sign * gap;
        rows_.add_to(row, static_cast<float>(2.0 * cost * sign * gap), checked_.data());
    };
    const auto value = [&](std::int32_t row) { return static_cast<double>(rows_.dot(row, lane.weights.data())); };
    walk_rows(rows_, lane.near_ids.data(), std::ssize(lane.near_ids),
              [&](std::int64_t i) { add(lane.near_ids[i], cost_, 1.0, lane.shift + value(lane.near_ids[i])); });
    for (const std::int32_t row : lane.positives)
        add(row, lane.start.positive_cost, -1.0, 2.0 - lane.shift - value(row));
    const double bias_slope = by_shift * config_.bias;
    const double norm = std::sqrt(sum_of_squares(checked_.data(), n_features_) + bias_slope * bias_slope);
    lane.record.last_objective = 0.5 * sum_of_squares(lane.weights.data(), n_features_) +
                                 0.5 * stiffness_ * (lane.shift - 1.0) * (lane.shift - 1.0) + loss;
    lane.record.gradient_ratio = norm / lane.start.zero_gradient;
    return norm <= lane.start.tolerance;
}

}  // namespace longtail::linear
