#include "linear/gram.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::linear {

namespace {
constexpr int kMaxNewtonSteps = 60;
constexpr int kMaxCgSteps = 100;
constexpr double kCgShare = 0.1;  // residual to reach in one Newton step, as a share of the gradient
constexpr double kArmijo = 0.01;  // the paper's η
constexpr int kMaxHalvings = 20;
}  // namespace

void Subproblem::clear() {
    row_ids.clear();
    signs.clear();
    costs.clear();
    betas.clear();
    margins.clear();
    gram.clear();
}

void Subproblem::append(std::int32_t row_id, float sign, float cost, float margin) {
    row_ids.push_back(row_id);
    signs.push_back(sign);
    costs.push_back(cost);
    betas.push_back(0.0F);
    margins.push_back(margin);
}

void GramSolver::Combination::assign(std::int64_t width) {
    coefficients.assign(static_cast<std::size_t>(width), 0.0F);
    margins.assign(static_cast<std::size_t>(width), 0.0F);
}

void GramSolver::find_active(const Subproblem& problem) {
    active_.clear();
    touched_.clear();
    untouched_.clear();
    for (std::int64_t i = 0; i < problem.size(); ++i) {
        const bool is_active = problem.signs[i] * problem.margins[i] < 1.0F;
        if (is_active) active_.push_back(static_cast<std::int32_t>(i));
        auto& list = is_active || problem.betas[i] != 0.0F ? touched_ : untouched_;
        list.push_back(static_cast<std::int32_t>(i));
    }
}

// -∇L = Σ (2c(y - m) [active] - β) x into residual_; returns ‖∇L‖².
double GramSolver::set_gradient(const Subproblem& problem) {
    residual_.assign(GramMatrix::padded(problem.size()));
    for (const std::int32_t i : touched_) residual_.coefficients[i] = -problem.betas[i];
    for (const std::int32_t i : active_)
        residual_.coefficients[i] += 2.0F * problem.costs[i] * (problem.signs[i] - problem.margins[i]);
    problem.gram.multiply(touched_, residual_.coefficients.data(), residual_.margins.data());
    double square = 0.0;
    for (const std::int32_t i : touched_)
        square += static_cast<double>(residual_.coefficients[i]) * residual_.margins[i];
    return std::max(0.0, square);
}

// Conjugate gradients on H p = -∇L, from p = 0; leaves p in step_.
int GramSolver::set_step(const Subproblem& problem, double square, double tolerance) {
    const std::int64_t width = GramMatrix::padded(problem.size());
    step_.assign(width);
    product_.assign(width);
    loading_.assign(static_cast<std::size_t>(width), 0.0F);
    direction_ = residual_;
    const double goal = std::max(kCgShare * kCgShare * square, 0.25 * tolerance * tolerance);
    int steps = 0;
    while (square > goal && steps < kMaxCgSteps) {
        ++steps;
        // H d = Σ (ν + 2c Kν [active]) x
        for (const std::int32_t i : active_) loading_[i] = 2.0F * problem.costs[i] * direction_.margins[i];
        problem.gram.multiply(touched_, loading_.data(), product_.margins.data());
        double curvature = 0.0;
        for (const std::int32_t i : touched_) {
            product_.coefficients[i] = direction_.coefficients[i] + loading_[i];
            product_.margins[i] += direction_.margins[i];
            curvature += static_cast<double>(product_.coefficients[i]) * direction_.margins[i];
        }
        if (curvature <= 0.0) break;
        const float length = static_cast<float>(square / curvature);
        add_scaled(step_.coefficients.data(), direction_.coefficients.data(), length, width);
        add_scaled(step_.margins.data(), direction_.margins.data(), length, width);
        add_scaled(residual_.coefficients.data(), product_.coefficients.data(), -length, width);
        add_scaled(residual_.margins.data(), product_.margins.data(), -length, width);
        double next = 0.0;
        for (const std::int32_t i : touched_)
            next += static_cast<double>(residual_.coefficients[i]) * residual_.margins[i];
        next = std::max(0.0, next);
        const float turn = static_cast<float>(next / square);
        for (std::int64_t i = 0; i < width; ++i) {
            direction_.coefficients[i] = residual_.coefficients[i] + turn * direction_.coefficients[i];
            direction_.margins[i] = residual_.margins[i] + turn * direction_.margins[i];
        }
        square = next;
    }
    problem.gram.multiply(untouched_, step_.coefficients.data(), step_.margins.data());
    return steps;
}

// Move along step_, halving until the objective falls enough; false when it cannot.
bool GramSolver::take_step(Subproblem& problem) {
    const std::int64_t n = problem.size();
    double cross = 0.0;
    double square = 0.0;
    for (const std::int32_t i : touched_) {
        cross += static_cast<double>(problem.betas[i]) * step_.margins[i];
        square += static_cast<double>(step_.coefficients[i]) * step_.margins[i];
    }
    double slope = cross;
    for (const std::int32_t i : active_)
        slope -= 2.0 * problem.costs[i] * (problem.signs[i] - problem.margins[i]) * step_.margins[i];
    // Differences, not values, are added up: near the minimum they are what is left of the digits.
    const auto loss_change = [&](float share) {
        double total = 0.0;
        for (std::int64_t i = 0; i < n; ++i) {
            const float before = std::max(0.0F, 1.0F - problem.signs[i] * problem.margins[i]);
            const float after =
                std::max(0.0F, 1.0F - problem.signs[i] * (problem.margins[i] + share * step_.margins[i]));
            total += static_cast<double>(problem.costs[i]) * (after - before) * (after + before);
        }
        return total;
    };
    float share = 1.0F;
    for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5F) {
        const double change = share * cross + 0.5 * share * share * square + loss_change(share);
        if (change > kArmijo * share * slope) continue;
        add_scaled(problem.betas.data(), step_.coefficients.data(), share, n);
        add_scaled(problem.margins.data(), step_.margins.data(), share, n);
        return true;
    }
    return false;
}

InnerResult GramSolver::solve(Subproblem& problem, double tolerance, double share, bool from_margins) {
    InnerResult result;
    bool is_first = true;
    if (from_margins) {
        find_active(problem);
        std::fill(problem.margins.begin(), problem.margins.end(), 0.0F);
        result.cg_steps += set_step(problem, set_gradient(problem), tolerance);
        ++result.newton_steps;
        std::copy(step_.coefficients.begin(), step_.coefficients.begin() + problem.size(), problem.betas.begin());
        std::copy(step_.margins.begin(), step_.margins.begin() + problem.size(), problem.margins.begin());
    }
    for (;;) {
        find_active(problem);
        const double square = set_gradient(problem);
        result.gradient_norm = std::sqrt(square);
        if (is_first) tolerance = std::max(tolerance, share * result.gradient_norm);
        is_first = false;
        if (result.gradient_norm <= tolerance || result.newton_steps >= kMaxNewtonSteps) return result;
        result.cg_steps += set_step(problem, square, tolerance);
        ++result.newton_steps;
        if (!take_step(problem)) return result;
    }
}

}  // namespace longtail::linear
