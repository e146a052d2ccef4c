#pragma once

// The same restricted problem as in gram.hpp, solved in the space of the weights: Newton steps by conjugate gradients
// whose products walk over the active rows. Cheaper than a Gram matrix when the working set is large or rows are dense.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/aligned.hpp"
#include "linear/gram.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

template <class Rows>
class RowSolver {
public:
    RowSolver(const Rows& rows, const OvaConfig& config) : rows_(rows), config_(config) {}

    // Minimise over the rows of `problem`, beginning at `weights` (n_features + 1, the bias weight last), until the
    // gradient norm of the restricted problem is at most `tolerance`, or `share` of what it was at the beginning. Where the
    // tolerance decides, the objective must also be near its minimum.
    InnerResult solve(Subproblem& problem, float* weights, double tolerance, double share) {
        const std::int64_t width = rows_.n_features() + 1;
        for (auto* vector : {&gradient_, &step_, &residual_, &direction_, &product_}) vector->resize(width);
        InnerResult result;
        set_margins(problem, weights, problem.margins.data());
        double most_gap = std::numeric_limits<double>::infinity();
        bool is_last = true;
        int n_final_steps = 0;
        for (;;) {
            set_gradient(problem, weights);
            result.gradient_norm = std::sqrt(square(gradient_));
            if (result.newton_steps == 0 && share * result.gradient_norm > tolerance) {
                tolerance = share * result.gradient_norm;
                is_last = false;
            }
            if (is_last) most_gap = kGapShare * config_.tolerance * config_.tolerance * objective(problem, weights);
            // No curvature is below 1, so L is at most ½‖∇L‖² above its minimum. float32 may not come so near.
            const bool is_solved = result.gradient_norm <= tolerance;
            if (is_solved &&
                (0.5 * result.gradient_norm * result.gradient_norm <= most_gap || n_final_steps++ == kMaxFinalSteps))
                return result;
            if (result.newton_steps >= kMaxNewtonSteps) return result;
            is_near_ = false;
            result.cg_steps +=
                set_step(problem, std::min(tolerance, std::sqrt(2.0 * most_gap)), is_solved ? most_gap : 0.0);
            ++result.newton_steps;
            if (is_near_ || !take_step(problem, weights)) return result;
        }
    }

private:
    static constexpr int kMaxNewtonSteps = 60;
    static constexpr int kMaxFinalSteps = 5;  // at a gradient norm that is small enough
    static constexpr int kMaxCgSteps = 200;
    static constexpr double kGapShare = 0.25;  // of ε₀²: what the objective may be above its minimum, as a share of it
    static constexpr double kArmijo = 0.01;
    static constexpr int kMaxHalvings = 20;

    float margin(std::int64_t row, const float* weights) const {
        return rows_.dot(row, weights) + config_.bias * weights[rows_.n_features()];
    }
    void set_margins(const Subproblem& problem, const float* weights, float* margins) const {
        walk_rows(rows_, problem.row_ids.data(), problem.size(),
                  [&](std::int64_t i) { margins[i] = margin(problem.row_ids[i], weights); });
    }
    void add_row(std::int64_t row, float scale, float* weights) const {
        rows_.add_to(row, scale, weights);
        weights[rows_.n_features()] += scale * config_.bias;
    }
    static double square(const AlignedVector<float>& vector) { return inner(vector, vector); }
    static double inner(const AlignedVector<float>& a, const AlignedVector<float>& b) {
        double total = 0.0;
        constexpr std::int64_t kPart = 1024;
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(a.size()); i += kPart)
            total += dot(a.data() + i, b.data() + i, std::min<std::int64_t>(kPart, a.size() - i));
        return total;
    }

    void set_gradient(const Subproblem& problem, const float* weights) {
        std::copy(weights, weights + gradient_.size(), gradient_.begin());
        if (!config_.regularize_bias) gradient_.back() = 0.0F;
        active_.clear();
        active_rows_.clear();
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            if (problem.signs[i] * problem.margins[i] >= 1.0F) continue;
            active_.push_back(static_cast<std::int32_t>(i));
            active_rows_.push_back(problem.row_ids[i]);
        }
        walk_rows(rows_, active_rows_.data(), static_cast<std::int64_t>(active_.size()), [&](std::int64_t at) {
            const std::int32_t i = active_[at];
            add_row(active_rows_[at], -2.0F * problem.costs[i] * (problem.signs[i] - problem.margins[i]),
                    gradient_.data());
        });
    }

    double objective(const Subproblem& problem, const float* weights) const {
        const std::int64_t n = rows_.n_features() + (config_.regularize_bias ? 1 : 0);
        double total = 0.0;
        for (std::int64_t f = 0; f < n; ++f) total += 0.5 * static_cast<double>(weights[f]) * weights[f];
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            const float gap = std::max(0.0F, 1.0F - problem.signs[i] * problem.margins[i]);
            total += static_cast<double>(problem.costs[i]) * gap * gap;
        }
        return total;
    }

    // Solve H p = -g to a share of ‖g‖, or as far as the tolerance asks; leaves p in step_. Stops where L is at most
    // `most_gap` above its minimum already: by what its quadratic model falls, and at most ½‖residual‖² more.
    int set_step(const Subproblem& problem, double tolerance, double most_gap) {
        std::fill(step_.begin(), step_.end(), 0.0F);
        for (std::size_t i = 0; i < gradient_.size(); ++i) residual_[i] = -gradient_[i];
        direction_ = residual_;
        double norm = square(residual_);
        const double goal = std::max(config_.cg_tolerance * config_.cg_tolerance * norm, 0.25 * tolerance * tolerance);
        int steps = 0;
        double fall = 0.0;
        while (norm > goal && steps < kMaxCgSteps && !is_near_) {
            ++steps;
            product_ = direction_;
            if (!config_.regularize_bias) product_.back() = 0.0F;
            walk_rows(rows_, active_rows_.data(), static_cast<std::int64_t>(active_.size()), [&](std::int64_t at) {
                const float along = 2.0F * problem.costs[active_[at]] * margin(active_rows_[at], direction_.data());
                add_row(active_rows_[at], along, product_.data());
            });
            const double curvature = inner(direction_, product_);
            if (curvature <= 0.0) break;
            const float length = static_cast<float>(norm / curvature);
            add_scaled(step_.data(), direction_.data(), length, static_cast<std::int64_t>(step_.size()));
            add_scaled(residual_.data(), product_.data(), -length, static_cast<std::int64_t>(step_.size()));
            const double next = square(residual_);
            const float turn = static_cast<float>(next / norm);
            for (std::size_t i = 0; i < direction_.size(); ++i) direction_[i] = residual_[i] + turn * direction_[i];
            fall += 0.5 * static_cast<double>(length) * norm;
            is_near_ = fall + 0.5 * next <= most_gap;
            norm = next;
        }
        return steps;
    }

    bool take_step(Subproblem& problem, float* weights) {
        along_.resize(problem.row_ids.size());
        set_margins(problem, step_.data(), along_.data());
        double cross = 0.0;
        double length = 0.0;
        for (std::size_t i = 0; i < step_.size() - (config_.regularize_bias ? 0 : 1); ++i) {
            cross += static_cast<double>(weights[i]) * step_[i];
            length += static_cast<double>(step_[i]) * step_[i];
        }
        const double slope = inner(gradient_, step_);
        // Differences, not values, are added up: near the minimum they are what is left of the digits.
        const auto loss_change = [&](float share) {
            double total = 0.0;
            for (std::int64_t i = 0; i < problem.size(); ++i) {
                const float before = std::max(0.0F, 1.0F - problem.signs[i] * problem.margins[i]);
                const float after = std::max(0.0F, 1.0F - problem.signs[i] * (problem.margins[i] + share * along_[i]));
                total += static_cast<double>(problem.costs[i]) * (after - before) * (after + before);
            }
            return total;
        };
        float share = 1.0F;
        for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5F) {
            const double change = share * cross + 0.5 * share * share * length + loss_change(share);
            if (change > kArmijo * share * slope) continue;
            add_scaled(weights, step_.data(), share, static_cast<std::int64_t>(step_.size()));
            add_scaled(problem.margins.data(), along_.data(), share, problem.size());
            return true;
        }
        return false;
    }

    const Rows& rows_;
    const OvaConfig& config_;
    bool is_near_ = false;                   // the minimum, as the step showed
    std::vector<std::int32_t> active_;       // places in the working set
    std::vector<std::int32_t> active_rows_;  // the rows there
    AlignedVector<float> gradient_;
    AlignedVector<float> step_;
    AlignedVector<float> residual_;
    AlignedVector<float> direction_;
    AlignedVector<float> product_;
    AlignedVector<float> along_;
};

}  // namespace longtail::linear
