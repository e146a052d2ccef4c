#include "linear/near_rows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace longtail::linear {

namespace {
constexpr int kMaxCgSteps = 100;
constexpr double kCgShare = 0.1;
constexpr double kArmijo = 0.01;
constexpr int kMaxHalvings = 20;
constexpr double kRounding = 1e-13;  // of the objective: what sums over many rows may be off by
}  // namespace

void NearRows::clear_rows() {
    begins.assign(1, 0);
    words.clear();
    values.clear();
    offsets.clear();
}

double NearRows::norm_square(const std::vector<double>& v) const {
    double square = 0.0;
    for (std::size_t i = 0; i + 1 < v.size(); ++i) square += v[i] * v[i];
    return has_background ? square : square + v.back() * v.back() / config.stiffness;
}

void NearRows::evaluate(Evaluation& out) const {
    const std::size_t n_words = point.size() - 1;
    const double t = point[n_words];
    const auto n_rows = static_cast<std::int64_t>(offsets.size());
    const double held = has_background ? 2.0 * config.cost * t : 0.0;  // what an offset above zero takes off the slope
    out.gradient = point;
    out.slopes.resize(offsets.size());
    out.active.clear();
    out.objective = 0.0;
    out.loss = 0.0;
    out.slope_sum = 0.0;
    out.bend_sum = 0.0;
    for (std::size_t i = 0; i < n_words; ++i) out.objective += 0.5 * point[i] * point[i];
    for (std::int64_t row = 0; row < n_rows; ++row) {
        double margin = t * offsets[row];
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) margin += point[words[i]] * values[i];
        const bool is_positive = row < n_positives;
        const double gap = is_positive ? 2.0 - margin : margin;
        const double taken_off = held * std::max(0.0F, offsets[row]);
        double slope = -taken_off;
        if (gap > 0.0) {
            const double cost = is_positive ? config.positive_cost : config.cost;
            slope += (is_positive ? -2.0 : 2.0) * cost * gap;
            out.loss += cost * gap * gap;
            out.bend_sum += 2.0 * cost;
            out.active.push_back(static_cast<std::int32_t>(row));
        }
        out.slopes[row] = slope;
        if (slope == 0.0) continue;
        out.objective -= taken_off * margin;
        out.slope_sum += slope;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) out.gradient[words[i]] += slope * values[i];
    }
    out.objective += out.loss;
    out.gradient[n_words] = 0.0;
    if (!has_background) {
        out.objective += 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
        out.gradient[n_words] = config.stiffness * (t - 1.0) + out.slope_sum;
        if (t > 0.0) {
            out.objective += config.cost * config.n_far * t * t;
            out.gradient[n_words] += 2.0 * config.cost * config.n_far * t;
        }
    }
    out.gradient_square = norm_square(out.gradient);
}

// Conjugate gradients on H p = -g, scaled by the diagonal.
void NearRows::set_step(double tolerance) {
    const std::size_t n = point.size();
    const double own_shift = config.stiffness + (point.back() > 0.0 ? 2.0 * config.cost * config.n_far : 0.0);
    active_begins_.assign(1, 0);
    active_words_.clear();
    active_values_.clear();
    diagonal_.assign(n, 1.0);
    diagonal_.back() = has_background ? 1.0 : own_shift + at_.bend_sum;
    for (const std::int32_t row : at_.active) {
        const double bend = 2.0 * (row < n_positives ? config.positive_cost : config.cost);
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) {
            active_words_.push_back(words[i]);
            active_values_.push_back(values[i]);
            diagonal_[words[i]] += bend * values[i] * values[i];
        }
        active_begins_.push_back(static_cast<std::int64_t>(active_words_.size()));
    }
    step_.assign(n, 0.0);
    residual_.resize(n);
    direction_.resize(n);
    double current = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        residual_[i] = -at_.gradient[i];
        direction_[i] = residual_[i] / diagonal_[i];
        current += residual_[i] * direction_[i];
    }
    const double goal = std::max(kCgShare * kCgShare * at_.gradient_square, 0.1 * tolerance * tolerance);
    for (int steps = 0; steps < kMaxCgSteps && norm_square(residual_) > goal; ++steps) {
        product_ = direction_;
        const double shift = has_background ? 0.0 : direction_.back();  // offsets are 1 where t moves
        double shift_product = own_shift * shift;
        for (std::size_t place = 0; place < at_.active.size(); ++place) {
            const std::int64_t end = active_begins_[place + 1];
            double sum = shift;
            for (std::int64_t i = active_begins_[place]; i < end; ++i)
                sum += direction_[active_words_[i]] * active_values_[i];
            const double bend = 2.0 * (at_.active[place] < n_positives ? config.positive_cost : config.cost) * sum;
            shift_product += bend;
            for (std::int64_t i = active_begins_[place]; i < end; ++i)
                product_[active_words_[i]] += bend * active_values_[i];
        }
        product_.back() = has_background ? 0.0 : shift_product;
        double curvature = 0.0;
        for (std::size_t i = 0; i < n; ++i) curvature += direction_[i] * product_[i];
        if (curvature <= 0.0) return;
        const double length = current / curvature;
        double next = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            step_[i] += length * direction_[i];
            residual_[i] -= length * product_[i];
            next += residual_[i] * residual_[i] / diagonal_[i];
        }
        for (std::size_t i = 0; i < n; ++i)
            direction_[i] = residual_[i] / diagonal_[i] + next / current * direction_[i];
        current = next;
    }
}

bool NearRows::descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record) {
    const std::size_t n = point.size();
    evaluate(at_);
    for (int steps = 0; at_.gradient_square > tolerance * tolerance; ++steps) {
        if (steps >= max_steps) return false;
        set_step(tolerance);
        double slope = 0.0;
        for (std::size_t i = 0; i < n; ++i) slope += at_.gradient[i] * step_[i];
        before_ = point;
        double share = 1.0;
        bool is_lower = false;
        for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5) {
            for (std::size_t i = 0; i < n; ++i) point[i] = before_[i] + share * step_[i];
            for (std::size_t i = static_cast<std::size_t>(n_core); i + 1 < n; ++i) point[i] = std::min(point[i], 0.0);
            evaluate(trial_);
            is_lower =
                trial_.objective <= at_.objective + kArmijo * share * slope + kRounding * std::abs(at_.objective);
            if (is_lower) break;
        }
        if (!is_lower) return false;
        std::swap(at_, trial_);
        ++record.iterations;
        if (keeps_history)
            record.history.push_back(
                {at_.objective, static_cast<std::int32_t>(at_.active.size()), static_cast<float>(share)});
    }
    return true;
}

}  // namespace longtail::linear
