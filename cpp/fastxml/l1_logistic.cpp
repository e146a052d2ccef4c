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
constexpr float kUnknown = -1.0F;                                      // a curvature that is not needed yet
constexpr float kEverything = std::numeric_limits<float>::infinity();  // a margin that no column is outside of
constexpr float kNearlyOne = 1.0F - 1e-4F;                             // one, less the rounding in a gradient
constexpr double kSufficientDecrease = 0.01;
constexpr double kInnerTightening = 0.25;
constexpr double kSmallestDecrease = 1e-7;  // less is rounding
constexpr int kMaxHalvings = 20;

// residual = -a wrong, hessian = |a| wrong (1 - wrong), where wrong = sigma(-m) with the margin m = sign(a) w.x. Rows of
// padding have a = 0; their hessian is positive so that moved / hessian is defined. A function of its own, because GCC
// believes __restrict only of parameters and does not vectorise the loop without.
void evaluate_rows(const float* __restrict a, const float* __restrict scores, std::size_t n, float* __restrict wrong,
                   float* __restrict residuals, float* __restrict hessian, float* __restrict change) {
    for (std::size_t i = 0; i < n; ++i) {
        const float e = fast_exp(-std::fabs(scores[i]));
        const float far = 1.0F / (1.0F + e);
        const float near = e * far;
        const float now = (scores[i] * a[i] >= 0.0F) ? near : far;
        change[i] = std::fabs(now - wrong[i]);
        wrong[i] = now;
        residuals[i] = -a[i] * now;
        const float h = std::fabs(a[i]) * near * far;
        hessian[i] = h < 1e-12F ? 1e-12F : h;
    }
}

// losses = |a| log(1 + exp(-margin)) at the scores that a step leads to; returns how much their sum changes.
double evaluate_losses(const float* __restrict a, const float* __restrict scores, const float* __restrict moved,
                       float step, const float* __restrict losses_before, std::size_t n, float* __restrict losses) {
    float lanes[kLanes] = {};
    for (std::size_t i = 0; i < n; i += kLanes)
        for (std::size_t k = i; k < i + kLanes; ++k) {
            const float sign = a[k] < 0.0F ? -1.0F : 1.0F;
            losses[k] = std::fabs(a[k]) * logistic_loss(sign * (scores[k] + step * moved[k]));
            lanes[k - i] += losses[k] - losses_before[k];
        }
    double change = 0.0;
    for (const float lane : lanes) change += lane;
    return change;
}

}  // namespace

void L1Logistic::solve(const NodeColumns& x, std::span<const float> signed_costs, std::span<const ColumnStart> starts,
                       const L1Config& config, Random& random) {
    start(x, signed_costs, starts);
    float margin = kEverything;
    bool has_failed = false;
    for (std::int32_t model = 0; model < config.max_newton; ++model) {
        refresh_rows(signed_costs);
        const Violation violation = choose_working_set(x, margin);
        if (model == 0) start_violation_ = violation.total;
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
    for (std::int32_t j = 0; j < x.n_columns; ++j) {
        weights[j] = columns_[j].weight;
        if (weights[j] != 0.0F) x.add(j, weights[j], scores.data());
    }
}

void L1Logistic::start(const NodeColumns& x, std::span<const float> signed_costs, std::span<const ColumnStart> starts) {
    const auto n_columns = static_cast<std::size_t>(x.n_columns);
    const auto stride = static_cast<std::size_t>(x.stride);
    if (!starts.empty()) {
        weights.assign(n_columns, 0.0F);
        scores.assign(stride, 0.0F);
    }
    columns_.resize(n_columns);
    drifts_.resize(n_columns);
    for (std::size_t j = 0; j < n_columns; ++j) {
        const ColumnStart known = starts.empty() ? ColumnStart{} : starts[j];
        columns_[j] = {known.gradient, weights[j], weights[j], kUnknown};
        drifts_[j] = {known.reach, known.norm, 0.0F, 0.0F};
    }
    wrong_.assign(stride, 0.5F);  // at w = 0
    residuals_.resize(stride);
    hessian_.resize(stride);
    moved_.assign(stride, 0.0F);
    losses_.assign(stride, 0.0F);
    tried_losses_.resize(stride);
    evaluate_losses(signed_costs.data(), scores.data(), moved_.data(), 0.0F, tried_losses_.data(), stride,
                    losses_.data());
    largest_drift_ = norm_drift_ = 0.0;
    has_gradients_ = !starts.empty();
    inner_tolerance_ = 1.0;
}

void L1Logistic::refresh_rows(std::span<const float> signed_costs) {
    const std::size_t n = signed_costs.size();
    const float* a = signed_costs.data();
    const float* change = moved_.data();
    evaluate_rows(a, scores.data(), n, wrong_.data(), residuals_.data(), hessian_.data(), moved_.data());
    float largest[kLanes] = {};
    float squares[kLanes] = {};
    for (std::size_t i = 0; i < n; i += kLanes)
        for (std::size_t k = 0; k < kLanes; ++k) {
            largest[k] = change[i + k] > largest[k] ? change[i + k] : largest[k];
            squares[k] += std::fabs(a[i + k]) * change[i + k] * change[i + k];
        }
    double square = 0.0;
    for (const float lane : squares) square += lane;
    largest_drift_ += *std::max_element(largest, largest + kLanes);
    norm_drift_ += std::sqrt(square);
    std::fill(moved_.begin(), moved_.end(), 0.0F);
}

// Whether column j, at zero, has a gradient that is inside [-1, 1] by more than the margin, without computing it.
bool L1Logistic::is_certainly_inside(std::size_t column, float margin) const {
    const Drift& drift = drifts_[column];
    const float by_reach = drift.reach * (static_cast<float>(largest_drift_) - drift.largest_then);
    const float by_norm = drift.norm * (static_cast<float>(norm_drift_) - drift.norm_then);
    return std::fabs(columns_[column].gradient) + std::min(by_reach, by_norm) < kNearlyOne - margin;
}

// Compute the gradients that are needed and collect the columns of the next model.
L1Logistic::Violation L1Logistic::choose_working_set(const NodeColumns& x, float margin) {
    Violation found;
    working_.clear();
    for (std::int32_t j = 0; j < x.n_columns; ++j) {
        Column& column = columns_[j];
        if (!has_gradients_) {
            if (column.weight == 0.0F && is_certainly_inside(static_cast<std::size_t>(j), margin)) continue;
            column.gradient = x.dot(j, residuals_.data());
            drifts_[j].largest_then = static_cast<float>(largest_drift_);
            drifts_[j].norm_then = static_cast<float>(norm_drift_);
        }
        float v = 0.0F;
        if (column.weight == 0.0F) {
            v = std::fabs(column.gradient) - 1.0F;
            if (v < -margin) continue;
            v = std::max(v, 0.0F);
        } else {
            v = std::fabs(column.gradient + (column.weight > 0.0F ? 1.0F : -1.0F));
        }
        working_.push_back(j);
        column.curvature = kUnknown;
        found.total += v;
        found.largest = std::max(found.largest, v);
    }
    has_gradients_ = false;
    return found;
}

// Coordinate descent on the quadratic model. Targets are the weights on entry.
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
            Column& column = columns_[j];
            const float g = column.gradient + (has_moved ? x.dot(j, moved_.data()) : 0.0F);
            const float u = column.target;
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
            if (column.curvature == kUnknown) column.curvature = x.square_dot(j, hessian_.data()) + kCurvatureFloor;
            const float h = column.curvature;
            float z = 0.0F;
            if (g + 1.0F < h * u)
                z = -(g + 1.0F) / h;
            else if (g - 1.0F > h * u)
                z = -(g - 1.0F) / h;
            else
                z = -u;
            if (std::fabs(z) < 1e-12F) continue;
            z = std::clamp(z, -kLargestStep, kLargestStep);
            column.target += z;  // exactly zero after z = -u
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

// Go from the weights towards the targets, halving the step until the objective falls enough; false when no step does.
// Targets are the weights afterwards.
bool L1Logistic::line_search(std::span<const float> signed_costs) {
    const std::size_t n = signed_costs.size();
    // From here moved_ is x.step itself.
    for (std::size_t i = 0; i < n; ++i) moved_[i] /= hessian_[i];

    double expected = 0.0;
    double old_norm = 0.0;
    for (const std::int32_t j : working_) {
        expected += static_cast<double>(columns_[j].gradient) * (columns_[j].target - columns_[j].weight);
        old_norm += std::fabs(columns_[j].weight);
    }
    bool accepted = false;
    float step = 1.0F;
    double slope = 0.0;
    for (int halving = 0; halving < kMaxHalvings && !accepted; ++halving, step *= 0.5F) {
        double new_norm = 0.0;
        for (const std::int32_t j : working_) new_norm += std::fabs(weight_after(columns_[j], step));
        if (halving == 0) slope = expected + new_norm - old_norm;
        const double change = new_norm - old_norm +
                              evaluate_losses(signed_costs.data(), scores.data(), moved_.data(), step, losses_.data(),
                                              n, tried_losses_.data());
        accepted = change <= kSufficientDecrease * step * slope && change < -kSmallestDecrease;
        if (accepted) {
            for (const std::int32_t j : working_) columns_[j].weight = weight_after(columns_[j], step);
            for (std::size_t i = 0; i < n; ++i) scores[i] += step * moved_[i];
            losses_.swap(tried_losses_);
        }
    }
    for (const std::int32_t j : working_) columns_[j].target = columns_[j].weight;
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
