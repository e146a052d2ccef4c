#pragma once

// The same restricted problem as in gram.hpp, solved by coordinate descent on its dual (Hsieh et al., ICML 2008): the
// betas of w = Σ β x take their best values one after another, in random order. The solution over a smaller set is a good
// beginning for a larger one, and only rows that are not at rest are visited: after every few rounds of visits all rows
// are looked at, and those that others have moved join again. The larger the cost, the more visits it takes.
//
// Where there are coarse rows too, visits go to them: between two looks, changes of margins follow from products of coarse
// rows. A look at the whole rows then shows what is left, mostly less than a fifth of what was there before.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "linear/best_bias.hpp"
#include "linear/gram.hpp"
#include "linear/problem.hpp"
#include "linear/row_copies.hpp"

namespace longtail::linear {

class RowDual {
public:
    explicit RowDual(std::int64_t n_features, const OvaConfig& config)
        : n_features_(n_features), config_(config), bias_(config.bias) {}

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
        if (square > 0.0) {
            const float scale = static_cast<float>(total / square);  // where the dual is largest along these betas
            for (float& beta : problem.betas) beta *= scale;
            for (std::int64_t f = 0; f <= n_features_; ++f) weights[f] *= scale;
        }
        set_margins(problem, rows, weights);
    }

    // The weights (n_features + 1 zeros) and the margins that belong to the betas of `problem`.
    template <class Rows>
    void restore(Subproblem& problem, const Rows& rows, float* weights) const {
        for (std::int64_t i = 0; i < problem.size(); ++i)
            if (problem.betas[i] != 0.0F) add_row(rows, i, problem.betas[i], weights);
        set_margins(problem, rows, weights);
    }

    // Minimise until the gradient norm of the restricted problem, with the best bias, is about `tolerance`, or `share` of
    // what it was at the beginning. weights = Σ β x before and after; margins are those of the weights, at the beginning
    // roughly so. `coarse` may have CoarseCopies of the same rows.
    template <class Rows, class Coarse = CoarseCopies<std::uint16_t>>
    InnerResult solve(Subproblem& problem, const Rows& rows, float* weights, double tolerance, double share,
                      const Coarse* coarse = nullptr) {
        InnerResult result;
        result.newton_steps = 1;
        result.gradient_norm = fit_bias(problem, rows, weights);
        find_busy(problem, rows, 0.0F);
        tolerance = std::max(tolerance, share * result.gradient_norm);
        const auto resting =
            static_cast<float>(kRestingShare * tolerance / std::sqrt(static_cast<double>(problem.size())));
        std::uint64_t state = 0;
        std::int64_t n_visits = kMaxEpochs * problem.size();  // that are left
        double least_norm = result.gradient_norm;
        int n_vain = 0;  // looks that found no progress
        for (;;) {
            const double norm_before = result.gradient_norm;
            const double look_share = coarse != nullptr ? kCoarseLookShare : kLookShare;
            const double goal = kBusyShare * std::max(tolerance, look_share * norm_before);
            if (coarse != nullptr) begin_coarse_visits(problem);
            for (int round = 0; round < kMaxRounds && !order_.empty() && n_visits > 0; ++round) {
                ++result.cg_steps;
                n_visits -= std::ssize(order_);
                for (std::size_t i = order_.size(); i > 1; --i) {
                    state = state * 6364136223846793005U + 1442695040888963407U;
                    std::swap(order_[i - 1], order_[(state >> 33) % i]);
                }
                const double norm = coarse != nullptr ? visit_coarse(problem, *coarse, resting)
                                                      : visit_whole(problem, rows, weights, resting);
                if (norm <= goal) break;
            }
            if (coarse != nullptr) end_coarse_visits(problem, rows, weights);
            set_margins(problem, rows, weights);
            result.gradient_norm = fit_bias(problem, rows, weights);
            if (result.gradient_norm > kCoarseProgress * norm_before) coarse = nullptr;
            find_busy(problem, rows, resting);
            n_vain = result.gradient_norm < kProgress * least_norm ? 0 : n_vain + 1;
            least_norm = std::min(least_norm, result.gradient_norm);
            result.is_stuck = n_vain == kMaxVainLooks;
            if (result.gradient_norm <= tolerance || n_visits <= 0 || order_.empty() || result.is_stuck) return result;
        }
    }

    // What the best bias adds to the margins at the end of `solve`.
    float bias_shift() const { return bias_shift_; }

private:
    static constexpr std::int64_t kMaxEpochs = 300;  // so many visits per row, on average
    static constexpr std::size_t kAhead = 2;
    static constexpr int kMaxRounds = 30;  // of visits between two looks
    // A tolerance that float32 cannot reach shows by so many looks in a row that find no progress: a norm of the gradient
    // not below this share of the least one before.
    static constexpr int kMaxVainLooks = 3;
    static constexpr double kProgress = 0.95;
    static constexpr double kRestingShare = 0.5;     // of the tolerance: what all rows at rest together may have
    static constexpr double kLookShare = 0.2;        // all rows are looked at again when what they had has become this,
    static constexpr double kBusyShare = 0.7;        // less what rows at rest may have got meanwhile
    static constexpr double kCoarseLookShare = 0.3;  // kLookShare for coarse rows, whose visits err,
    static constexpr double kCoarseProgress = 0.8;   // and end where more than this is left

    template <class Rows>
    float margin(const Rows& rows, std::int64_t i, const float* weights) const {
        return rows.dot(i, weights) + bias_ * weights[n_features_];
    }
    template <class Rows>
    void set_margins(Subproblem& problem, const Rows& rows, const float* weights) const {
        for (std::int64_t i = 0; i < problem.size(); ++i) problem.margins[i] = margin(rows, i, weights);
    }
    template <class Rows>
    void add_row(const Rows& rows, std::int64_t i, float scale, float* weights) const {
        rows.add_to(i, scale, weights);
        weights[n_features_] += scale * bias_;
    }

    // By how much the β of a row misses 2c·gap, its value at the solution: the row's part of the gradient.
    static float missing(const Subproblem& problem, std::int64_t i, float gap) {
        return 2.0F * problem.costs[i] * std::max(0.0F, gap) - problem.signs[i] * problem.betas[i];
    }

    // The rows whose part of the gradient is above `resting`.
    template <class Rows>
    void find_busy(const Subproblem& problem, const Rows& rows, float resting) {
        order_.clear();
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            const float part = missing(problem, i, 1.0F - problem.signs[i] * problem.margins[i]);
            if (part * part * rows.square(i) > resting * resting) order_.push_back(static_cast<std::int32_t>(i));
        }
    }

    // Finds the best bias; returns the norm of the gradient there, as far as single rows tell.
    template <class Rows>
    double fit_bias(const Subproblem& problem, const Rows& rows, const float* weights) {
        bias_shift_ = static_cast<float>(best_bias_shift(config_, weights[n_features_], problem));
        double square = 0.0;
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            const float part = missing(problem, i, 1.0F - problem.signs[i] * (problem.margins[i] + bias_shift_));
            square += static_cast<double>(part * part * (rows.square(i) - bias_ * bias_));
        }
        return std::sqrt(square);
    }

    template <class Rows>
    double visit_whole(Subproblem& problem, const Rows& rows, float* weights, float resting) {
        return visit_busy(
            problem, rows, resting, [&](std::int32_t i) { return margin(rows, i, weights); },
            [&](std::int32_t i, float change) { add_row(rows, i, change, weights); });
    }

    // Margins are those of the last look, and what changes of betas have added to them since.
    template <class Coarse>
    double visit_coarse(Subproblem& problem, const Coarse& coarse, float resting) {
        return visit_busy(
            problem, coarse, resting,
            [&](std::int32_t i) {
                return problem.margins[i] + margin(coarse, i, change_.data()) + coarse.common(i) * common_change_ +
                       coarse.rest(i) * (problem.betas[i] - betas_before_[i]);
            },
            [&](std::int32_t i, float change) {
                add_row(coarse, i, change, change_.data());
                common_change_ += change * coarse.common(i);
            });
    }
    void begin_coarse_visits(const Subproblem& problem) {
        betas_before_ = problem.betas;
        change_.assign(static_cast<std::size_t>(n_features_) + 1, 0.0F);
        common_change_ = 0.0F;
    }
    template <class Rows>
    void end_coarse_visits(const Subproblem& problem, const Rows& rows, float* weights) const {
        for (std::int64_t i = 0; i < problem.size(); ++i) {
            const float change = problem.betas[i] - betas_before_[i];
            if (change != 0.0F) add_row(rows, i, change, weights);
        }
    }

    // One visit to each row of order_; rows at rest leave it. Returns the norm of the gradient, as far as single rows
    // tell: each as it was before its visit. margin_of(i) is a row's margin, add(i, change) moves others with its beta.
    template <class Rows, class Margin, class Add>
    double visit_busy(Subproblem& problem, const Rows& rows, float resting, const Margin& margin_of, const Add& add) {
        double square = 0.0;
        std::size_t n_kept = 0;
        for (std::size_t at = 0; at < order_.size(); ++at) {
            if (at + kAhead < order_.size()) rows.prefetch(order_[at + kAhead]);
            const std::int32_t i = order_[at];
            const float sign = problem.signs[i];
            const float gap = 1.0F - sign * margin_of(i);
            const float part = missing(problem, i, gap);
            const float own = part * part * rows.square(i);
            square += static_cast<double>(own);
            if (own <= resting * resting) continue;
            order_[n_kept++] = i;
            const float twice = 2.0F * problem.costs[i];
            const float alpha = sign * problem.betas[i];
            const float next = std::max(0.0F, alpha + (twice * gap - alpha) / (1.0F + twice * rows.square(i)));
            problem.betas[i] = sign * next;
            add(i, sign * (next - alpha));
        }
        order_.resize(n_kept);
        return std::sqrt(square);
    }

    std::int64_t n_features_;
    const OvaConfig& config_;
    float bias_;
    float bias_shift_ = 0.0F;
    std::vector<std::int32_t> order_;  // rows that are not at rest
    // Since the last look, of visits to coarse rows: what they had, and the weights that they added.
    AlignedVector<float> betas_before_;
    AlignedVector<float> change_;
    float common_change_ = 0.0F;
};

}  // namespace longtail::linear
