#include "gbdt/partition.hpp"

#include <bit>
#include <cmath>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace longtail::gbdt {
namespace {

// Long lists are summed in eight chains, entry i in chain i % 8: one chain would wait for itself.
constexpr int kChains = 8;
constexpr std::int64_t kLong = 16;

double sum_chains(const double* chains) {
    return ((chains[0] + chains[1]) + (chains[2] + chains[3])) + ((chains[4] + chains[5]) + (chains[6] + chains[7]));
}

// Sides alternate unpredictably, so that both are written and one cursor moves.
template <bool kLeft, bool kRight>
class Partition {
public:
    Partition(const Entries& entries, const std::int32_t* child_rows, const Sides& sides)
        : entries_(entries), child_rows_(child_rows), sides_(sides) {}

    LeftShare run() {
        if (entries_.size < kLong) {
            for (std::int64_t i = 0; i < entries_.size; ++i) move(i, share_.total, share_.magnitude);
            return share_;
        }
        alignas(64) double totals[kChains] = {};
        alignas(64) double magnitudes[kChains] = {};
#if defined(__AVX512F__)
        move_lanes(totals, magnitudes);
#else
        std::int64_t i = 0;
        for (; i + kChains <= entries_.size; i += kChains)
            for (int chain = 0; chain < kChains; ++chain) move(i + chain, totals[chain], magnitudes[chain]);
        for (int chain = 0; i + chain < entries_.size; ++chain) move(i + chain, totals[chain], magnitudes[chain]);
#endif
        share_.total = sum_chains(totals);
        share_.magnitude = sum_chains(magnitudes);
        return share_;
    }

private:
    void move(std::int64_t i, double& total, double& magnitude) {
        const std::int32_t place = child_rows_[entries_.rows[i]];
        const float value = entries_.values[i];
        const bool goes_left = place >= 0;
        if constexpr (kLeft) {
            sides_.left_rows[share_.n_entries] = place;
            sides_.left_values[share_.n_entries] = value;
        }
        if constexpr (kRight) {
            sides_.right_rows[i - share_.n_entries] = ~place;
            sides_.right_values[i - share_.n_entries] = value;
        }
        const double on_left = goes_left ? static_cast<double>(value) : 0.0;
        share_.n_entries += goes_left ? 1 : 0;
        total += on_left;
        magnitude += std::abs(on_left);
    }

#if defined(__AVX512F__)
    // Sixteen entries at a time. Zero-masked forms where plain ones would do: gcc 12 wrongly warns of uninitialised
    // registers in those.
    void move_lanes(double* total_chains, double* magnitude_chains) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i ones = _mm512_set1_epi32(-1);
        const __m512i no_sign = _mm512_set1_epi32(0x7FFFFFFF);
        __m512d totals = _mm512_setzero_pd();
        __m512d magnitudes = _mm512_setzero_pd();
        std::int64_t n_left = 0;
        for (std::int64_t i = 0; i < entries_.size; i += 16) {
            const std::int64_t n_here = entries_.size - i < 16 ? entries_.size - i : 16;
            const auto here = static_cast<__mmask16>((1U << n_here) - 1U);
            const __m512i rows = _mm512_maskz_loadu_epi32(here, entries_.rows + i);
            const __m512i values = _mm512_maskz_loadu_epi32(here, entries_.values + i);
            const __m512i places = _mm512_mask_i32gather_epi32(zero, here, rows, child_rows_, 4);
            const __mmask16 left = _mm512_mask_cmpge_epi32_mask(here, places, zero);
            const auto n_left_here = static_cast<unsigned>(std::popcount(static_cast<unsigned>(left)));
            if constexpr (kLeft) {
                const auto packed = static_cast<__mmask16>((1U << n_left_here) - 1U);
                _mm512_mask_storeu_epi32(sides_.left_rows + n_left, packed, _mm512_maskz_compress_epi32(left, places));
                _mm512_mask_storeu_epi32(sides_.left_values + n_left, packed,
                                         _mm512_maskz_compress_epi32(left, values));
            }
            if constexpr (kRight) {
                const auto right = static_cast<__mmask16>(here & ~left);
                const __m512i flipped = _mm512_xor_si512(places, ones);
                _mm512_storeu_si512(sides_.right_rows + (i - n_left), _mm512_maskz_compress_epi32(right, flipped));
                _mm512_storeu_si512(sides_.right_values + (i - n_left), _mm512_maskz_compress_epi32(right, values));
            }
            n_left += n_left_here;
            const __m512i on_left = _mm512_maskz_mov_epi32(left, values);
            add(totals, on_left);
            add(magnitudes, _mm512_and_si512(on_left, no_sign));
        }
        share_.n_entries = n_left;
        _mm512_store_pd(total_chains, totals);
        _mm512_store_pd(magnitude_chains, magnitudes);
    }

    // Sixteen floats to eight chains: the first eight, then the second eight.
    static void add(__m512d& chains, __m512i floats) {
        const __m256 low = _mm256_castsi256_ps(_mm512_maskz_extracti64x4_epi64(0xF, floats, 0));
        const __m256 high = _mm256_castsi256_ps(_mm512_maskz_extracti64x4_epi64(0xF, floats, 1));
        chains = _mm512_add_pd(chains, _mm512_maskz_cvtps_pd(0xFF, low));
        chains = _mm512_add_pd(chains, _mm512_maskz_cvtps_pd(0xFF, high));
    }
#endif

    const Entries& entries_;
    const std::int32_t* child_rows_;
    const Sides& sides_;
    LeftShare share_;
};

}  // namespace

LeftShare partition(const Entries& entries, const std::int32_t* child_rows, const Sides& sides) {
    const bool left = sides.left_rows != nullptr;
    const bool right = sides.right_rows != nullptr;
    if (left && right) return Partition<true, true>(entries, child_rows, sides).run();
    if (left) return Partition<true, false>(entries, child_rows, sides).run();
    if (right) return Partition<false, true>(entries, child_rows, sides).run();
    return Partition<false, false>(entries, child_rows, sides).run();
}

}  // namespace longtail::gbdt
