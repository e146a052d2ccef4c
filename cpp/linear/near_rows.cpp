#include "linear/near_rows.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::linear {

namespace {
constexpr int kMaxCgSteps = 100;
constexpr double kCgShare = 0.1;
constexpr double kArmijo = 0.01;
constexpr int kMaxHalvings = 20;
}  // namespace

void NearRows::clear() {
    begins.assign(1, 0);
    words.clear();
    values.clear();
    offsets.clear();
    point.clear();
    is_free.clear();
}

double NearRows::norm_square(const std::vector<double>& v) const {
    double square = 0.0;
    for (std::size_t i = 0; i + 1 < v.size(); ++i) square += v[i] * v[i];
    return config.has_background ? square : square + v.back() * v.back() / config.stiffness;
}

void NearRows::set_gradient() {
    const std::size_t n_words = point.size() - 1;
    const double t = point[n_words];
    const auto n_rows = static_cast<std::int64_t>(offsets.size());
    gradient_ = point;
    diagonal_.assign(n_words + 1, 1.0);
    sums_.resize(offsets.size());
    active_.clear();
    objective_ = 0.0;
    loss_ = 0.0;
    slope_sum_ = 0.0;
    double bend_sum = 0.0;
    for (std::size_t i = 0; i < n_words; ++i) objective_ += 0.5 * point[i] * point[i];
    for (std::int64_t row = 0; row < n_rows; ++row) {
        sums_[row] = row_sum(row, point);
        const RowSlope at = row_slope(config, row < n_positives, t, offsets[row], sums_[row]);
        objective_ += at.value;
        loss_ += 0.5 * at.bend * at.gap * at.gap;
        if (at.gap > 0.0) active_.push_back(static_cast<std::int32_t>(row));
        if (at.slope == 0.0 && at.bend == 0.0) continue;
        slope_sum_ += at.slope;
        bend_sum += at.bend;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) {
            gradient_[words[i]] += at.slope * values[i];
            diagonal_[words[i]] += at.bend * values[i] * values[i];
        }
    }
    gradient_[n_words] = 0.0;
    if (!config.has_background) {
        objective_ += 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
        gradient_[n_words] = config.stiffness * (t - 1.0) + slope_sum_;
        diagonal_[n_words] = config.stiffness + bend_sum;
        if (t > 0.0) {
            objective_ += config.cost * config.n_far * t * t;
            gradient_[n_words] += 2.0 * config.cost * config.n_far * t;
            diagonal_[n_words] += 2.0 * config.cost * config.n_far;
        }
    }
    fixed_square_ = 0.0;
    for (std::size_t i = 0; i < n_words; ++i)
        if (!is_free[i]) fixed_square_ += gradient_[i] * gradient_[i];
    gradient_square_ = norm_square(gradient_) - fixed_square_;
}

// Conjugate gradients on H p = -g, scaled by the diagonal.
void NearRows::set_step(double tolerance) {
    const std::size_t n = point.size();
    const double own_shift = config.stiffness + (point.back() > 0.0 ? 2.0 * config.cost * config.n_far : 0.0);
    step_.assign(n, 0.0);
    residual_.resize(n);
    direction_.resize(n);
    double current = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        residual_[i] = i + 1 < n && !is_free[i] ? 0.0 : -gradient_[i];
        direction_[i] = residual_[i] / diagonal_[i];
        current += residual_[i] * direction_[i];
    }
    const double goal = std::max(kCgShare * kCgShare * gradient_square_, 0.1 * tolerance * tolerance);
    for (int steps = 0; steps < kMaxCgSteps && norm_square(residual_) > goal; ++steps) {
        product_ = direction_;
        product_.back() *= own_shift;
        for (const std::int32_t row : active_) {
            const double cost = row < n_positives ? config.positive_cost : config.cost;
            const double bend = 2.0 * cost * (row_sum(row, direction_) + shift_part(direction_, row));
            for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) product_[words[i]] += bend * values[i];
            product_.back() += bend * static_cast<double>(offsets[row]);
        }
        if (config.has_background) product_.back() = 0.0;
        for (std::size_t i = 0; i + 1 < n; ++i)
            if (!is_free[i]) product_[i] = 0.0;
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

// Move along step_, halving until the objective falls enough; false when it cannot.
bool NearRows::take_step(float& share) {
    const std::size_t n = point.size();
    const double t = point.back();
    double slope = 0.0;
    double cross = 0.0;
    double square = 0.0;
    for (std::size_t i = 0; i < n; ++i) slope += gradient_[i] * step_[i];
    for (std::size_t i = 0; i + 1 < n; ++i) {
        cross += point[i] * step_[i];
        square += step_[i] * step_[i];
    }
    along_.resize(offsets.size());
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(offsets.size()); ++row)
        along_[row] = row_sum(row, step_);
    const auto change = [&](double part) {
        double total = part * cross + 0.5 * part * part * square;
        const double moved = config.has_background ? t : t + part * step_.back();
        for (std::int64_t row = 0; row < static_cast<std::int64_t>(offsets.size()); ++row) {
            const bool is_positive = row < n_positives;
            total += row_slope(config, is_positive, moved, offsets[row], sums_[row] + part * along_[row]).value -
                     row_slope(config, is_positive, t, offsets[row], sums_[row]).value;
        }
        if (config.has_background) return total;
        total += 0.5 * config.stiffness * (moved - t) * (moved + t - 2.0);
        const double after = std::max(0.0, moved);
        const double before = std::max(0.0, t);
        return total + config.cost * config.n_far * (after - before) * (after + before);
    };
    share = 1.0F;
    for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5F) {
        if (change(share) > kArmijo * share * slope) continue;
        for (std::size_t i = 0; i < n; ++i) point[i] += share * step_[i];
        for (std::size_t i = static_cast<std::size_t>(n_core); i + 1 < n; ++i) point[i] = std::min(point[i], 0.0);
        return true;
    }
    return false;
}

bool NearRows::descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record) {
    for (int steps = 0;; ++steps) {
        set_gradient();
        if (keeps_history && steps > 0) {
            record.history.back().objective = objective_;
            record.history.back().active_rows = static_cast<std::int32_t>(active_.size());
        }
        if (gradient_square_ <= tolerance * tolerance) return true;
        if (steps >= max_steps) return false;
        set_step(tolerance);
        float share = 0.0F;
        if (!take_step(share)) return false;
        ++record.iterations;
        if (keeps_history) record.history.push_back({0.0, 0, share});
    }
}

}  // namespace longtail::linear
