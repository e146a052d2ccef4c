#pragma once

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

#include "gbdt/candidates.hpp"
#include "gbdt/lanes.hpp"
#include "gbdt/split_search.hpp"

namespace longtail::gbdt {

// Finds where a dense row's bins are summed: offset = base of the feature + 16 × slot. The slot is how many thresholds
// are less than the bin, counted for 64 features at once; a table would be read once for every feature.
class SlotFinder {
public:
    static constexpr std::int32_t kMostSlots = 40;  // with more, the table is faster
    static constexpr std::int32_t kWidth = 64;
    static constexpr std::int32_t kSlack = kWidth;  // entries that find() may write beyond its row

    SlotFinder(const Candidates& candidates, std::int32_t first, std::int32_t last, std::int32_t n_slots,
               SearchScratch& scratch)
        : features_(candidates.features.data() + first),
          n_features_(last - first),
          stride_((last - first + kWidth - 1) / kWidth * kWidth),
          n_thresholds_(n_slots - 1) {
        are_neighbours_ = features_[n_features_ - 1] - features_[0] == n_features_ - 1;
        scratch.slot_thresholds.assign(static_cast<std::size_t>(n_thresholds_) * stride_, 255);  // no bin exceeds it
        scratch.slot_bases.assign(stride_, 0);
        thresholds_ = scratch.slot_thresholds.data();
        bases_ = scratch.slot_bases.data();
        for (std::int32_t i = first; i < last; ++i)
            for (std::int32_t j = candidates.begin[i]; j < candidates.begin[i + 1]; ++j)
                thresholds_[(j - candidates.begin[i]) * stride_ + (i - first)] = candidates.bins[j];
    }

    void set_base(std::int32_t place, std::int32_t base) { bases_[place] = static_cast<std::uint16_t>(base); }

    // `row_bins` has the bins of all features; `out` gets the offsets of the tile's.
    void find(const std::uint8_t* row_bins, std::uint16_t* out) const {
        for (std::int32_t first = 0; first < n_features_; first += kWidth) {
            const std::int32_t n_here = std::min(kWidth, n_features_ - first);
            if (are_neighbours_) {
                find_wide(row_bins + features_[0] + first, n_here, first, out + first);
                continue;
            }
            std::uint8_t own[kWidth] = {};
            for (std::int32_t i = 0; i < n_here; ++i) own[i] = row_bins[features_[first + i]];
            find_wide(own, n_here, first, out + first);
        }
    }

private:
#if defined(__AVX512BW__)
    void find_wide(const std::uint8_t* own, std::int32_t n_here, std::int32_t first, std::uint16_t* out) const {
        const __m512i bins = _mm512_maskz_loadu_epi8(~std::uint64_t{0} >> (kWidth - n_here), own);
        const __m512i one = _mm512_set1_epi8(1);
        __m512i slots = _mm512_setzero_si512();
        const std::uint8_t* thresholds = thresholds_ + first;
        for (std::int32_t i = 0; i < n_thresholds_; ++i, thresholds += stride_)
            slots =
                _mm512_mask_add_epi8(slots, _mm512_cmpgt_epu8_mask(bins, _mm512_loadu_si512(thresholds)), slots, one);
        const __m512i low = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xF, slots, 0));
        const __m512i high = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xF, slots, 1));
        store_offsets(low, bases_ + first, out);
        store_offsets(high, bases_ + first + 32, out + 32);
    }
    static void store_offsets(__m512i slots, const std::uint16_t* bases, std::uint16_t* out) {
        static_assert(kLanes == 16);
        _mm512_storeu_si512(out, _mm512_add_epi16(_mm512_slli_epi16(slots, 4), _mm512_loadu_si512(bases)));
    }
#else
    void find_wide(const std::uint8_t* own, std::int32_t n_here, std::int32_t first, std::uint16_t* out) const {
        std::uint8_t bins[kWidth] = {};
        std::copy_n(own, n_here, bins);
        std::uint8_t slots[kWidth] = {};
        const std::uint8_t* thresholds = thresholds_ + first;
        for (std::int32_t i = 0; i < n_thresholds_; ++i, thresholds += stride_)
            for (int j = 0; j < kWidth; ++j)
                slots[j] = static_cast<std::uint8_t>(slots[j] + (bins[j] > thresholds[j] ? 1 : 0));
        for (int j = 0; j < kWidth; ++j) out[j] = static_cast<std::uint16_t>(bases_[first + j] + slots[j] * kLanes);
    }
#endif

    const std::int32_t* features_;
    std::int32_t n_features_;
    std::int32_t stride_;
    std::int32_t n_thresholds_;
    bool are_neighbours_ = false;
    std::uint8_t* thresholds_ = nullptr;
    std::uint16_t* bases_ = nullptr;
};

}  // namespace longtail::gbdt
