#include "linear/word_problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "linear/cholesky.hpp"
#include "linear/double_lanes.hpp"

namespace longtail::linear {

namespace {
constexpr int kMaxHalvings = 20;
constexpr double kArmijo = 0.01;
}  // namespace

void WordProblem::clear() {
    n_pairs = 0;
    first_values_.clear();
    second_values_.clear();
    run_ends_.clear();
    columns.clear();
    begins.assign(1, 0);
    places.clear();
    values.clear();
    rows.clear();
    point.clear();
}

void WordProblem::add_pairs(std::span<const WordPair> pairs) {
    n_pairs = static_cast<std::int64_t>(pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const WordPair& pair = pairs[i];
        if (i > 0 && pair.places != pairs[i - 1].places) run_ends_.push_back(static_cast<std::int64_t>(i));
        rows.push_back(pair.row);
        places.insert(places.end(), pair.places.begin(), pair.places.end());
        values.insert(values.end(), pair.values.begin(), pair.values.end());
        begins.push_back(begins.back() + 2);
        first_values_.push_back(pair.values[0]);
        second_values_.push_back(pair.values[1]);
    }
    if (!pairs.empty()) run_ends_.push_back(n_pairs);
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
    const double t = point.back();
    for (std::int64_t row = 0; row < n_positives; ++row) add_list(row, out);
    // Most negative rows are below their margin, in their columns too.
    const std::int64_t last_pair = n_positives + n_pairs;
    std::int64_t first = 0;
    for (const std::int64_t end : run_ends_) {
        add_pair_run(first, end, out);
        first = end;
    }
    std::int64_t i = begins[last_pair];
    for (std::int64_t row = last_pair; row < static_cast<std::int64_t>(rows.size()); ++row) {
        double sum = 0.0;
        double largest = -std::numeric_limits<double>::infinity();
        for (; i < begins[row + 1]; ++i) {
            const double own = point[places[i]] * values[i];
            sum += own;
            largest = std::max(largest, own);
        }
        if (t + std::max(sum, largest) > 0.0) add_list(row, out);
    }
}

// Add pairs of the same two words, and take back what they add in their columns.
void WordProblem::add_pair_run(std::int64_t first, std::int64_t last, Evaluation& out) const {
    const std::int32_t* const own_places = places.data() + begins[n_positives + first];
    const std::size_t f = own_places[0];
    const std::size_t g = own_places[1];
    const double t = point.back();
    const double first_weight = point[f];
    const double second_weight = point[g];
    DoubleLanes sums[10] = {};
    const DoubleLanes one = DoubleLanes{} + 1.0;
    std::int64_t pair = first;
    for (; pair + kDoubleLanes <= last; pair += kDoubleLanes) {
        const DoubleLanes x = load_doubles(first_values_.data() + pair);
        const DoubleLanes y = load_doubles(second_values_.data() + pair);
        const DoubleLanes x_margin = t + first_weight * x;
        const DoubleLanes y_margin = t + second_weight * y;
        const DoubleLanes margin = x_margin + second_weight * y;
        if (!is_any_above_zero(larger(margin, larger(x_margin, y_margin)))) continue;
        const DoubleLanes gap = above_zero(margin);
        const DoubleLanes x_gap = above_zero(x_margin);
        const DoubleLanes y_gap = above_zero(y_margin);
        const DoubleLanes n = margin > DoubleLanes{} ? one : DoubleLanes{};
        const DoubleLanes x_n = n - (x_margin > DoubleLanes{} ? one : DoubleLanes{});
        const DoubleLanes y_n = n - (y_margin > DoubleLanes{} ? one : DoubleLanes{});
        sums[0] += gap * gap - x_gap * x_gap - y_gap * y_gap;
        sums[1] += x_n + y_n - n;
        sums[2] += gap - x_gap - y_gap;
        sums[3] += (gap - x_gap) * x;
        sums[4] += (gap - y_gap) * y;
        sums[5] += x_n * x;
        sums[6] += y_n * y;
        sums[7] += x_n * x * x;
        sums[8] += y_n * y * y;
        sums[9] += n * x * y;
    }
    const std::size_t k = columns.size();
    const double twice = 2.0 * config.cost;
    double* const hessian = out.hessian.data();
    const double n = sum(sums[1]);
    out.objective += config.cost * sum(sums[0]);
    out.n_active += static_cast<std::int64_t>(n);
    out.gradient[k] += twice * sum(sums[2]);
    out.gradient[f] += twice * sum(sums[3]);
    out.gradient[g] += twice * sum(sums[4]);
    hessian[k * (k + 1) + k] += twice * n;
    hessian[k * (k + 1) + f] += twice * sum(sums[5]);
    hessian[k * (k + 1) + g] += twice * sum(sums[6]);
    hessian[f * (k + 1) + f] += twice * sum(sums[7]);
    hessian[g * (k + 1) + g] += twice * sum(sums[8]);
    hessian[std::max(f, g) * (k + 1) + std::min(f, g)] += twice * sum(sums[9]);
    for (; pair < last; ++pair) {
        const double x = first_weight * first_values_[pair];
        const double y = second_weight * second_values_[pair];
        if (t + std::max(x + y, std::max(x, y)) > 0.0) add_list(n_positives + pair, out);
    }
}

// Add a row of the lists, and take back what it adds in its columns.
void WordProblem::add_list(std::int64_t row, Evaluation& out) const {
    const std::size_t k = columns.size();
    const double t = point[k];
    double* const last = out.hessian.data() + k * (k + 1);
    const double twice = 2.0 * config.cost;
    const bool is_positive = row < n_positives;
    const std::int64_t begin = begins[row];
    const std::int64_t end = begins[row + 1];
    double margin = t;
    for (std::int64_t i = begin; i < end; ++i) {
        const std::size_t f = places[i];
        const double value = values[i];
        const double own = point[f] * value;
        const double gap = t + own;
        margin += own;
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
    if (gap <= 0.0) return;
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
