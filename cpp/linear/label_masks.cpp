#include "linear/label_masks.hpp"

#include "linear/lanes.hpp"

namespace longtail::linear {

LabelMasks make_label_masks(std::span<const std::int64_t> indptr, std::span<const std::int32_t> label_ids,
                            std::int64_t n_labels) {
    LabelMasks out;
#if defined(__AVX512F__)
    constexpr std::int64_t kLabelsPerWeight = 4;  // fewer than four weights in sixteen lanes: one by one is as fast
    const auto n_features = static_cast<std::int64_t>(indptr.size()) - 1;
    const std::int64_t width = (n_labels + kLanes - 1) / kLanes;
    std::int32_t n_rows = 0;
    for (std::int64_t feature = 0; feature < n_features; ++feature) {
        const std::int64_t size = indptr[feature + 1] - indptr[feature];
        out.places.push_back(size > 0 && kLabelsPerWeight * size >= n_labels ? n_rows++ : -1);
    }
    out.masks.assign(static_cast<std::size_t>(n_rows * width), 0);
    for (std::int64_t feature = 0; feature < n_features; ++feature) {
        if (out.places[feature] < 0) continue;
        std::uint16_t* const masks = out.masks.data() + out.places[feature] * width;
        for (std::int64_t i = indptr[feature]; i < indptr[feature + 1]; ++i) {
            std::uint16_t& mask = masks[label_ids[i] / kLanes];
            mask = static_cast<std::uint16_t>(mask | (1U << (label_ids[i] % kLanes)));
        }
    }
#else
    (void)indptr;
    (void)label_ids;
    (void)n_labels;
#endif
    return out;
}

}  // namespace longtail::linear
