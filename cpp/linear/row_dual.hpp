#pragma once

// The same restricted problem as in gram.hpp, solved by coordinate descent on its dual (Hsieh et al., ICML 2008): the
// betas of w = Σ β x take their best values one after another, in random order. Idle rows cost little, and the solution
// over a smaller set is a good beginning for a larger one. The larger the cost, the more visits it takes: see suits().

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "linear/gram.hpp"
#include "linear/problem.hpp"
#include "linear/row_copies.hpp"

namespace longtail::linear {

class RowDual {
public:
    explicit RowDual(std::int64_t n_features, const OvaConfig& config) : n_features_(n_features), bias_(config.bias) {}

    // Rows are RowCopies of the problem's rows.
    // Betas that belong to the margins of `problem`, and the weights (n_features + 1 zeros) that belong to them.
    template <class Rows>
    void begin(Subproblem& problem, const Rows& rows, float* weights) const {
        double total = 0.0;
        double square = 0.0;
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            const float gap = std::max(0.0F, 1.0F - problem.signs[i] * problem.margins[i]);
            const float alpha = 2.0F * problem.costs[i] * gap;
            if (alpha == 0.0F) continue;
            problem.betas[i] = problem.signs[i] * alpha;
            total += alpha;
            square += static_cast<double>(alpha) * gap;
            add_row(rows, i, problem.betas[i], weights);
        }
        for (std::int64_t f = 0; f <= n_features_; ++f) square += static_cast<double>(weights[f]) * weights[f];
        if (square <= 0.0) return;
        const float scale = static_cast<float>(total / square);  // where the dual is largest along these betas
        for (float& beta : problem.betas) beta *= scale;
        for (std::int64_t f = 0; f <= n_features_; ++f) weights[f] *= scale;
    }

    // Minimise until the gradient norm of the restricted problem is about `tolerance`, or `share` of what it was at the
    // beginning; weights = Σ β x before and after.
    template <class Rows>
    InnerResult solve(Subproblem& problem, const Rows& rows, float* weights, double tolerance, double share) {
        order_.resize(problem.row_ids.size());
        for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<std::int32_t>(i);
        InnerResult result;
        result.newton_steps = 1;
        float idle_above = std::numeric_limits<float>::infinity();
        std::uint64_t state = 0;
        for (int epoch = 0; epoch < kMaxEpochs; ++epoch) {
            for (std::size_t i = order_.size(); i > 1; --i) {
                state = state * 6364136223846793005U + 1442695040888963407U;
                std::swap(order_[i - 1], order_[(state >> 33) % i]);
            }
            result.gradient_norm = visit_all(problem, rows, weights, idle_above);
            ++result.cg_steps;
            if (epoch == 0) tolerance = std::max(tolerance, share * result.gradient_norm);
            if (result.gradient_norm <= tolerance) break;
        }
        for (std::int64_t i = 0; i < problem.size(); ++i) problem.margins[i] = margin(rows, i, weights);
        return result;
    }

private:
    static constexpr int kMaxEpochs = 300;
    static constexpr std::size_t kAhead = 2;

    template <class Rows>
    float margin(const Rows& rows, std::int64_t i, const float* weights) const {
        return rows.dot(i, weights) + bias_ * weights[n_features_];
    }
    template <class Rows>
    void add_row(const Rows& rows, std::int64_t i, float scale, float* weights) const {
        rows.add_to(i, scale, weights);
        weights[n_features_] += scale * bias_;
    }

    // One visit to each row of order_; rows that are idle by more than the largest error of the visits before leave it.
    // Returns the norm of the gradient, as far as single rows tell: each as it was before its visit.
    template <class Rows>
    double visit_all(Subproblem& problem, const Rows& rows, float* weights, float& idle_above) {
        double square = 0.0;
        float largest = 0.0F;
        std::size_t n_kept = 0;
        for (std::size_t at = 0; at < order_.size(); ++at) {
            if (at + kAhead < order_.size()) rows.prefetch(order_[at + kAhead]);
            const std::int32_t i = order_[at];
            const float sign = problem.signs[i];
            const float gap = 1.0F - sign * margin(rows, i, weights);
            const float alpha = sign * problem.betas[i];
            if (alpha == 0.0F && gap < -idle_above) continue;
            order_[n_kept++] = i;
            if (alpha == 0.0F && gap <= 0.0F) continue;
            const float twice = 2.0F * problem.costs[i];
            const float left = twice * std::max(0.0F, gap) - alpha;
            square += static_cast<double>(left) * left * rows.square(i);
            largest = std::max(largest, std::abs(left) / twice);
            const float next = std::max(0.0F, alpha + (twice * gap - alpha) / (1.0F + twice * rows.square(i)));
            if (next == alpha) continue;
            problem.betas[i] = sign * next;
            add_row(rows, i, sign * (next - alpha), weights);
        }
        order_.resize(n_kept);
        idle_above = largest;
        return std::sqrt(square);
    }

    std::int64_t n_features_;
    float bias_;
    std::vector<std::int32_t> order_;
};

}  // namespace longtail::linear
