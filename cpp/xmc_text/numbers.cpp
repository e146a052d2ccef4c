#include "xmc_text/numbers.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <system_error>

namespace longtail {
namespace {

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// The text is a well-formed decimal. Underflow gives 0, overflow infinity.
float round_decimal(const char* begin, const char* end) {
    float value = 0;
#if defined(__cpp_lib_to_chars)
    std::from_chars(begin, end, value);
#else  // libc++ before 20 has no from_chars for floats
    std::istringstream stream(std::string(begin, end));
    stream.imbue(std::locale::classic());
    stream >> value;
    if (std::abs(value) == std::numeric_limits<float>::max()) value *= stream.fail() ? 2.0F : 1.0F;
#endif
    return value;
}

}  // namespace

ParsedId parse_long_id(const char* text) {
    std::int64_t id = 0;
    for (; is_digit(*text); ++text) {
        if (id < kTooLargeId) id = id * 10 + (*text - '0');
    }
    return {id > std::numeric_limits<std::int32_t>::max() ? kTooLargeId : id, text};
}

ParsedFloat parse_any_float(const char* text) {
    const char* next = text + (*text == '-' || *text == '+' ? 1 : 0);
    const char* const digits = next;  // from_chars knows no plus sign
    // The decimal exponent of the first digit that is not 0 tells overflow from underflow: from_chars does not.
    std::int64_t first_digit_exponent = 0;
    bool has_nonzero = false;
    bool has_digits = false;
    for (; is_digit(*next); ++next) {
        has_digits = true;
        first_digit_exponent += has_nonzero;
        has_nonzero = has_nonzero || *next != '0';
    }
    if (*next == '.') {
        for (++next; is_digit(*next); ++next) {
            has_digits = true;
            if (!has_nonzero) --first_digit_exponent;
            has_nonzero = has_nonzero || *next != '0';
        }
    }
    if (!has_digits) return {0, text, NumberError::not_a_number};
    const char* mantissa_end = next;
    if ((*next | 0x20) == 'e') {
        ++next;
        const bool is_negative = *next == '-';
        if (*next == '-' || *next == '+') ++next;
        if (!is_digit(*next)) return {0, mantissa_end, NumberError::not_a_number};
        const std::int64_t exponent = parse_long_id(next).id;
        while (is_digit(*next)) ++next;
        first_digit_exponent += is_negative ? -exponent : exponent;
    }
    const float sign = *text == '-' ? -1.0F : 1.0F;
    if (!has_nonzero || first_digit_exponent < -60) return {sign * 0.0F, next, NumberError::none};
    if (first_digit_exponent > 60) return {0, next, NumberError::too_large};
    const float value = round_decimal(digits, next);
    // Some libraries leave the value untouched when it is out of range, which it is on one side only.
    if (std::isinf(value) || (value == 0 && first_digit_exponent > 0)) return {0, next, NumberError::too_large};
    return {sign * value, next, NumberError::none};
}

char* write_float(float value, char* out) {
#if defined(__cpp_lib_to_chars)
    return std::to_chars(out, out + kMaxFloatLength, value).ptr;
#else
    return out + std::snprintf(out, kMaxFloatLength, "%.9g", static_cast<double>(value));
#endif
}

char* write_id(std::int64_t id, char* out) { return std::to_chars(out, out + 20, id).ptr; }

}  // namespace longtail
