#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace longtail::gbdt {

// Sort ascending by the 32 bits from `first_bit` on; keys that are equal there keep their order. `scratch` is memory
// that may be used again. Few keys are not worth the counting: callers sort those otherwise.
template <class Key>
void radix_sort(std::vector<Key>& keys, std::vector<Key>& scratch, int first_bit) {
    constexpr int kDigitBits = 11;  // three digits
    constexpr std::size_t kDigits = 1 << kDigitBits;
    scratch.resize(keys.size());
    for (int shift = first_bit; shift < first_bit + 32; shift += kDigitBits) {
        const auto digit_of = [shift](Key key) { return static_cast<std::size_t>(key >> shift) & (kDigits - 1); };
        std::size_t next[kDigits] = {};
        for (const Key key : keys) ++next[digit_of(key)];
        std::size_t n_before = 0;
        for (std::size_t& count : next) n_before += std::exchange(count, n_before);
        for (const Key key : keys) scratch[next[digit_of(key)]++] = key;
        keys.swap(scratch);
    }
}

}  // namespace longtail::gbdt
