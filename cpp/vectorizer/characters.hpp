#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace longtail {

// How scripts mark words: by blanks, or not at all. Without blanks, short runs of characters take the place of words.
enum class Script : std::uint8_t { spaced, ideographic, unspaced };

// Which code points are letters of words, which are blanks, and which belong to scripts without blanks between words
// (ideographs and kana; Thai, Lao, Khmer, Burmese). The ranges come from the running Python, so that words end here exactly
// where its regular expressions end them, whatever version of Unicode it knows.
class CharacterClasses {
public:
    // Each span is begin, end, begin, end, ... in increasing order, half-open.
    CharacterClasses(std::span<const std::int32_t> word_ranges, std::span<const std::int32_t> space_ranges,
                     std::span<const std::int32_t> ideographic_ranges = {},
                     std::span<const std::int32_t> unspaced_ranges = {});

    bool is_word(std::uint32_t code_point) const { return has(word_, code_point); }
    bool is_space(std::uint32_t code_point) const { return has(space_, code_point); }
    bool knows_scripts() const { return !ideographic_.empty() || !unspaced_.empty(); }
    Script script(std::uint32_t code_point) const {
        if (code_point < first_of_scripts_) return Script::spaced;  // nearly all of most texts
        if (has(ideographic_, code_point)) return Script::ideographic;
        return has(unspaced_, code_point) ? Script::unspaced : Script::spaced;
    }

private:
    static std::vector<std::uint64_t> bits_of(std::span<const std::int32_t> ranges);
    static bool has(const std::vector<std::uint64_t>& bits, std::uint32_t code_point) {
        const std::size_t word = code_point >> 6;
        return word < bits.size() && ((bits[word] >> (code_point & 63)) & 1) != 0;
    }

    std::vector<std::uint64_t> word_;
    std::vector<std::uint64_t> space_;
    std::vector<std::uint64_t> ideographic_;
    std::vector<std::uint64_t> unspaced_;
    std::uint32_t first_of_scripts_ = UINT32_MAX;
};

struct CodePoint {
    std::uint32_t value;
    std::uint32_t n_bytes;
};

// Read the code point at `position` of valid UTF-8: Python's own encoder made it.
inline CodePoint decode(std::string_view text, std::size_t position) {
    const auto byte = [&](std::size_t i) {
        return static_cast<std::uint32_t>(static_cast<unsigned char>(text[position + i]));
    };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return {first, 1};
    if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
    if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
    return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

}  // namespace longtail
