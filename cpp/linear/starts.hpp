#pragma once

// The starts of msi-dismec, sections 2 to 4: each label's w₀ as a mix of three parts that need no n_features of memory.

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/aligned.hpp"
#include "linear/lanes.hpp"
#include "linear/problem.hpp"

namespace longtail::linear {

// w₀ = positives_scale · Σ_{i∈P} x_i + shared_scale · shared + own weights + bias (on the bias feature's weight).
struct LabelStart {
    double positives_scale = 0.0;  // of Σ_P x_i, each row times its weight
    double shared_scale = 0.0;
    double bias_weight = 0.0;
    double positive_cost = 1.0;  // c of the positives
    double zero_gradient = 0.0;  // ‖∇L(0)‖
    double tolerance = 0.0;      // the gradient norm to reach: right-hand side of eq. 12
};

// eq. 23 and 24 from ⟨p̄,p̄⟩, ⟨x̄,p̄⟩, ⟨x̄,x̄⟩ and |P|/|X|, with the degenerate cases of the appendix.
struct MeanSeparation {
    double u = 0.0;
    double v = 0.0;
};
inline MeanSeparation separate_means(double pp, double xp, double xx, double share, double s, double t) {
    constexpr double kTiny = 1e-7;  // float32 products carry no more
    if (pp <= 0.0 || xx <= 0.0) return {};
    const double determinant = xp * xp - pp * xx;
    if (std::abs(determinant) <= kTiny * pp * xx) return {};  // p̄ and x̄ point the same way: no such plane
    const double negatives_term = t + (s - t) * share;        // (|N|t + |P|s) / |X|
    if (std::abs(xp) <= kTiny * std::sqrt(pp * xx)) return {s / pp, negatives_term / xx};  // eq. 27
    const double u = (xp * negatives_term - s * xx) / determinant;
    return {u, (s - u * pp) / xp};
}

template <class Rows>
class Starter {
public:
    Starter(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
            const OvaConfig& config)
        : rows_(rows), labels_(labels), moments_(moments), start_(start), config_(config) {
        for (const float value : moments.mean) mean_square_ += static_cast<double>(value) * value;
        positives_.assign(static_cast<std::size_t>(rows.n_features()), 0.0F);
        for (const float weight : labels.row_weights) total_weight_ += weight;
        if (labels.row_weights.empty()) total_weight_ = static_cast<double>(rows.n_rows());
    }

    LabelStart prepare(std::int64_t label) {
        const auto row_ids = labels_.positives.row_labels(label);
        const double n = total_weight_;
        double n_positives = 0.0;
        for (const std::int32_t row : row_ids) n_positives += labels_.row_weight(row);
        LabelStart out;
        out.positive_cost = config_.cost * (labels_.positive_weights.empty() ? 1.0 : labels_.positive_weights[label]);

        // ‖Σ_P x‖² and Σ_P x·x̄, from which ∇L(0) = slope·(Σ_N C x - Σ_P c x) has its norm.
        double square = static_cast<double>(config_.bias) * config_.bias * n_positives * n_positives;
        double along_mean = 0.0;
        for (const std::int32_t row : row_ids)
            rows_.add_to(row, static_cast<float>(labels_.row_weight(row)), positives_.data());
        for (const std::int32_t row : row_ids) {
            square += labels_.row_weight(row) * rows_.dot(row, positives_.data());
            along_mean += labels_.row_weight(row) * moments_.mean_margins[row];
        }
        for (const std::int32_t row : row_ids)
            rows_.for_each(row, [&](std::int32_t feature, float) { positives_[feature] = 0.0F; });
        const double both = out.positive_cost + config_.cost;
        const double slope = config_.loss == Loss::squared_hinge ? 2.0 : 0.5;
        const double norm_square = config_.cost * config_.cost * n * n * mean_square_ -
                                   2.0 * config_.cost * both * n * along_mean + both * both * square;
        out.zero_gradient = slope * std::sqrt(norm_square > 0.0 ? norm_square : 0.0);
        const double minority = n_positives < n - n_positives ? n_positives : n - n_positives;
        out.tolerance = config_.tolerance * (minority > 1.0 ? minority : 1.0) / n * out.zero_gradient;

        if (start_.kind == StartKind::bias && config_.bias != 0.0F) out.bias_weight = start_.bias_weight / config_.bias;
        if (start_.kind == StartKind::shared) out.shared_scale = 1.0;
        if (separates_means(label) && n_positives > 0.0) {
            const MeanSeparation mix =
                separate_means(square / (n_positives * n_positives), along_mean / n_positives, mean_square_,
                               n_positives / n, start_.positive_margin, start_.negative_margin);
            out.positives_scale = mix.u / n_positives;
            out.shared_scale = mix.v;
        }
        return out;
    }

    // Add w₀ to n_features + 1 zeros, the bias weight last.
    void set_weights(std::int64_t label, const LabelStart& start, float* weights) const {
        const std::int64_t n_features = rows_.n_features();
        const float scale = static_cast<float>(start.positives_scale);
        if (scale != 0.0F) {
            double total = 0.0;
            for (const std::int32_t row : labels_.positives.row_labels(label)) {
                rows_.add_to(row, scale * static_cast<float>(labels_.row_weight(row)), weights);
                total += labels_.row_weight(row);
            }
            weights[n_features] = scale * config_.bias * static_cast<float>(total);
        }
        const float shared_scale = static_cast<float>(start.shared_scale);
        if (shared_scale != 0.0F) add_scaled(weights, shared().data(), shared_scale, n_features + 1);
        if (start_.kind == StartKind::own) {
            const auto ids = start_.own_weights.row_indices(label);
            const auto values = start_.own_weights.row_values(label);
            for (std::size_t i = 0; i < ids.size(); ++i) weights[ids[i]] += values[i];
            if (config_.bias != 0.0F) weights[n_features] += start_.own_biases[label] / config_.bias;
        }
        weights[n_features] += static_cast<float>(start.bias_weight);
    }

    // The vector that LabelStart::shared_scale multiplies, and its margins.
    std::span<const float> shared() const { return start_.kind == StartKind::shared ? start_.shared : moments_.mean; }
    std::span<const float> shared_margins() const {
        return start_.kind == StartKind::shared ? start_.shared_margins : moments_.mean_margins;
    }

private:
    // Labels without weights of their own to begin with begin like new ones.
    bool separates_means(std::int64_t label) const {
        return start_.kind == StartKind::mean_separating ||
               (start_.kind == StartKind::own && start_.own_weights.row_size(label) == 0 &&
                start_.own_biases[label] == 0.0F);
    }

    const Rows& rows_;
    const OvaLabels& labels_;
    const OvaMoments& moments_;
    const OvaStart& start_;
    const OvaConfig& config_;
    double mean_square_ = 0.0;
    double total_weight_ = 0.0;
    AlignedVector<float> positives_;  // zero between calls
};

}  // namespace longtail::linear
