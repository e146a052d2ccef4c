#include "linear/word_problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linear/lanes.hpp"

namespace longtail::linear {

namespace {

constexpr int kMaxHalvings = 20;
constexpr double kArmijo = 0.01;
constexpr std::int64_t kPart = 1024 * kLanes;  // sums in float32 are no longer than this

double sum_of(const Lanes& lanes) {
    double total = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(lanes[lane]);
    return total;
}

Lanes load_some(const float* source, std::int64_t n) {
    Lanes out;
    if (n >= kLanes) {
        load(out, source);
    } else {
        float some[kLanes] = {};
        std::copy(source, source + n, some);
        load(out, some);
    }
    return out;
}

}  // namespace

RowSlope row_slope(const WordConfig& config, bool is_positive, double t, double offset, double sum) {
    const double margin = t * offset + sum;
    const double gap = std::max(0.0, is_positive ? 2.0 - margin : margin);
    const double cost = is_positive ? config.positive_cost : config.cost;
    const double taken_off = config.has_background ? 2.0 * config.cost * t * std::max(0.0, offset) : 0.0;
    return {gap, (is_positive ? -2.0 : 2.0) * cost * gap - taken_off, cost * gap * gap - taken_off * margin,
            gap > 0.0 ? 2.0 * cost : 0.0};
}

void WordProblem::clear() {
    single_begins.clear();
    single_values.clear();
    single_offsets.clear();
    single_rows.clear();
    begins.assign(1, 0);
    places.clear();
    values.clear();
    offsets.clear();
    rows.clear();
    point.clear();
}

void WordProblem::evaluate(Evaluation& out) const {
    const std::size_t k = single_begins.size() - 1;
    const double t = point[k];
    out.objective = 0.0;
    out.n_active = 0;
    out.gradient = point;
    out.gradient[k] = 0.0;
    out.hessian.assign((k + 1) * (k + 1), 0.0);
    for (std::size_t i = 0; i < k; ++i) {
        out.objective += 0.5 * point[i] * point[i];
        out.hessian[i * (k + 1) + i] = 1.0;
    }
    double& bend = out.hessian[k * (k + 1) + k];
    bend = config.stiffness;
    if (!config.has_background) {
        out.objective += 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
        out.gradient[k] = config.stiffness * (t - 1.0);
        if (t > 0.0) {
            out.objective += config.cost * config.n_far * t * t;
            out.gradient[k] += 2.0 * config.cost * config.n_far * t;
            bend += 2.0 * config.cost * config.n_far;
            out.n_active += static_cast<std::int64_t>(config.n_far);
        }
    }
    evaluate_singles(out);
    evaluate_lists(out);
    if (config.has_background) {  // t is given
        out.gradient[k] = 0.0;
        std::fill(out.hessian.begin() + static_cast<std::ptrdiff_t>(k * (k + 1)), out.hessian.end(), 0.0);
        bend = 1.0;
    }
}

void WordProblem::evaluate_singles(Evaluation& out) const {
    const std::size_t k = single_begins.size() - 1;
    const float t = static_cast<float>(point[k]);
    const float taken_off = config.has_background ? t : 0.0F;
    for (std::size_t f = 0; f < k; ++f) {
        const float weight = static_cast<float>(point[f]);
        double totals[6] = {};  // of γ² - 2γ·taken, slope, slope·value, [active], [active]·value, [active]·value²
        for (std::int64_t part = single_begins[f]; part < single_begins[f + 1]; part += kPart) {
            Lanes sums[6] = {};
            const std::int64_t end = std::min(single_begins[f + 1], part + kPart);
            for (std::int64_t i = part; i < end; i += kLanes) {  // missing lanes are zeros and add nothing
                const Lanes value = load_some(single_values.data() + i, end - i);
                const Lanes offset = load_some(single_offsets.data() + i, end - i);
                const Lanes margin = t * offset + weight * value;
                const LaneMask is_active = margin > 0.0F;
                const Lanes gap = select(is_active, margin, Lanes{});
                const Lanes one = select(is_active, Lanes{} + 1.0F, Lanes{});
                const Lanes seen = select(is_active, value, Lanes{});
                const LaneMask is_up = offset > 0.0F;
                const Lanes taken = select(is_up, taken_off * offset, Lanes{});
                const Lanes slope = gap - taken;
                sums[0] += gap * gap - 2.0F * taken * margin;
                sums[1] += slope;
                sums[2] += slope * value;
                sums[3] += one;
                sums[4] += seen;
                sums[5] += seen * value;
            }
            for (int i = 0; i < 6; ++i) totals[i] += sum_of(sums[i]);
        }
        const double twice = 2.0 * config.cost;
        out.objective += config.cost * totals[0];
        out.gradient[k] += twice * totals[1];
        out.gradient[f] += twice * totals[2];
        out.n_active += static_cast<std::int64_t>(totals[3]);
        out.hessian[k * (k + 1) + k] += twice * totals[3];
        out.hessian[k * (k + 1) + f] += twice * totals[4];
        out.hessian[f * (k + 1) + f] += twice * totals[5];
    }
}

void WordProblem::evaluate_lists(Evaluation& out) const {
    const std::size_t k = single_begins.size() - 1;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(rows.size()); ++row) {
        const RowSlope at = row_slope(config, row < n_positives, point[k], offsets[row], list_sum(row));
        if (at.gap == 0.0 && at.slope == 0.0) continue;
        out.objective += at.value;
        out.n_active += at.gap > 0.0 ? 1 : 0;
        out.gradient[k] += at.slope;
        out.hessian[k * (k + 1) + k] += at.bend;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) {
            const std::size_t f = places[i];
            out.gradient[f] += at.slope * values[i];
            out.hessian[k * (k + 1) + f] += at.bend * values[i];
            if (at.bend == 0.0) continue;
            for (std::int64_t j = begins[row]; j <= i; ++j) {
                const std::size_t g = places[j];
                out.hessian[std::max(f, g) * (k + 1) + std::min(f, g)] +=
                    at.bend * static_cast<double>(values[i]) * static_cast<double>(values[j]);
            }
        }
    }
}

// step_ = -H⁻¹ g by Cholesky's factors.
bool WordProblem::set_step(const Evaluation& at) {
    const std::size_t n = point.size();
    factor_ = at.hessian;
    step_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
        double* const row = factor_.data() + i * n;
        for (std::size_t j = 0; j < i; ++j) {
            const double* const other = factor_.data() + j * n;
            double sum = row[j];
            for (std::size_t l = 0; l < j; ++l) sum -= row[l] * other[l];
            row[j] = sum / other[j];
        }
        double square = row[i];
        double sum = -at.gradient[i];
        for (std::size_t l = 0; l < i; ++l) {
            square -= row[l] * row[l];
            sum -= row[l] * step_[l];
        }
        if (square <= 0.0) return false;
        row[i] = std::sqrt(square);
        step_[i] = sum / row[i];
    }
    for (std::size_t i = n; i-- > 0;) {
        step_[i] /= factor_[i * n + i];
        for (std::size_t l = 0; l < i; ++l) step_[l] -= factor_[i * n + l] * step_[i];
    }
    return true;
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
        if (steps >= max_steps || !set_step(at_)) return false;
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
