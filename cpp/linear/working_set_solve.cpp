// The solution of one label's working set: which solver, and what goes in and out.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

// Tuned on EURLex-4K, Delicious and wnwords.
constexpr std::int64_t kGramRows = 900;      // larger sets of sparse rows are solved by rows,
constexpr std::int64_t kDualGramRows = 150;  // and those where the dual is as quick:
constexpr double kMaxDualCost = 128.0;       // its visits grow in number with the cost,
constexpr double kMaxCrowdedCost = 4.0;      // the more so in sets of more rows than features
constexpr double kRoundShare = 0.05;         // a round need not reduce its gradient further than this,
constexpr double kDualShare = 0.2;           // or this in the dual
constexpr double kMinRoughCost = 0.5;  // lower costs need few visits to large sets: rough solutions would save nothing
constexpr int kLeastIterations = 8;    // with fewer allowed, there are no rough solutions

}  // namespace

template <class Rows>
bool WorkingSetTrainer<Rows>::suits_rough_solutions(const OvaConfig& config) {
    return Rows::kSparse && config.loss == Loss::squared_hinge && config.working_sets && config.regularize_bias &&
           config.cost >= kMinRoughCost && config.cost <= kMaxDualCost && config.max_iterations >= kLeastIterations;
}

template <class Rows>
void WorkingSetTrainer<Rows>::solve(Lane& lane, bool from_margins) {
    const double tolerance = lane.inner_share * lane.start.tolerance;
    if (!lane.in_primal && is_crowded(lane)) {
        if (lane.is_resumed) set_weights(lane);
        lane.in_primal = true;
    }
    const bool is_dual = in_dual(lane);
    if (!Rows::kSparse || !config_.regularize_bias || lane.problem.size() > (is_dual ? kDualGramRows : kGramRows)) {
        if (from_margins && lane.start.shared_scale != 0.0)
            add_scaled(lane.weights.data(), starter_.shared().data(), static_cast<float>(lane.start.shared_scale),
                       rows_.n_features() + 1);
        lane.by_rows = true;
    }
    if (lane.by_rows && is_dual) {
        solve_in_dual(lane, tolerance, from_margins);
    } else if (lane.by_rows) {
        lane.inner = row_solver_.solve(lane.problem, lane.weights.data(), tolerance, kRoundShare);
    } else {
        if constexpr (Rows::kSparse)
            lane.problem.gram.extend(rows_, lane.problem.row_ids, config_.bias, scatter_.data());
        lane.inner = gram_solver_.solve(lane.problem, tolerance, kRoundShare, from_margins);
    }
    if (!lane.by_rows) set_weights(lane);
    ++lane.record.iterations;
    lane.record.cg_steps += lane.inner.cg_steps;
}

template <class Rows>
void WorkingSetTrainer<Rows>::solve_in_dual(Lane& lane, double tolerance, bool from_margins) {
    if constexpr (Rows::kSparse) {
        if (rows_.n_features() <= std::numeric_limits<std::uint16_t>::max())
            solve_dual(lane, narrow_copies_, tolerance, from_margins);
        else
            solve_dual(lane, copies_, tolerance, from_margins);
    }
}

template <class Rows>
template <class Feature>
void WorkingSetTrainer<Rows>::solve_dual(Lane& lane, LabelCopies<Feature>& copies, double tolerance,
                                         bool from_margins) {
    double share = kDualShare;
    copies.whole.copy(rows_, lane.problem.row_ids, row_norms_, config_.bias);
    if (lane.bias_shift != 0.0F) {  // back to w = Σ β x
        lane.weights.back() = lane.dual_bias;
        for (float& margin : lane.problem.margins) margin -= lane.bias_shift;
    }
    if (from_margins) {
        std::fill(lane.weights.begin(), lane.weights.end(), 0.0F);
        row_dual_.begin(lane.problem, copies.whole, lane.weights.data());
    } else if (lane.is_resumed) {  // likely for the last time
        row_dual_.restore(lane.problem, copies.whole, lane.weights.data());
        lane.is_resumed = false;
        share = 0.0;
    }
    const bool has_coarse = !coarse_parts_.empty();
    if (has_coarse)
        copies.coarse.copy(SparseRows(*moments_.coarse), lane.problem.row_ids, coarse_parts_, copies.whole,
                           config_.bias);
    lane.inner = row_dual_.solve(lane.problem, copies.whole, lane.weights.data(), tolerance, share,
                                 has_coarse ? &copies.coarse : nullptr);
    lane.bias_shift = row_dual_.bias_shift();
    if (lane.bias_shift != 0.0F) {
        lane.dual_bias = lane.weights.back();
        lane.weights.back() += lane.bias_shift / config_.bias;
        for (float& margin : lane.problem.margins) margin += lane.bias_shift;
    }
}

// Whether sets too large for a Gram matrix are solved in the dual.
template <class Rows>
bool WorkingSetTrainer<Rows>::in_dual(const Lane& lane) const {
    return Rows::kSparse && config_.regularize_bias && !lane.in_primal &&
           std::max(config_.cost, lane.start.positive_cost) <= kMaxDualCost;
}

// Whether the dual would take too many visits: among more rows than features, each one moves many others. Rough solutions
// stay in the dual, because they are handed over as betas.
template <class Rows>
bool WorkingSetTrainer<Rows>::is_crowded(const Lane& lane) const {
    return rough_ == nullptr && lane.problem.size() > rows_.n_features() &&
           std::max(config_.cost, lane.start.positive_cost) > kMaxCrowdedCost;
}

// w = Σ β x
template <class Rows>
void WorkingSetTrainer<Rows>::set_weights(Lane& lane) {
    std::fill(lane.weights.begin(), lane.weights.end(), 0.0F);
    float bias_weight = 0.0F;
    walk_rows(rows_, lane.problem.row_ids.data(), lane.problem.size(), [&](std::int64_t i) {
        const float beta = lane.problem.betas[i];
        if (beta == 0.0F) return;
        rows_.add_to(lane.problem.row_ids[i], beta, lane.weights.data());
        bias_weight += beta * config_.bias;
    });
    lane.weights.back() = bias_weight;
}

template bool WorkingSetTrainer<SparseRows>::suits_rough_solutions(const OvaConfig&);
template void WorkingSetTrainer<SparseRows>::solve(Lane&, bool);
template void WorkingSetTrainer<SparseRows>::solve_in_dual(Lane&, double, bool);
template bool WorkingSetTrainer<SparseRows>::in_dual(const Lane&) const;
template bool WorkingSetTrainer<SparseRows>::is_crowded(const Lane&) const;
template void WorkingSetTrainer<SparseRows>::set_weights(Lane&);
template bool WorkingSetTrainer<DenseRows>::suits_rough_solutions(const OvaConfig&);
template void WorkingSetTrainer<DenseRows>::solve(Lane&, bool);
template void WorkingSetTrainer<DenseRows>::solve_in_dual(Lane&, double, bool);
template bool WorkingSetTrainer<DenseRows>::in_dual(const Lane&) const;
template bool WorkingSetTrainer<DenseRows>::is_crowded(const Lane&) const;
template void WorkingSetTrainer<DenseRows>::set_weights(Lane&);

}  // namespace longtail::linear
