#pragma once

// Label-major weights into the feature-major index of a model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/control.hpp"
#include "base/parallel_for.hpp"

namespace longtail::linear {

// The first feature of each of n_ranges ranges with about the same number of places, and the end. Cursors of features
// in order increase, so that a cursor tells how many places come before it.
inline std::vector<std::size_t> feature_ranges(std::span<const std::int64_t> cursor, std::size_t n_places,
                                               std::size_t n_ranges) {
    std::vector<std::size_t> firsts(n_ranges + 1, cursor.size());
    firsts[0] = 0;
    for (std::size_t range = 1; range < n_ranges; ++range) {
        const auto place = static_cast<std::int64_t>(n_places / n_ranges * range);
        const auto first = static_cast<std::size_t>(std::ranges::lower_bound(cursor, place) - cursor.begin());
        firsts[range] = std::max(firsts[range - 1], first);
    }
    return firsts;
}

// Put each weight at the next free place of its feature's list, cursor[feature], and its label beside it; `label_ids` and
// `index_labels` are both empty where labels are not wanted. Weights that come by increasing label leave sorted lists.
// Each thread reads all feature ids, and places the weights of a range of features.
template <class Weight>
void place_weights(std::span<const std::int32_t> feature_ids, std::span<const std::int32_t> label_ids,
                   std::span<const Weight> weights, std::span<std::int64_t> cursor,
                   std::span<std::int32_t> index_labels, std::span<Weight> index_weights, int n_threads,
                   Control& control) {
    const bool has_labels = !index_labels.empty();
    if (feature_ids.size() != weights.size() || label_ids.size() != (has_labels ? weights.size() : 0) ||
        (has_labels && index_labels.size() != index_weights.size()))
        throw std::invalid_argument("place_weights: feature_ids, label_ids and weights must have one length");
    const auto is_unknown = [&](std::int32_t feature) { return static_cast<std::size_t>(feature) >= cursor.size(); };
    if (std::ranges::any_of(feature_ids, is_unknown))  // a negative one becomes too large
        throw std::invalid_argument("place_weights: feature_ids must be below the number of features");

    constexpr std::size_t least_weights = 1 << 14;  // fewer are not worth a thread
    const std::size_t n_ranges =
        std::clamp<std::size_t>(weights.size() / least_weights, 1, static_cast<std::size_t>(std::max(n_threads, 1)));
    const std::vector<std::size_t> firsts = feature_ranges(cursor, index_weights.size(), n_ranges);
    parallel_for(static_cast<std::int64_t>(n_ranges), n_threads, control, [&](std::int64_t range, int) {
        const std::size_t first = firsts[static_cast<std::size_t>(range)];
        const std::size_t n_own = firsts[static_cast<std::size_t>(range) + 1] - first;
        for (std::size_t i = 0; i < weights.size(); ++i) {
            const auto feature = static_cast<std::size_t>(feature_ids[i]);
            if (feature - first >= n_own) continue;
            const auto place = static_cast<std::size_t>(cursor[feature]);
            if (place >= index_weights.size())
                throw std::invalid_argument("place_weights: a feature has more weights than there are places for");
            ++cursor[feature];
            index_weights[place] = weights[i];
            if (has_labels) index_labels[place] = label_ids[i];
        }
    });
}

}  // namespace longtail::linear
