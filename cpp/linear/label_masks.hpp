#pragma once

// Which labels a feature has weights for, as bits: for features that a good part of all labels use. Sixteen labels'
// weights are then spread over their lanes by one instruction (AVX-512), and the label ids need not be read at all.

#include <cstdint>
#include <span>
#include <vector>

namespace longtail::linear {

struct LabelMasksView {
    std::span<const std::int32_t> places;  // one per feature: which row of masks, -1 for none; empty: no masks at all
    std::span<const std::uint16_t> masks;  // rows of ⌈n_labels / 16⌉
};

struct LabelMasks {
    std::vector<std::int32_t> places;
    std::vector<std::uint16_t> masks;
};

// At most half a byte for each weight of the index. Empty where the instruction set has no use for it.
LabelMasks make_label_masks(std::span<const std::int64_t> indptr, std::span<const std::int32_t> label_ids,
                            std::int64_t n_labels);

}  // namespace longtail::linear
