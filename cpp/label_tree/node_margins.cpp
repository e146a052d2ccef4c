#include "label_tree/node_margins.hpp"

#include <algorithm>
#include <bit>

#include "base/lanes.hpp"

namespace longtail::label_tree {
namespace {

// So many rows pay for an array over all features; fewer find the features of a node without it.
constexpr std::int64_t kRowsToScatter = 64;
// Nor does a model with few weights pay for one: an id near 2^31 in its file would ask for 8 GiB.
constexpr std::int64_t kFeaturesPerStored = 4;
constexpr std::int64_t kFeaturesToScatter = 1 << 22;
// Weights become an array if at least one of so many is stored, if each feature is used as often as this, and if the
// array stays in the cache.
constexpr std::int64_t kWeightsPerStored = 4;
constexpr std::int64_t kUsesPerFeature = 4;
constexpr std::int64_t kMostDense = 1 << 20;

// Size of an array over the features that have a weight; 0 if it would not pay.
std::int64_t count_places(const CsrView& x, const ForestView& forest) {
    if (x.n_rows < kRowsToScatter) return 0;
    std::int64_t n_used = 0;
    for (std::size_t node = 0; node + 1 < forest.feature_indptr.size(); ++node)
        if (forest.feature_indptr[node] < forest.feature_indptr[node + 1])
            n_used = std::max<std::int64_t>(n_used, forest.feature_ids[forest.feature_indptr[node + 1] - 1] + 1);
    const std::int64_t n_stored = static_cast<std::int64_t>(forest.feature_ids.size());
    return n_used <= std::max(kFeaturesToScatter, kFeaturesPerStored * n_stored) ? n_used : 0;
}

}  // namespace

NodeMargins::NodeMargins(const CsrView& x, const ForestView& forest)
    : x_(x), forest_(forest), n_places_(count_places(x, forest)) {}

void NodeMargins::open(std::int64_t node, std::int64_t n_words) {
    node_ = node;
    const std::int64_t first_feature = forest_.feature_indptr[node];
    features_ = forest_.feature_ids.subspan(first_feature, forest_.feature_indptr[node + 1] - first_feature);
    const auto n_features = static_cast<std::int64_t>(features_.size());
    const std::int64_t n_steps = std::bit_width(features_.size());
    is_scattered_ = n_places_ > 0 && n_words * n_steps > 2 * n_features;
    if (is_scattered_) {
        if (places_.empty()) places_.resize(n_places_, 0);
        for (std::size_t i = 0; i < features_.size(); ++i) places_[features_[i]] = static_cast<std::int32_t>(i) + 1;
    }
    const std::int64_t n_entries = forest_.entry_begins[node + 1] - forest_.entry_begins[node];
    stride_ = (n_children() + kLanes - 1) / kLanes * kLanes;
    is_dense_ = is_scattered_ && n_words >= kUsesPerFeature * n_features && n_features * stride_ <= kMostDense &&
                n_features * stride_ <= kWeightsPerStored * n_entries;
    if (is_dense_) spread_weights();
}

void NodeMargins::close() {
    if (is_scattered_)
        for (const std::int32_t feature : features_) places_[feature] = 0;
}

std::int64_t NodeMargins::first_entry(std::int64_t place) const {
    if (place == static_cast<std::int64_t>(features_.size())) return forest_.entry_begins[node_ + 1];
    return forest_.entry_begins[node_] + forest_.row_begins[forest_.feature_indptr[node_] + place];
}

void NodeMargins::spread_weights() {
    const auto n_features = static_cast<std::int64_t>(features_.size());
    dense_.assign(n_features * stride_, 0.0F);
    for (std::int64_t place = 0; place < n_features; ++place) {
        float* const weights = dense_.data() + place * stride_;
        const std::int64_t end = first_entry(place + 1);
        for (std::int64_t i = first_entry(place); i < end; ++i)
            weights[forest_.edges[i]] = forest_.scales.empty() ? forest_.weights[i] : forest_.codes[i];
    }
}

// Call take(place among the features, value) for each word of a row that the node has weights of.
template <class Take>
void NodeMargins::for_words(std::int64_t row, const Take& take) const {
    const auto words = x_.row_indices(row);
    const auto values = x_.row_values(row);
    if (is_scattered_) {
        for (std::size_t i = 0; i < words.size() && words[i] < n_places_; ++i)
            if (const std::int32_t place = places_[words[i]]; place > 0) take(place - 1, values[i]);
        return;
    }
    const std::int32_t* from = features_.data();
    const std::int32_t* const end = from + features_.size();
    const bool is_merged = words.size() * std::bit_width(features_.size()) > features_.size();
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (is_merged)
            while (from != end && *from < words[i]) ++from;
        else
            from = std::lower_bound(from, end, words[i]);
        if (from == end) break;
        if (*from == words[i]) take(from - features_.data(), values[i]);
    }
}

std::span<const float> NodeMargins::of_row(std::int64_t row) {
    sums_.assign(stride_, 0.0F);
    float* const sums = sums_.data();
    if (is_dense_)
        for_words(row, [&](std::int64_t place, float value) {
            const float* const weights = dense_.data() + place * stride_;
            for (std::int64_t i = 0; i < stride_; i += kRegisterLanes) {
                Register sum, weight;
                load(sum, sums + i);
                load(weight, weights + i);
                store(sum + value * weight, sums + i);
            }
        });
    else
        for_words(row, [&](std::int64_t place, float value) {
            const std::int64_t end = first_entry(place + 1);
            if (forest_.scales.empty())
                for (std::int64_t i = first_entry(place); i < end; ++i)
                    sums[forest_.edges[i]] += value * forest_.weights[i];
            else
                for (std::int64_t i = first_entry(place); i < end; ++i)
                    sums[forest_.edges[i]] += value * static_cast<float>(forest_.codes[i]);
        });
    return std::span(sums_).first(n_children());
}

}  // namespace longtail::label_tree
