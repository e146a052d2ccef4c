#pragma once

// Label-major weights into the feature-major index of a model.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace longtail::linear {

// Put each weight at the next free place of its feature's list, cursor[feature], and its label beside it; `label_ids` and
// `index_labels` are both empty where labels are not wanted. Weights that come by increasing label leave sorted lists.
template <class Weight>
void place_weights(std::span<const std::int32_t> feature_ids, std::span<const std::int32_t> label_ids,
                   std::span<const Weight> weights, std::span<std::int64_t> cursor,
                   std::span<std::int32_t> index_labels, std::span<Weight> index_weights) {
    const bool has_labels = !index_labels.empty();
    if (feature_ids.size() != weights.size() || label_ids.size() != (has_labels ? weights.size() : 0) ||
        (has_labels && index_labels.size() != index_weights.size()))
        throw std::invalid_argument("place_weights: feature_ids, label_ids and weights must have one length");
    for (std::size_t i = 0; i < weights.size(); ++i) {
        const auto feature = static_cast<std::size_t>(feature_ids[i]);  // a negative one becomes too large
        if (feature >= cursor.size())
            throw std::invalid_argument("place_weights: feature_ids must be below the number of features");
        const auto place = static_cast<std::size_t>(cursor[feature]);
        if (place >= index_weights.size())
            throw std::invalid_argument("place_weights: a feature has more weights than there are places for");
        ++cursor[feature];
        index_weights[place] = weights[i];
        if (has_labels) index_labels[place] = label_ids[i];
    }
}

}  // namespace longtail::linear
