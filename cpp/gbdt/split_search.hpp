#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "gbdt/bins.hpp"
#include "gbdt/candidates.hpp"
#include "gbdt/gradients.hpp"
#include "gbdt/params.hpp"

namespace longtail::gbdt {

// The best threshold found; `reduction` is the sum over both sides of Σ_{top k} p² / (n + λ) (eq. 20).
struct SplitChoice {
    double reduction = -1.0;
    std::int32_t feature = -1;
    float threshold = 0.0F;  // x <= threshold goes left
    std::uint8_t bin = 0;    // the same in bins (not set by the exact search)
    std::int64_t n_left = 0;

    // Larger reduction first; ties to the lower feature, then to the lower threshold, so that no order of search matters.
    bool better_than(const SplitChoice& other) const {
        if (reduction != other.reduction) return reduction > other.reduction;
        if (feature != other.feature) return feature < other.feature;
        return threshold < other.threshold;
    }
};

// A node as the search sees it.
struct NodeView {
    std::span<const std::int32_t> rows;  // row ids, ascending
    double weight = 0.0;                 // of all rows together: their number, if they have no weights
    std::span<const float> row_weights;  // by row id, empty if rows have none
    const NodeGradients* gradients = nullptr;
    const Candidates* candidates = nullptr;
    std::span<const std::int32_t> label_order;  // places in gradients, by falling bound
    std::span<const float> label_bounds;        // |p_q| of no subset of the rows exceeds this; same order
};

// Labels by falling max(Σ positive values, Σ |negative values|): no partial sum is larger, so that the search may stop
// at the first label whose bound cannot enter any list of the k best. With `n_wanted` > 0, only that many of them.
void order_labels(const NodeGradients& gradients, std::int64_t n_wanted, std::vector<std::int32_t>& order,
                  std::vector<float>& bounds);

// How many labels the search looks at: split_labels, but never fewer than a leaf keeps; 0 for all.
inline std::int64_t n_searched_labels(const BoostParams& params) {
    if (params.leaf_top_k == 0 || params.split_labels == 0) return 0;
    return params.split_labels > params.leaf_top_k ? params.split_labels : params.leaf_top_k;
}

// A run of candidate features that are searched together; its sums fit the first-level cache.
struct Tile {
    std::int32_t first = 0;
    std::int32_t last = 0;
};
std::vector<Tile> cut_tiles(const Candidates& candidates);

// Scratch memory of one worker, reused from task to task.
struct SearchScratch {
    std::vector<std::uint16_t> offsets;         // per node row: where its bins of the tile's features are summed
    std::vector<std::int64_t> offset_begin;     // sparse bins: rows differ in length
    std::vector<std::uint16_t> offset_of_bin;   // 256 per feature of the tile
    std::vector<std::uint8_t> slot_thresholds;  // [threshold][feature of the tile]
    std::vector<std::uint16_t> slot_bases;
    std::vector<std::int32_t> feature_places;
    AlignedVector<float> block_sums;  // [label of the block][offset]
    AlignedVector<float> wide_sums;   // [offset][label of the block], where gradients are dense
    AlignedVector<float> wide_rows;   // [row of a chunk][label of the block]
    AlignedVector<float> best;        // per threshold and side: the k largest p² so far, falling, sixteen features wide
    AlignedVector<double> all;        // the same without limit: only the sums
    std::vector<std::int32_t> n_best;
};

SplitChoice search_tile(const Bins& bins, const NodeView& node, const Tile& tile, const BoostParams& params,
                        SearchScratch& scratch, Control& control);

}  // namespace longtail::gbdt
