#include "linear/working_set.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "linear/best_bias.hpp"
#include "linear/end_rule.hpp"
#include "linear/sums.hpp"

namespace longtail::linear {

namespace {

// Sizes of working sets, tuned on EURLex-4K and wnwords (benchmarks/bench_dismec_training.py).
constexpr float kFirstSlack = 0.5F;   // a first set is chosen from rows with margins above -1 - this,
constexpr float kFittedSlack = 0.7F;  // or this, if the start is fitted to the cost
constexpr std::int64_t kMinGrowth = 32;
constexpr double kGrowth = 0.2;         // a set grows by at most this share of itself in one round
constexpr double kRowsGrowth = 0.6;     // the same when solved by rows, where idle rows cost little,
constexpr double kMostGrowth = 2.0;     // and when the set is surely far too small, as low costs make it:
constexpr double kNeededShare = 0.9;    // more than this share of it is active
constexpr float kIdleSlack = 0.1F;      // rows in the dual leave a set when they are idle by this,
constexpr int kMaxDroppingRounds = 10;  // in the first rounds: in the end sets only grow
constexpr double kEndShare = 0.4;       // a label ends at this share of its tolerance (end_rule.hpp),
constexpr double kInnerShare = 0.5;     // and a round need not reduce its gradient below this share of that,
constexpr double kSmallerShare = 0.2;   // unless rounding asks for a better solution: that times this
// Rough solutions over coarse rows.
constexpr double kRoughEndShare = 3.0;  // kEndShare for them
constexpr float kRoughReach = 0.02F;    // rows less than this below their margin belong to them
constexpr double kMinCoarseCost = 1.0;  // at lower costs, visits to whole rows are as quick as to coarse ones
constexpr int kMaxStalls = 5;
constexpr std::int64_t kRefusedShare = 8;      // more than a row in so many active: Newton steps in lanes are cheaper,
constexpr std::int64_t kRefusedShareWide = 2;  // as long as their vectors, a cache line a feature each, stay in the
constexpr std::int64_t kWideFeatures = 2400;   // second-level cache; else only where most rows are active
constexpr float kReach = 0.1F;                 // rows are near their margin within this (less at low costs),
constexpr float kLeastReach = 0.02F;           // or down to this, if they are too many

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

template <class Rows>
WorkingSetTrainer<Rows>::WorkingSetTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                           const OvaStart& start, const OvaConfig& config, LabelSink& sink,
                                           Control& control)
    : rows_(rows),
      labels_(labels),
      moments_(moments),
      start_(start),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      row_solver_(rows, config),
      row_dual_(rows.n_features(), config),
      spread_(static_cast<float>(std::min(1.0, config.cost))),
      lanes_(kWidth) {
    rounded_.assign(static_cast<std::size_t>(rows.n_features() * kPairs), RoundedPairs{});
    for (Lane& lane : lanes_) lane.is_written.assign(static_cast<std::size_t>(rows.n_features() / kLanes + 1), 0);
    if (Rows::kSparse) scatter_.assign(static_cast<std::size_t>(rows.n_features() * GramMatrix::kBlocks), Lanes{});
    gradient_.resize(static_cast<std::size_t>(rows.n_features() + 1));
    row_norms_.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        row_norms_.push_back(static_cast<float>(std::sqrt(rows.square(row))));
        max_row_norm_ = std::max(max_row_norm_, row_norms_.back());
        max_row_size_ = std::max(max_row_size_, rows.size(row));
    }
    for (Lanes& floors : floors_) floors = Lanes{} + std::numeric_limits<float>::infinity();
}

template <class Rows>
std::vector<std::int32_t> WorkingSetTrainer<Rows>::train(std::span<const std::int32_t> label_ids,
                                                         std::span<const RoughSolution> rough_solutions) {
    resumed_ = rough_solutions;
    if (!resumed_.empty() && config_.cost >= kMinCoarseCost) {
        std::vector<float> mean_margins(moments_.mean_margins.begin(), moments_.mean_margins.end());
        for (float& margin : mean_margins) margin -= config_.bias * moments_.mean.back();
        coarse_parts_ = measure_coarse_rows(SparseRows(*moments_.coarse), mean_margins);
    }
    std::vector<std::int32_t> refused;
    std::size_t next = 0;
    for (;;) {
        int n_busy = 0;
        for (int at = 0; at < kWidth; ++at) {
            while (lanes_[at].label < 0 && next < label_ids.size()) {
                const auto label_begin = Clock::now();
                if (!begin(lanes_[at], at, label_ids[next++])) continue;
                lanes_[at].record.seconds += seconds_since(label_begin);
            }
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
            const Outcome outcome = advance(lane, at);
            lane.record.seconds += scan_share + seconds_since(lane_begin);
            control_.throw_if_stopped();
            if (outcome == Outcome::goes_on) continue;
            if (outcome == Outcome::refused) {
                refused.push_back(static_cast<std::int32_t>(lane.label));
            } else {
                finish(lane);
            }
            clear_lane(lane, at);
        }
    }
}

// Put a label's start into an empty lane; false when there is nothing to train.
template <class Rows>
bool WorkingSetTrainer<Rows>::begin(Lane& lane, int at, std::int64_t label) {
    const auto positives = labels_.positives.row_labels(label);
    const bool is_asked = config_.train_empty || !positives.empty();
    lane.weights.assign(static_cast<std::size_t>(rows_.n_features() + 1), 0.0F);
    lane.in_primal = false;
    if (is_asked) lane.start = starter_.prepare(label);
    const bool is_trained = is_asked && lane.start.tolerance > 0.0;  // else no positives, or w = 0 meets the rule
    if (rough_ != nullptr && !(is_trained && in_dual(lane))) return false;
    if (!is_trained) {
        sink_.put(label, lane.weights.data(), rows_.n_features(), {});
        control_.add_done(1);
        return false;
    }
    lane.label = label;
    lane.at_start = true;
    lane.by_rows = false;
    lane.is_resumed = false;
    lane.end_share = rough_ == nullptr ? kEndShare * exactness_for(positives.size()) : kRoughEndShare;
    lane.inner_share = kInnerShare * lane.end_share;
    lane.bias_shift = 0.0F;
    lane.record = {};
    lane.reach = spread_ * (rough_ == nullptr ? kReach : kRoughReach);
    lane.problem.clear();
    lane.sorted_rows.clear();
    if (!resumed_.empty() && !resumed_[label].row_ids.empty()) {
        resume(lane, at, resumed_[label]);
        return true;
    }
    float& bias_weight = lane.weights.back();
    if (lane.start.positives_scale != 0.0) {
        const float scale = static_cast<float>(lane.start.positives_scale);
        for (const std::int32_t row : positives) rows_.add_to(row, scale, lane.weights.data());
        bias_weight = scale * config_.bias * static_cast<float>(positives.size());
    }
    if (start_.kind == StartKind::own) {
        const auto ids = start_.own_weights.row_indices(label);
        const auto values = start_.own_weights.row_values(label);
        for (std::size_t i = 0; i < ids.size(); ++i) lane.weights[ids[i]] += values[i];
        if (config_.bias != 0.0F) bias_weight += start_.own_biases[label] / config_.bias;
    }
    bias_weight += static_cast<float>(lane.start.bias_weight);
    shared_scales_[at / kLanes][at % kLanes] = static_cast<float>(lane.start.shared_scale);
    floors_[at / kLanes][at % kLanes] = -1.0F - (fits_start() ? kFittedSlack : kFirstSlack);
    return true;
}

// The rounds of one label after a pass, until it needs another one.
template <class Rows>
auto WorkingSetTrainer<Rows>::advance(Lane& lane, int at) -> Outcome {
    if (lane.truncated) std::sort(lane.candidates.begin(), lane.candidates.end(), comes_before);
    lane.floor = std::max(lane.floor, floors_[at / kLanes][at % kLanes]);
    if (lane.at_start) {
        if (!begin_rounds(lane, at)) return Outcome::refused;
    } else {
        lane.near = lane.candidates;
        lane.scanned_weights = lane.weights;
        const float reach = spread_ * (rough_ == nullptr ? kReach : kRoughReach);
        lane.reach =
            lane.truncated ? std::clamp(-1.0F - lane.floor, std::min(spread_ * kLeastReach, reach), reach) : reach;
        lane.truncated = lane.floor > -1.0F;
        std::erase_if(lane.candidates, [](const Candidate& candidate) { return !violates(candidate); });
        drop_members(lane);
        do {
            if (keeps_history()) record_iteration(lane, 1.0F);
            const Outcome outcome = go_on(lane);
            if (outcome != Outcome::goes_on) return outcome;
        } while (find_violators(lane));
    }
    floors_[at / kLanes][at % kLanes] = -1.0F - lane.reach;
    return Outcome::goes_on;
}

// The first set and its solution; false when Newton steps over all rows suit the label better.
template <class Rows>
bool WorkingSetTrainer<Rows>::begin_rounds(Lane& lane, int at) {
    const auto n_violating = std::count_if(lane.candidates.begin(), lane.candidates.end(), violates);
    const auto n_positives = labels_.positives.row_size(lane.label);
    const std::int64_t share = rows_.n_features() > kWideFeatures ? kRefusedShareWide : kRefusedShare;
    if (lane.floor > -1.0F || share * (n_violating - n_positives) > rows_.n_rows()) return false;
    choose_first_rows(lane);
    if (keeps_history() && !fits_start()) record_iteration(lane, 0.0F);
    solve(lane, true);
    lane.at_start = false;
    shared_scales_[at / kLanes][at % kLanes] = 0.0F;
    return true;
}

// One round: check whether the label is finished, else add violators and solve again.
template <class Rows>
auto WorkingSetTrainer<Rows>::go_on(Lane& lane) -> Outcome {
    const bool is_solved = lane.inner.gradient_norm <= lane.end_share * lane.start.tolerance;
    if (is_solved && may_be_converged(lane) && (rough_ != nullptr || is_converged(lane))) return Outcome::finished;
    if (!grow(lane) && (is_solved || lane.inner.is_stuck)) {
        // The restricted problem was not solved well enough. A Gram matrix loses digits where costs or the bias are
        // large; going on by rows finds them again.
        if (lane.by_rows) lane.inner_share *= kSmallerShare;
        lane.by_rows = true;
    }
    const bool stalls = lane.inner_share < kInnerShare * lane.end_share * std::pow(kSmallerShare, kMaxStalls);
    if (stalls || lane.record.iterations >= config_.max_iterations) {
        is_converged(lane);  // for the record
        const double norm = lane.record.gradient_ratio * lane.start.zero_gradient;
        lane.record.converged = !lane.truncated && norm <= lane.start.tolerance;
        return Outcome::finished;
    }
    solve(lane, false);
    return Outcome::goes_on;
}

// The violators outside the working set; false when only a pass can find all of them.
template <class Rows>
bool WorkingSetTrainer<Rows>::find_violators(Lane& lane) {
    // A margin changes by the change of the bias, and at most by ‖x‖ times the length of the other weights' change.
    const std::int64_t n_features = rows_.n_features();
    const float shift = config_.bias * (lane.weights[n_features] - lane.scanned_weights[n_features]);
    const auto distance = static_cast<float>(
        1.0001 * std::sqrt(square_distance(lane.weights.data(), lane.scanned_weights.data(), n_features)));
    if (lane.floor + shift + distance * max_row_norm_ > -1.0F) return false;
    lane.candidates = lane.near;
    drop_members(lane);
    checked_ids_.clear();
    for (const Candidate& row : lane.candidates)
        if (row.margin + shift + distance * row_norms_[row.row_id] > -1.0F) checked_ids_.push_back(row.row_id);
    lane.candidates.clear();
    walk_rows(rows_, checked_ids_.data(), std::ssize(checked_ids_), [&](std::int64_t i) {
        const Candidate candidate{checked_ids_[i], margin(lane, checked_ids_[i])};
        if (violates(candidate)) lane.candidates.push_back(candidate);
    });
    // All violators are known now, by exact margins.
    lane.truncated = false;
    lane.rounding = 0.0F;
    lane.unlisted_loss = 0.0;
    lane.n_unlisted = 0;
    return true;
}

// Add the worst violators outside the working set; false when there are none.
template <class Rows>
bool WorkingSetTrainer<Rows>::grow(Lane& lane) {
    auto& found = lane.candidates;
    if (found.empty()) return false;
    if (lane.by_rows && in_dual(lane) && lane.record.iterations <= kMaxDroppingRounds) drop_idle(lane);
    const Subproblem& problem = lane.problem;
    std::int64_t n_active = 0;
    for (std::int64_t i = 0; i < problem.size(); ++i) n_active += problem.signs[i] * problem.margins[i] < 1.0F ? 1 : 0;
    double growth = lane.by_rows ? kRowsGrowth : kGrowth;
    if (static_cast<double>(n_active) > kNeededShare * static_cast<double>(problem.size())) growth = kMostGrowth;
    const auto limit = static_cast<std::size_t>(
        std::max(static_cast<double>(kMinGrowth), growth * static_cast<double>(problem.size())));
    if (found.size() > limit) {
        std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(limit), found.end(), is_worse);
        found.resize(limit);
        std::sort(found.begin(), found.end(), comes_before);
    }
    const auto middle = static_cast<std::ptrdiff_t>(lane.sorted_rows.size());
    for (const Candidate& candidate : found) {
        lane.problem.append(candidate.row_id, -1.0F, static_cast<float>(config_.cost),
                            lane.by_rows ? candidate.margin : margin(lane, candidate.row_id));
        lane.sorted_rows.push_back(candidate.row_id);
    }
    std::inplace_merge(lane.sorted_rows.begin(), lane.sorted_rows.begin() + middle, lane.sorted_rows.end());
    return true;
}

// Take negatives out of the set that are idle by a good measure; the next pass reports them again, should they matter.
template <class Rows>
void WorkingSetTrainer<Rows>::drop_idle(Lane& lane) const {
    lane.problem.erase_if([&](const Subproblem& problem, std::int64_t i) {
        return problem.betas[i] == 0.0F && problem.signs[i] < 0.0F && problem.margins[i] < -1.0F - kIdleSlack;
    });
    lane.sorted_rows = lane.problem.row_ids;
    std::sort(lane.sorted_rows.begin(), lane.sorted_rows.end());
}

template <class Rows>
float WorkingSetTrainer<Rows>::margin(const Lane& lane, std::int32_t row) const {
    return rows_.dot(row, lane.weights.data()) + config_.bias * lane.weights.back();
}

// Leave only rows outside the working set among the candidates; both are sorted.
template <class Rows>
void WorkingSetTrainer<Rows>::drop_members(Lane& lane) const {
    std::size_t in_set = 0;
    std::size_t n_kept = 0;
    for (const Candidate& candidate : lane.candidates) {
        while (in_set < lane.sorted_rows.size() && lane.sorted_rows[in_set] < candidate.row_id) ++in_set;
        if (in_set == lane.sorted_rows.size() || lane.sorted_rows[in_set] != candidate.row_id)
            lane.candidates[n_kept++] = candidate;
    }
    lane.candidates.resize(n_kept);
}

// False when violations outside the set, each at its least, show that it is too early.
template <class Rows>
bool WorkingSetTrainer<Rows>::may_be_converged(const Lane& lane) const {
    if (lane.truncated) return false;
    double square = lane.inner.gradient_norm * lane.inner.gradient_norm;
    for (const Candidate& candidate : lane.candidates) {
        const float norm = row_norms_[candidate.row_id];
        const float least = 1.0F + candidate.margin - 2.0F * lane.rounding * norm;
        const double part = least > 0.0F ? 2.0 * config_.cost * least * norm : 0.0;
        square += part * part;
    }
    return std::sqrt(square) <= lane.end_share * lane.start.tolerance;
}

// Decide by the gradient over all rows, from margins that are computed afresh wherever they matter, with the best bias over
// all rows; leaves only true violators among the candidates.
template <class Rows>
bool WorkingSetTrainer<Rows>::is_converged(Lane& lane) {
    constexpr float kSurelyIdle = 1.01F;  // margins of the working set are right to far better than this
    Subproblem& problem = lane.problem;
    if (!lane.by_rows || !in_dual(lane))  // that solver ends with a product for every row
        walk_rows(rows_, problem.row_ids.data(), problem.size(), [&](std::int64_t i) {
            if (problem.signs[i] * problem.margins[i] < kSurelyIdle)
                problem.margins[i] = margin(lane, problem.row_ids[i]);
        });
    for (Candidate& candidate : lane.candidates) candidate.margin = margin(lane, candidate.row_id);
    std::erase_if(lane.candidates, [](const Candidate& candidate) { return !violates(candidate); });
    // The best bias of the set moves down for the violators outside, so no other row becomes one.
    const double shift = std::min(0.0, best_bias_shift(config_, lane.weights.back(), [&](const auto& add) {
                                      for (std::int64_t i = 0; i < problem.size(); ++i)
                                          add(problem.signs[i], problem.costs[i], problem.margins[i]);
                                      for (const Candidate& candidate : lane.candidates)
                                          add(-1.0, config_.cost, candidate.margin);
                                  }));
    const float bias_weight = lane.weights.back();
    if (shift != 0.0) lane.weights.back() += static_cast<float>(shift / config_.bias);
    const double moved = static_cast<double>(config_.bias) * (static_cast<double>(lane.weights.back()) - bias_weight);
    std::copy(lane.weights.begin(), lane.weights.end(), gradient_.begin());
    double by_bias = config_.regularize_bias ? lane.weights.back() : 0.0;
    gradient_.back() = 0.0F;
    double loss = 0.0;
    const auto add = [&](std::int32_t row, double sign, double cost, double its_margin) {
        const double gap = 1.0 - sign * (its_margin + moved);
        if (gap <= 0.0) return;
        loss += cost * gap * gap;
        rows_.add_to(row, static_cast<float>(-2.0 * cost * sign * gap), gradient_.data());
        by_bias -= 2.0 * cost * sign * gap * config_.bias;
    };
    walk_rows(rows_, problem.row_ids.data(), problem.size(),
              [&](std::int64_t i) { add(problem.row_ids[i], problem.signs[i], problem.costs[i], problem.margins[i]); });
    for (const Candidate& candidate : lane.candidates) add(candidate.row_id, -1.0, config_.cost, candidate.margin);
    const double square = sum_of_squares(gradient_.data(), std::ssize(gradient_)) + by_bias * by_bias;
    double penalty = sum_of_squares(lane.weights.data(), std::ssize(lane.weights));
    if (!config_.regularize_bias) penalty -= static_cast<double>(lane.weights.back()) * lane.weights.back();
    lane.record.last_objective = 0.5 * penalty + loss;
    lane.record.gradient_ratio = std::sqrt(square) / lane.start.zero_gradient;
    if (!lane.truncated && std::sqrt(square) <= lane.end_share * lane.start.tolerance) {
        const double most = most_end_norm(lane.record.last_objective);
        if (std::sqrt(square) <= most) return true;
        lane.end_share = most / lane.start.tolerance;
        lane.inner_share = kInnerShare * lane.end_share;
    }
    lane.weights.back() = bias_weight;
    return false;
}

template class WorkingSetTrainer<SparseRows>;
template class WorkingSetTrainer<DenseRows>;

}  // namespace longtail::linear
