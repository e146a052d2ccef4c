#include "fastxml/l1_logistic.hpp"

#include <algorithm>
#include <cmath>

#include "fastxml/logistic.hpp"

namespace longtail::fastxml {
namespace {

constexpr std::int64_t kLanes = NodeColumns::kLanes;
constexpr float kLargestStep = 10.0F;
constexpr float kCurvatureFloor = 1e-7F;
constexpr float kUnknown = -1.0F;  // a curvature that is not needed yet
constexpr double kSufficientDecrease = 0.01;
constexpr double kInnerTightening = 0.25;
constexpr double kSmallestDecrease = 1e-7;  // less is rounding
constexpr int kMaxHalvings = 20;

}  // namespace

void L1Logistic::solve(const NodeColumns& x, std::span<const float> signed_costs,
                       std::span<const float> start_gradients, const L1Config& config, Random& random) {
    const auto n_columns = static_cast<std::size_t>(x.n_columns);
    const auto stride = static_cast<std::size_t>(x.stride);
    const bool starts_at_zero = !start_gradients.empty();
    if (starts_at_zero) {
        weights.assign(n_columns, 0.0F);
        scores.assign(stride, 0.0F);
    }
    n_newton_ = 0;
    start_violation_ = -1.0;
    inner_tolerance_ = 1.0;
    iterate(x, signed_costs, start_gradients, config, random);
}

bool L1Logistic::resume(const NodeColumns& x, std::span<const float> signed_costs, double excess, const L1Config& config,
                        Random& random) {
    if (excess <= config.tolerance * start_violation_ || n_newton_ >= config.max_newton) return false;
    weights.resize(static_cast<std::size_t>(x.n_columns), 0.0F);
    iterate(x, signed_costs, {}, config, random);
    return true;
}

void L1Logistic::iterate(const NodeColumns& x, std::span<const float> signed_costs,
                         std::span<const float> start_gradients, const L1Config& config, Random& random) {
    const auto n_columns = static_cast<std::size_t>(x.n_columns);
    const auto stride = static_cast<std::size_t>(x.stride);
    residuals_.resize(stride);
    hessian_.resize(stride);
    moved_.resize(stride);
    gradients_.resize(n_columns);
    curvatures_.assign(n_columns, kUnknown);
    steps_.assign(n_columns, 0.0F);
    working_.resize(n_columns);
    for (std::size_t j = 0; j < n_columns; ++j) working_[j] = static_cast<std::int32_t>(j);
    rest_.clear();

    bool is_stuck = false;  // no step on the working set lowers the objective any more
    bool last_failed = false;
    for (bool is_first = true;; is_first = false) {
        refresh_rows(signed_costs);
        if (is_first && !start_gradients.empty())
            std::copy(start_gradients.begin(), start_gradients.end(), gradients_.begin());
        else
            compute_derivatives(x);

        double total = 0.0;
        float largest = 0.0F;
        const auto measure = [&](const std::vector<std::int32_t>& columns) {
            for (const std::int32_t j : columns) {
                const float v = violation(j);
                total += v;
                largest = std::max(largest, v);
            }
        };
        measure(working_);
        if (start_violation_ < 0.0) start_violation_ = total;
        if ((total <= config.tolerance * start_violation_ || is_stuck) && !rest_.empty()) {
            for (const std::int32_t j : rest_) {
                gradients_[j] = x.dot(j, residuals_.data());
                curvatures_[j] = kUnknown;
            }
            measure(rest_);
            working_.insert(working_.end(), rest_.begin(), rest_.end());
            rest_.clear();
            is_stuck = false;
        }
        if (total <= config.tolerance * start_violation_ || n_newton_ == config.max_newton || is_stuck) break;
        shrink_working_set(largest, x.n_rows);
        for (const std::int32_t j : working_)
            if (curvatures_[j] == kUnknown) curvatures_[j] = x.square_dot(j, hessian_.data()) + kCurvatureFloor;
        // One pass is enough while it lowers the violation; models are solved more closely as the end comes near.
        if (descend(x, config, random) == 1) inner_tolerance_ *= kInnerTightening;
        ++n_newton_;
        const bool was_stuck = last_failed;
        is_stuck = last_failed = !line_search(signed_costs);
        if (is_stuck && was_stuck) break;  // looking at all columns again has not helped
    }
    // Afresh from the weights: rounding must not decide the side of a row none of whose features has a weight.
    std::fill(scores.begin(), scores.end(), 0.0F);
    for (std::int32_t j = 0; j < x.n_columns; ++j)
        if (weights[j] != 0.0F) x.add(j, weights[j], scores.data());
}

// residual = -a sigma(-m), hessian = |a| sigma(m) sigma(-m), with the margin m = sign(a) w.x. Rows of padding have a = 0;
// their hessian is set to one so that moved / hessian is defined.
void L1Logistic::refresh_rows(std::span<const float> signed_costs) {
    const std::size_t n = signed_costs.size();
    const float* a = signed_costs.data();
    const float* s = scores.data();
    float* residuals = residuals_.data();
    float* hessian = hessian_.data();
    for (std::size_t i = 0; i < n; ++i) {
        const float e = fast_exp(-std::fabs(s[i]));
        const float far = 1.0F / (1.0F + e);
        const float near = e * far;
        const float wrong = (s[i] * a[i] >= 0.0F) ? near : far;
        residuals[i] = -a[i] * wrong;
        const float h = std::fabs(a[i]) * near * far;
        hessian[i] = h < 1e-12F ? 1e-12F : h;
    }
    for (std::size_t i = 0; i < n; ++i) moved_[i] = 0.0F;
}

// First and second derivatives along the columns of the working set.
void L1Logistic::compute_derivatives(const NodeColumns& x) {
    for (const std::int32_t j : working_) {
        const auto [gradient, curvature] = x.dot_and_square_dot(j, residuals_.data(), hessian_.data());
        gradients_[j] = gradient;
        curvatures_[j] = curvature + kCurvatureFloor;
    }
}

// How far column j is from optimal: the smallest subgradient of the objective along it.
float L1Logistic::violation(std::int32_t column) const {
    const float g = gradients_[column];
    const float w = weights[column];
    if (w > 0.0F) return std::fabs(g + 1.0F);
    if (w < 0.0F) return std::fabs(g - 1.0F);
    return std::max(0.0F, std::fabs(g) - 1.0F);
}

void L1Logistic::shrink_working_set(double largest_violation, std::int64_t n_rows) {
    const auto margin = static_cast<float>(largest_violation / static_cast<double>(n_rows));
    std::size_t kept = 0;
    for (const std::int32_t j : working_) {
        if (weights[j] == 0.0F && std::fabs(gradients_[j]) < 1.0F - margin)
            rest_.push_back(j);
        else
            working_[kept++] = j;
    }
    working_.resize(kept);
}

// Coordinate descent on the quadratic model. steps_ holds the direction; it is zero on entry.
std::int32_t L1Logistic::descend(const NodeColumns& x, const L1Config& config, Random& random) {
    inner_ = working_;
    float margin = 0.0F;
    bool has_moved = false;
    std::int32_t pass = 0;
    while (pass < config.max_passes) {
        for (std::size_t k = inner_.size(); k > 1; --k)
            std::swap(inner_[k - 1], inner_[random.below(static_cast<std::uint32_t>(k))]);
        double total = 0.0;
        float largest = 0.0F;
        std::size_t kept = 0;
        for (std::size_t k = 0; k < inner_.size(); ++k) {
            const std::int32_t j = inner_[k];
            if (k + 1 < inner_.size()) x.prefetch(inner_[k + 1]);
            const float h = curvatures_[j];
            const float g = gradients_[j] + (has_moved ? x.dot(j, moved_.data()) : 0.0F);
            const float u = weights[j] + steps_[j];
            float v = 0.0F;
            if (u == 0.0F) {
                v = std::fabs(g) - 1.0F;
                if (v < -margin && pass > 0) continue;
                v = std::max(v, 0.0F);
            } else {
                v = std::fabs(g + (u > 0.0F ? 1.0F : -1.0F));
            }
            inner_[kept++] = j;
            total += v;
            largest = std::max(largest, v);
            float z = 0.0F;
            if (g + 1.0F < h * u)
                z = -(g + 1.0F) / h;
            else if (g - 1.0F > h * u)
                z = -(g - 1.0F) / h;
            else
                z = -u;
            if (std::fabs(z) < 1e-12F) continue;
            z = std::clamp(z, -kLargestStep, kLargestStep);
            steps_[j] += z;
            x.add_weighted(j, z, hessian_.data(), moved_.data());
            has_moved = true;
        }
        inner_.resize(kept);
        margin = largest / static_cast<float>(x.n_rows);
        ++pass;
        if (total <= inner_tolerance_ * start_violation_) break;
    }
    return pass;
}

// Halve the step until the objective falls enough; false when no step does. Clears steps_.
bool L1Logistic::line_search(std::span<const float> signed_costs) {
    const std::size_t n = signed_costs.size();
    // From here moved_ is x.step itself.
    for (std::size_t i = 0; i < n; ++i) moved_[i] /= hessian_[i];

    double expected = 0.0;
    double old_norm = 0.0;
    for (const std::int32_t j : working_) {
        expected += static_cast<double>(gradients_[j]) * steps_[j];
        old_norm += std::fabs(weights[j]);
    }
    bool accepted = false;
    float step = 1.0F;
    double slope = 0.0;
    for (int halving = 0; halving < kMaxHalvings && !accepted; ++halving, step *= 0.5F) {
        double new_norm = 0.0;
        for (const std::int32_t j : working_) new_norm += std::fabs(weights[j] + step * steps_[j]);
        if (halving == 0) slope = expected + new_norm - old_norm;
        float lanes[kLanes] = {};
        double change = new_norm - old_norm;
        for (std::size_t i = 0; i < n; i += kLanes)
            for (std::size_t k = 0; k < kLanes; ++k) {
                const float a = signed_costs[i + k];
                const float sign = a < 0.0F ? -1.0F : 1.0F;
                const float s = scores[i + k];
                lanes[k] += std::fabs(a) * (logistic_loss(sign * (s + step * moved_[i + k])) - logistic_loss(sign * s));
            }
        for (const float lane : lanes) change += lane;
        accepted = change <= kSufficientDecrease * step * slope && change < -kSmallestDecrease;
        if (accepted) {
            for (const std::int32_t j : working_) weights[j] += step * steps_[j];
            for (std::size_t i = 0; i < n; ++i) scores[i] += step * moved_[i];
        }
    }
    for (const std::int32_t j : working_) steps_[j] = 0.0F;
    return accepted;
}

double L1Logistic::objective(std::span<const float> signed_costs) const {
    double sum = 0.0;
    for (const float w : weights) sum += std::fabs(w);
    for (std::size_t i = 0; i < signed_costs.size(); ++i) {
        const double a = signed_costs[i];
        const double margin = a < 0.0 ? -scores[i] : scores[i];
        sum += std::fabs(a) * (std::max(0.0, -margin) + std::log1p(std::exp(-std::fabs(margin))));
    }
    return sum;
}

}  // namespace longtail::fastxml
