#include "fastxml/l1_logistic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fastxml/logistic.hpp"

namespace longtail::fastxml {
namespace {

constexpr std::int64_t kLanes = NodeColumns::kLanes;
constexpr float kLargestStep = 10.0F;
constexpr float kCurvatureFloor = 1e-7F;
constexpr float kUnknown = -1.0F;  // a curvature that is not needed yet
constexpr float kEverything = std::numeric_limits<float>::infinity();  // a margin that no column is outside of
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
    residuals_.resize(stride);
    hessian_.resize(stride);
    moved_.resize(stride);
    gradients_.resize(n_columns);
    curvatures_.resize(n_columns);
    steps_.assign(n_columns, 0.0F);
    start_violation_ = -1.0;
    inner_tolerance_ = 1.0;

    float margin = kEverything;
    bool has_failed = false;
    for (std::int32_t model = 0; model < config.max_newton; ++model) {
        refresh_rows(signed_costs);
        if (model == 0 && starts_at_zero)
            std::copy(start_gradients.begin(), start_gradients.end(), gradients_.begin());
        else
            for (std::int32_t j = 0; j < x.n_columns; ++j) gradients_[j] = x.dot(j, residuals_.data());
        const Violation violation = choose_working_set(x.n_columns, margin);
        if (start_violation_ < 0.0) start_violation_ = violation.total;
        if (violation.total <= config.tolerance * start_violation_) break;
        margin = violation.largest / static_cast<float>(x.n_rows);
        // One pass is enough while it lowers the violation; models are solved more closely as the end comes near.
        if (descend(x, config, random) == 1) inner_tolerance_ *= kInnerTightening;
        const bool has_failed_before = has_failed;
        has_failed = !line_search(signed_costs);
        if (has_failed && has_failed_before) break;
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

// How far column j is from optimal: the smallest subgradient of the objective along it.
L1Logistic::Violation L1Logistic::choose_working_set(std::int32_t n_columns, float margin) {
    Violation found;
    working_.clear();
    for (std::int32_t j = 0; j < n_columns; ++j) {
        const float g = gradients_[j];
        const float w = weights[j];
        float v = 0.0F;
        if (w == 0.0F) {
            v = std::fabs(g) - 1.0F;
            if (v < -margin) continue;
            v = std::max(v, 0.0F);
        } else {
            v = std::fabs(g + (w > 0.0F ? 1.0F : -1.0F));
        }
        working_.push_back(j);
        curvatures_[j] = kUnknown;
        found.total += v;
        found.largest = std::max(found.largest, v);
    }
    return found;
}

// Coordinate descent on the quadratic model. steps_ holds the direction; it is zero on entry.
std::int32_t L1Logistic::descend(const NodeColumns& x, const L1Config& config, Random& random) {
    active_ = working_;
    shrunk_.clear();
    float margin = kEverything;
    bool has_moved = false;
    std::int32_t pass = 0;
    while (pass < config.max_passes) {
        for (std::size_t k = active_.size(); k > 1; --k)
            std::swap(active_[k - 1], active_[random.below(static_cast<std::uint32_t>(k))]);
        double total = 0.0;
        float largest = 0.0F;
        std::size_t kept = 0;
        for (std::size_t k = 0; k < active_.size(); ++k) {
            const std::int32_t j = active_[k];
            if (k + 1 < active_.size()) x.prefetch(active_[k + 1]);
            const float g = gradients_[j] + (has_moved ? x.dot(j, moved_.data()) : 0.0F);
            const float u = weights[j] + steps_[j];
            float v = 0.0F;
            if (u == 0.0F) {
                v = std::fabs(g) - 1.0F;
                if (v < -margin) {
                    shrunk_.push_back(j);
                    continue;
                }
                active_[kept++] = j;
                if (v <= 0.0F) continue;
            } else {
                v = std::fabs(g + (u > 0.0F ? 1.0F : -1.0F));
                active_[kept++] = j;
            }
            total += v;
            largest = std::max(largest, v);
            if (curvatures_[j] == kUnknown) curvatures_[j] = x.square_dot(j, hessian_.data()) + kCurvatureFloor;
            const float h = curvatures_[j];
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
        active_.resize(kept);
        margin = largest / static_cast<float>(x.n_rows);
        ++pass;
        if (total > inner_tolerance_ * start_violation_) continue;
        if (shrunk_.empty()) break;
        active_.insert(active_.end(), shrunk_.begin(), shrunk_.end());
        shrunk_.clear();
        margin = kEverything;
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
