#include "linear/word_problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linear/cholesky.hpp"

namespace longtail::linear {

namespace {
constexpr int kMaxHalvings = 20;
constexpr double kArmijo = 0.01;
}  // namespace

void WordProblem::clear() {
    columns.clear();
    begins.assign(1, 0);
    places.clear();
    values.clear();
    rows.clear();
    point.clear();
}

void WordProblem::evaluate(Evaluation& out) const {
    const std::size_t k = columns.size();
    const double t = point[k];
    out.objective = 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
    out.n_active = 0;
    out.gradient = point;
    out.gradient[k] = config.stiffness * (t - 1.0);
    out.hessian.assign((k + 1) * (k + 1), 0.0);
    for (std::size_t i = 0; i < k; ++i) {
        out.objective += 0.5 * point[i] * point[i];
        out.hessian[i * (k + 1) + i] = 1.0;
    }
    double& bend = out.hessian[k * (k + 1) + k];
    bend = config.stiffness;
    if (t > 0.0) {
        out.objective += config.cost * config.n_far * t * t;
        out.gradient[k] += 2.0 * config.cost * config.n_far * t;
        bend += 2.0 * config.cost * config.n_far;
        out.n_active += static_cast<std::int64_t>(config.n_far);
    }
    add_columns(out);
    add_lists(out);
}

void WordProblem::add_columns(Evaluation& out) const {
    const std::size_t k = columns.size();
    const double t = point[k];
    const double twice = 2.0 * config.cost;
    for (std::size_t f = 0; f < k; ++f) {
        const double w = point[f];
        const auto [begin, end] = columns[f].above(t, w, 0.0);
        const auto n = static_cast<double>(end - begin);
        const double sum = columns[f].sums[end] - columns[f].sums[begin];
        const double square = columns[f].squares[end] - columns[f].squares[begin];
        out.objective += config.cost * (n * t * t + 2.0 * t * w * sum + w * w * square);
        out.n_active += end - begin;
        out.gradient[k] += twice * (n * t + w * sum);
        out.gradient[f] += twice * (t * sum + w * square);
        out.hessian[k * (k + 1) + k] += twice * n;
        out.hessian[k * (k + 1) + f] += twice * sum;
        out.hessian[f * (k + 1) + f] += twice * square;
    }
}

void WordProblem::add_lists(Evaluation& out) const {
    const std::size_t k = columns.size();
    const double t = point[k];
    double* const last = out.hessian.data() + k * (k + 1);
    const double twice = 2.0 * config.cost;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()); ++row) {
        const bool is_positive = row < n_positives;
        const std::int64_t begin = begins[row];
        const std::int64_t end = begins[row + 1];
        double margin = t;
        double largest = 0.0;
        if (end - begin ==
            2) {  // most of them, and a loop that ends after two turns, or after three, is hard to foresee
            const double first = point[places[begin]] * values[begin];
            const double second = point[places[begin + 1]] * values[begin + 1];
            margin += first + second;
            largest = std::max(first, second);
        } else {
            for (std::int64_t i = begin; i < end; ++i) {
                const double own = point[places[i]] * values[i];
                margin += own;
                largest = i == begin ? own : std::max(largest, own);
            }
        }
        // Most rows are below their margin, in their columns too.
        if (!is_positive && std::max(margin, t + largest) <= 0.0) continue;
        for (std::int64_t i = begin; i < end; ++i) {
            const std::size_t f = places[i];
            const double value = values[i];
            const double gap = t + point[f] * value;
            if (gap <= 0.0) continue;
            out.objective -= config.cost * gap * gap;
            --out.n_active;
            out.gradient[k] -= twice * gap;
            out.gradient[f] -= twice * gap * value;
            last[k] -= twice;
            last[f] -= twice * value;
            out.hessian[f * (k + 1) + f] -= twice * value * value;
        }
        const double gap = is_positive ? 2.0 - margin : margin;
        if (gap <= 0.0) continue;
        const double cost = is_positive ? config.positive_cost : config.cost;
        const double bend = 2.0 * cost;
        const double slope = is_positive ? -bend * gap : bend * gap;
        out.objective += cost * gap * gap;
        ++out.n_active;
        out.gradient[k] += slope;
        last[k] += bend;
        for (std::int64_t i = begin; i < end; ++i) {
            const std::size_t f = places[i];
            const double value = values[i];
            out.gradient[f] += slope * value;
            last[f] += bend * value;
            for (std::int64_t j = begin; j <= i; ++j) {
                const std::size_t g = places[j];
                out.hessian[std::max(f, g) * (k + 1) + std::min(f, g)] += bend * value * values[j];
            }
        }
    }
}

bool WordProblem::descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record) {
    const std::size_t n = point.size();
    evaluate(at_);
    if (record.iterations == 0) {
        record.first_objective = at_.objective;
        if (keeps_history) record.history.push_back({at_.objective, static_cast<std::int32_t>(at_.n_active), 0.0F});
    }
    for (int steps = 0;; ++steps) {
        double square = at_.gradient[n - 1] * at_.gradient[n - 1] / config.stiffness;
        for (std::size_t i = 0; i + 1 < n; ++i) square += at_.gradient[i] * at_.gradient[i];
        if (square <= tolerance * tolerance) return true;
        if (steps >= max_steps) return false;
        factor_ = at_.hessian;
        if (!solve_newton_step(factor_, at_.gradient, step_)) return false;
        double slope = 0.0;
        for (std::size_t i = 0; i < n; ++i) slope += at_.gradient[i] * step_[i];
        double share = 1.0;
        double taken = 0.0;
        bool is_lower = false;
        for (int halving = 0; halving <= kMaxHalvings && !is_lower; ++halving, share *= 0.5) {
            for (std::size_t i = 0; i < n; ++i) point[i] += (share - taken) * step_[i];
            taken = share;
            evaluate(trial_);
            is_lower = trial_.objective <= at_.objective + kArmijo * share * slope + 1e-9 * std::abs(at_.objective);
        }
        if (!is_lower) return false;
        std::swap(at_, trial_);
        ++record.iterations;
        if (keeps_history)
            record.history.push_back(
                {at_.objective, static_cast<std::int32_t>(at_.n_active), static_cast<float>(taken)});
    }
}

}  // namespace longtail::linear
