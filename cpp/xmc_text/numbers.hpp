#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace longtail {

// Text to numbers and back, eight characters at a time. The readers below may look at kTextPadding bytes past the end of
// the text they are given: every text buffer of this folder has them.
inline constexpr int kTextPadding = 16;

// Eight characters as one word, the first in the lowest byte.
inline std::uint64_t load_characters(const char* text) {
    std::uint64_t word;
    std::memcpy(&word, text, sizeof word);
    if constexpr (std::endian::native == std::endian::big) {
        std::uint64_t swapped = 0;
        for (int i = 0; i < 8; ++i) swapped |= ((word >> (8 * i)) & 0xFF) << (56 - 8 * i);
        word = swapped;
    }
    return word;
}

// How many of the eight characters are digits before the first that is not. A non-digit may carry into later bytes,
// never into earlier ones, so the first is found rightly.
inline int count_digits(std::uint64_t word) {
    const std::uint64_t offsets = word ^ 0x3030303030303030ULL;
    const std::uint64_t others = ((offsets + 0x0606060606060606ULL) | offsets) & 0xF0F0F0F0F0F0F0F0ULL;
    return std::countr_zero(others) >> 3;
}

// The number its first n_digits characters (1 to 8) spell: neighbours are added up in pairs, fours, eights.
inline std::uint32_t digits_to_number(std::uint64_t word, int n_digits) {
    word = (word & 0x0F0F0F0F0F0F0F0FULL) << (64 - 8 * n_digits);
    word = (word * 2561) >> 8;
    word = ((word & 0x00FF00FF00FF00FFULL) * 6553601) >> 16;
    return static_cast<std::uint32_t>(((word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL) >> 32);
}

enum class NumberError { none, not_a_number, too_large };

struct ParsedId {
    std::int64_t id;  // -1 when no digit was found; kTooLargeId when the number exceeds int32
    const char* end;
};
inline constexpr std::int64_t kTooLargeId = std::int64_t{1} << 40;

ParsedId parse_long_id(const char* text);

// A decimal number without sign.
inline ParsedId parse_id(const char* text) {
    const std::uint64_t word = load_characters(text);
    const int n_digits = count_digits(word);
    if (n_digits == 8) [[unlikely]]
        return parse_long_id(text);
    if (n_digits == 0) return {-1, text};
    return {digits_to_number(word, n_digits), text + n_digits};
}

struct ParsedFloat {
    float value;
    const char* end;
    NumberError error;
};

ParsedFloat parse_any_float(const char* text);

inline constexpr double kPowersOfTen[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
inline constexpr std::uint64_t kIntegerPowersOfTen[] = {1,       10,        100,        1'000,      10'000,
                                                        100'000, 1'000'000, 10'000'000, 100'000'000};

// A float32, rounded as strtof rounds. nan, inf, hexadecimal and what exceeds float32 are errors; what is too small for
// float32 becomes 0.
//
// Short decimals take the fast way: digits.digits with at most 7 + 8 digits is an integer below 2^53 over a power of ten
// that double holds, so one division rounds it rightly to double. Rounding that to float is right too, unless the double
// lies exactly half-way between two floats, where the rounding already lost may decide: those take the slow way.
inline ParsedFloat parse_float(const char* text) {
    const char* next = text + (*text == '-' ? 1 : 0);
    std::uint64_t word = load_characters(next);
    int n_digits = count_digits(word);
    if (n_digits == 0 || n_digits == 8) [[unlikely]]
        return parse_any_float(text);
    std::uint64_t mantissa = digits_to_number(word, n_digits);
    next += n_digits;
    int n_decimals = 0;
    if (*next == '.') {
        word = load_characters(++next);
        n_decimals = count_digits(word);
        if (n_decimals == 0) [[unlikely]]
            return parse_any_float(text);
        next += n_decimals;
        mantissa = mantissa * kIntegerPowersOfTen[n_decimals] + digits_to_number(word, n_decimals);
    }
    const double exact = static_cast<double>(mantissa) / kPowersOfTen[n_decimals];
    const bool is_half_way = (std::bit_cast<std::uint64_t>(exact) & 0x1FFFFFFFULL) == 0x10000000ULL;
    const bool goes_on = static_cast<unsigned char>(*next - '0') < 10 || (*next | 0x20) == 'e' || *next == '.';
    if (is_half_way || goes_on) [[unlikely]]
        return parse_any_float(text);
    const auto value = static_cast<float>(exact);
    return {*text == '-' ? -value : value, next, NumberError::none};
}

// Longest text write_float produces, and the shortest text that reads back as the same float.
inline constexpr int kMaxFloatLength = 24;
char* write_float(float value, char* out);
char* write_id(std::int64_t id, char* out);

}  // namespace longtail
