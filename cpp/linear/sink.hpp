#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "linear/lanes.hpp"
#include "linear/problem.hpp"

namespace longtail::linear {

struct Iteration {
    double objective;
    std::int32_t active_rows;
    float step_size;
    float seconds = 0.0F;  // what the step from here took, and its CG steps; only Newton steps over all rows tell them
    std::int32_t cg_steps = 0;
};

// What is known about one label when it is finished.
struct LabelRecord {
    std::int32_t iterations = 0;
    std::int32_t cg_steps = 0;
    bool converged = true;
    double seconds = 0.0;
    double first_objective = 0.0;
    double last_objective = 0.0;
    double gradient_ratio = 0.0;
    double distance = std::numeric_limits<double>::quiet_NaN();  // ‖w₀ − w‖; known with a history of Newton steps
    std::vector<Iteration> history;
};

// Takes finished labels in any order and lays them out in the order of the range. Prunes on the way in.
class LabelSink {
public:
    LabelSink(std::int64_t n_labels, const OvaConfig& config)
        : config_(config), feature_ids_(n_labels), weights_(n_labels), biases_(n_labels, 0.0F), records_(n_labels) {}

    // `weights` has n_features entries and the bias weight behind them.
    void put(std::int64_t label, const float* weights, std::int64_t n_features, LabelRecord record) {
        if (!are_finite(weights, n_features + 1)) {
            leave(label, std::move(record));
            return;
        }
        std::size_t n_kept = 0;
        for_each_kept(weights, n_features, [&](std::int64_t) { ++n_kept; });
        feature_ids_[label].reserve(n_kept);
        weights_[label].reserve(n_kept);
        for_each_kept(weights, n_features, [&](std::int64_t f) {
            feature_ids_[label].push_back(static_cast<std::int32_t>(f));
            weights_[label].push_back(weights[f]);
        });
        biases_[label] = weights[n_features] * config_.bias;
        records_[label] = std::move(record);
    }

    // The same from pairs (feature, weight), features increasing; `bias` is already multiplied by the bias feature.
    void put(std::int64_t label, const std::vector<std::pair<std::int32_t, float>>& weights, float bias,
             LabelRecord record) {
        if (!std::isfinite(bias) || !std::all_of(weights.begin(), weights.end(),
                                                 [](const auto& entry) { return std::isfinite(entry.second); })) {
            leave(label, std::move(record));
            return;
        }
        for (const auto& [feature, weight] : weights) {
            if (!keeps(weight)) continue;
            feature_ids_[label].push_back(feature);
            weights_[label].push_back(weight);
        }
        biases_[label] = bias;
        records_[label] = std::move(record);
    }

    // The pruned weights of a finished label, which its children in a tree begin with.
    const std::vector<std::int32_t>& feature_ids(std::int64_t label) const { return feature_ids_[label]; }
    const std::vector<float>& weights(std::int64_t label) const { return weights_[label]; }
    float bias(std::int64_t label) const { return biases_[label]; }

    // The labels so far whose weights were not finite, once each: another solver may do better. The bias of those that
    // none can train is NaN.
    std::vector<std::int32_t> take_left() { return std::exchange(left_, {}); }

    OvaResult finish();

private:
    void leave(std::int64_t label, LabelRecord record) {
        left_.push_back(static_cast<std::int32_t>(label));
        biases_[label] = std::numeric_limits<float>::quiet_NaN();
        records_[label] = std::move(record);
    }
    static bool are_finite(const float* weights, std::int64_t n) {
        Lanes sums{};
        std::int64_t i = 0;
        for (; i + kLanes <= n; i += kLanes) {
            Lanes values;
            load(values, weights + i);
            sums += values * 0.0F;  // 0, or NaN
        }
        return sum(sums) == 0.0F &&
               std::all_of(weights + i, weights + n, [](float weight) { return std::isfinite(weight); });
    }
    // visit(f) for the features that keeps() keeps, increasing. Most weights of a rare label are pruned, sixteen at a look.
    template <class Visit>
    void for_each_kept(const float* weights, std::int64_t n_features, const Visit& visit) const {
        const float most_pruned = config_.prune_below > 0.0F ? std::nextafter(config_.prune_below, 0.0F) : 0.0F;
        std::int64_t f = 0;
        for (; f + kLanes <= n_features; f += kLanes) {
            Lanes values;
            load(values, weights + f);
            for (std::uint32_t bits = bits_greater(abs_lanes(values), Lanes{} + most_pruned); bits != 0;
                 bits &= bits - 1)
                visit(f + std::countr_zero(bits));
        }
        for (; f < n_features; ++f)
            if (keeps(weights[f])) visit(f);
    }
    bool keeps(float weight) const { return weight != 0.0F && std::abs(weight) >= config_.prune_below; }

    const OvaConfig& config_;
    std::vector<std::vector<std::int32_t>> feature_ids_;
    std::vector<std::vector<float>> weights_;
    std::vector<float> biases_;
    std::vector<LabelRecord> records_;
    std::vector<std::int32_t> left_;
};

}  // namespace longtail::linear
