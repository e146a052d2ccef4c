// The first working set of a label: which rows, and at low costs how many.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kFirstRows = 32;          // a first set has at least so many negatives, if they are near enough
constexpr std::int64_t kFirstGramRows = 192;     // and, where violators abound, at most about so many rows
constexpr double kFitBelow = 1.0;                // at lower costs the start is fitted to the cost,
constexpr std::int64_t kFirstFittedRows = 4096;  // and a first set has all rows that then violate, up to so many
constexpr int kMaxFitSteps = 20;
constexpr double kFitError = 1e-3;

}  // namespace

// The start is right in its direction, but its length and bias suit costs near 1. Move the margins of the positives, which
// are the set so far, and of the candidates to those of the best length and bias, as far as these rows tell: the minimum
// of L over w = length · (the start without its bias) and the bias, by Newton steps. As many rows as then violate will
// about be active in the end.
template <class Rows>
void WorkingSetTrainer<Rows>::fit_start(Lane& lane) const {
    const std::int64_t n_features = rows_.n_features();
    const auto shared_scale = static_cast<float>(lane.start.shared_scale);
    const std::span<const float> shared = starter_.shared();
    const auto start_weight = [&](std::int64_t feature) {
        return lane.weights[feature] + (shared_scale != 0.0F ? shared_scale * shared[feature] : 0.0F);
    };
    double square = 0.0;
    for (std::int64_t f = 0; f < n_features; ++f) square += static_cast<double>(start_weight(f)) * start_weight(f);
    const float start_bias = config_.bias * start_weight(n_features);
    const double bias_penalty = config_.regularize_bias ? 1.0 / (config_.bias * config_.bias) : 0.0;
    double length = 1.0;
    double bias = start_bias;  // times the bias feature
    for (int step = 0; step < kMaxFitSteps; ++step) {
        double by_length = square * length;  // the gradient and the Hessian
        double by_bias = bias_penalty * bias;
        double length_length = square;
        double length_bias = 0.0;
        double bias_bias = bias_penalty;
        const auto add = [&](float margin, double sign, double cost) {
            const double words = static_cast<double>(margin) - start_bias;
            const double gap = 1.0 - sign * (length * words + bias);
            if (gap <= 0.0) return;
            by_length -= 2.0 * cost * sign * gap * words;
            by_bias -= 2.0 * cost * sign * gap;
            length_length += 2.0 * cost * words * words;
            length_bias += 2.0 * cost * words;
            bias_bias += 2.0 * cost;
        };
        const Subproblem& problem = lane.problem;
        for (std::int64_t i = 0; i < problem.size(); ++i) add(problem.margins[i], problem.signs[i], problem.costs[i]);
        for (const Candidate& candidate : lane.candidates) add(candidate.margin, -1.0, config_.cost);
        const double determinant = length_length * bias_bias - length_bias * length_bias;
        if (determinant <= 0.0) return;
        const double length_step = (length_bias * by_bias - bias_bias * by_length) / determinant;
        const double bias_step = (length_bias * by_length - length_length * by_bias) / determinant;
        length += length_step;
        bias += bias_step;
        if (std::abs(length_step) + std::abs(bias_step) < kFitError) break;
    }
    if (length <= 0.0) return;
    const auto fitted = [&](float margin) { return static_cast<float>(length * (margin - start_bias) + bias); };
    for (float& margin : lane.problem.margins) margin = fitted(margin);
    for (Candidate& candidate : lane.candidates) candidate.margin = fitted(candidate.margin);
}

// Whether the start is fitted to the cost. Without a bias feature there is nothing to fit.
template <class Rows>
bool WorkingSetTrainer<Rows>::fits_start() const {
    return config_.cost < kFitBelow && config_.bias != 0.0F;
}

// All positives, and the negatives that the start places nearest to them.
template <class Rows>
void WorkingSetTrainer<Rows>::choose_first_rows(Lane& lane) {
    const auto positives = labels_.positives.row_labels(lane.label);
    const float scale = static_cast<float>(lane.start.shared_scale);
    for (const std::int32_t row : positives)
        lane.problem.append(row, 1.0F, static_cast<float>(lane.start.positive_cost),
                            margin(lane, row) + (scale != 0.0F ? scale * starter_.shared_margins()[row] : 0.0F));
    lane.sorted_rows.assign(positives.begin(), positives.end());
    drop_members(lane);
    if (fits_start()) {
        if (keeps_history()) record_iteration(lane, 0.0F);  // at the start itself
        fit_start(lane);
    }
    auto& negatives = lane.candidates;
    const auto n_positives = static_cast<std::int64_t>(positives.size());
    const auto n_near = static_cast<std::int64_t>(negatives.size());
    const std::int64_t n_violating = std::count_if(negatives.begin(), negatives.end(), violates);
    const std::int64_t n_wanted = std::max(kFirstRows, 2 * n_positives);
    const std::int64_t n_most = fits_start() ? std::max(n_wanted, kFirstFittedRows)
                                             : std::max(n_wanted, std::min(4 * n_wanted, kFirstGramRows - n_positives));
    const std::int64_t n_taken = std::min(std::clamp(n_violating, n_wanted, n_most), n_near);
    if (n_taken < n_near) std::nth_element(negatives.begin(), negatives.begin() + n_taken, negatives.end(), is_worse);
    std::sort(negatives.begin(), negatives.begin() + n_taken, comes_before);
    for (std::int64_t i = 0; i < n_taken; ++i) {
        lane.problem.append(negatives[i].row_id, -1.0F, static_cast<float>(config_.cost), negatives[i].margin);
        lane.sorted_rows.push_back(negatives[i].row_id);
    }
    negatives.erase(negatives.begin(), negatives.begin() + n_taken);
    std::sort(lane.sorted_rows.begin(), lane.sorted_rows.end());
}

template bool WorkingSetTrainer<SparseRows>::fits_start() const;
template void WorkingSetTrainer<SparseRows>::fit_start(Lane&) const;
template void WorkingSetTrainer<SparseRows>::choose_first_rows(Lane&);
template bool WorkingSetTrainer<DenseRows>::fits_start() const;
template void WorkingSetTrainer<DenseRows>::fit_start(Lane&) const;
template void WorkingSetTrainer<DenseRows>::choose_first_rows(Lane&);

}  // namespace longtail::linear
