// The statistics of rounds: what a history needs, and training does not.

#include <algorithm>
#include <functional>
#include <vector>

#include "linear/sums.hpp"
#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

constexpr std::size_t kExactRows = 24;  // the worst violators outside the set, whose margins are computed exactly,
constexpr int kExactMembers = 64;       // and at the start negatives of the set

// The n-th greatest margin of violators; -1 if there are fewer.
template <class Candidates>
float worst_margin(const Candidates& candidates, std::size_t n) {
    std::vector<float> margins;
    for (const auto& candidate : candidates)
        if (candidate.margin > -1.0F) margins.push_back(candidate.margin);
    if (margins.size() <= n) return -1.0F;
    std::nth_element(margins.begin(), margins.begin() + static_cast<std::ptrdiff_t>(n) - 1, margins.end(),
                     std::greater<>());
    return margins[n - 1];
}

}  // namespace

// Count a candidate that is not kept, without the bound on the pass's rounding. It may be a member of the set.
template <class Rows>
void WorkingSetTrainer<Rows>::leave_unlisted(Lane& lane, const Candidate& candidate) const {
    const double gap = 1.0 + candidate.margin - lane.rounding * row_norms_[candidate.row_id];
    if (gap <= 0.0) return;
    lane.unlisted_loss += config_.cost * gap * gap;
    ++lane.n_unlisted;
}

// The objective over all rows. Margins of the set are those that its solver ended with; those of other rows are the
// pass's, except for the worst. This makes the objective right to about 1e-3, and exact at the end, where few rows
// outside the set violate. Candidates must not be members of the set.
template <class Rows>
void WorkingSetTrainer<Rows>::record_iteration(Lane& lane, float step_size) {
    const auto begin_time = std::chrono::steady_clock::now();
    const std::int64_t width = rows_.n_features() + 1;
    const float shared_scale = lane.at_start ? static_cast<float>(lane.start.shared_scale) : 0.0F;
    AlignedVector<float> with_shared;
    const float* weights = lane.weights.data();
    if (shared_scale != 0.0F) {
        with_shared = lane.weights;
        add_scaled(with_shared.data(), starter_.shared().data(), shared_scale, width);
        weights = with_shared.data();
    }
    double objective = 0.5 * sum_of_squares(weights, config_.regularize_bias ? width : width - 1) + lane.unlisted_loss;
    std::int32_t n_active = lane.n_unlisted;
    const auto add = [&](double sign, double margin, double cost) {
        const double gap = 1.0 - sign * margin;
        objective += gap > 0.0 ? cost * gap * gap : 0.0;
        n_active += gap > 0.0 ? 1 : 0;
    };
    // Rounding errs in the same direction for rows alike: what it does to some rows is taken off the others.
    double error = 0.0;
    int n_exact = 0;
    const auto add_exact = [&](std::int32_t row, float of_pass, double cost) {
        const float margin = rows_.dot(row, weights) + config_.bias * weights[width - 1];
        add(-1.0, margin, cost);
        error += static_cast<double>(margin) - of_pass;
        ++n_exact;
    };
    const Subproblem& problem = lane.problem;
    for (std::int64_t i = 0; i < problem.size(); ++i) {
        const double as_negative = 1.0 + problem.margins[i];
        if (lane.n_unlisted > 0 && as_negative > 0.0 && problem.margins[i] <= lane.floor) {  // the pass counted it too
            objective -= config_.cost * as_negative * as_negative;
            --n_active;
        }
        if (!lane.at_start || problem.signs[i] > 0.0F) {
            add(problem.signs[i], problem.margins[i], problem.costs[i]);
            continue;
        }
        const float of_pass = problem.margins[i] - lane.rounding * row_norms_[problem.row_ids[i]];
        if (n_exact < kExactMembers)
            add_exact(problem.row_ids[i], of_pass, problem.costs[i]);
        else
            add(-1.0, of_pass + error / n_exact, problem.costs[i]);
    }
    const float bad = worst_margin(lane.candidates, kExactRows);
    const auto margin_of = [&](const Candidate& c) { return c.margin - lane.rounding * row_norms_[c.row_id]; };
    for (const Candidate& candidate : lane.candidates)
        if (candidate.margin > -1.0F && candidate.margin >= bad)  // at most -1: the row is idle
            add_exact(candidate.row_id, margin_of(candidate), config_.cost);
    for (const Candidate& candidate : lane.candidates)
        if (candidate.margin > -1.0F && candidate.margin < bad)
            add(-1.0, margin_of(candidate) + error / n_exact, config_.cost);
    if (lane.record.history.empty()) lane.record.first_objective = objective;
    lane.record.history.push_back({objective, n_active, step_size});
    lane.record.seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();
}

template void WorkingSetTrainer<SparseRows>::leave_unlisted(Lane&, const Candidate&) const;
template void WorkingSetTrainer<DenseRows>::leave_unlisted(Lane&, const Candidate&) const;
template void WorkingSetTrainer<SparseRows>::record_iteration(Lane&, float);
template void WorkingSetTrainer<DenseRows>::record_iteration(Lane&, float);

}  // namespace longtail::linear
