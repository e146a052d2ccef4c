#include "vectorizer/characters.hpp"

#include <algorithm>
#include <stdexcept>

namespace longtail {

namespace {
constexpr std::int32_t kEndOfUnicode = 0x110000;
}

CharacterClasses::CharacterClasses(std::span<const std::int32_t> word_ranges,
                                   std::span<const std::int32_t> space_ranges,
                                   std::span<const std::int32_t> ideographic_ranges,
                                   std::span<const std::int32_t> unspaced_ranges)
    : word_(bits_of(word_ranges)),
      space_(bits_of(space_ranges)),
      ideographic_(bits_of(ideographic_ranges)),
      unspaced_(bits_of(unspaced_ranges)) {
    for (const std::span<const std::int32_t> ranges : {ideographic_ranges, unspaced_ranges})
        if (!ranges.empty())
            first_of_scripts_ = std::min(first_of_scripts_, static_cast<std::uint32_t>(ranges.front()));
}

std::vector<std::uint64_t> CharacterClasses::bits_of(std::span<const std::int32_t> ranges) {
    std::int32_t last = 0;
    if (ranges.size() % 2 != 0) throw std::invalid_argument("character ranges must come in pairs");
    for (const std::int32_t edge : ranges) {
        if (edge < last || edge > kEndOfUnicode)
            throw std::invalid_argument("character ranges must be increasing and within Unicode");
        last = edge;
    }
    std::vector<std::uint64_t> bits(static_cast<std::size_t>(last + 63) / 64);
    for (std::size_t i = 0; i < ranges.size(); i += 2)
        for (auto code_point = static_cast<std::uint32_t>(ranges[i]);
             code_point < static_cast<std::uint32_t>(ranges[i + 1]); ++code_point)
            bits[code_point >> 6] |= std::uint64_t{1} << (code_point & 63);
    return bits;
}

}  // namespace longtail
