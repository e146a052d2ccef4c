#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/random.hpp"
#include "xmc_text/numbers.hpp"

using namespace longtail;

namespace {

// Text in a buffer with the padding that the readers may look at.
ParsedFloat parse(const std::string& text) {
    static std::string buffer;
    buffer = text + '\n' + std::string(kTextPadding, '9');
    ParsedFloat parsed = parse_float(buffer.data());
    parsed.end = parsed.error == NumberError::none ? text.data() + (parsed.end - buffer.data()) : nullptr;
    return parsed;
}

void check_like_strtof(const std::string& text) {
    const float expected = std::strtof(text.c_str(), nullptr);
    const ParsedFloat parsed = parse(text);
    CAPTURE(text);
    if (std::isinf(expected)) {
        CHECK(parsed.error == NumberError::too_large);
        return;
    }
    REQUIRE(parsed.error == NumberError::none);
    CHECK(parsed.end == text.data() + text.size());
    CHECK(std::bit_cast<std::uint32_t>(parsed.value) == std::bit_cast<std::uint32_t>(expected));
}

std::string printed(const char* format, double value) {
    char text[512];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

std::string random_digits(Random& random, std::uint32_t max_length) {
    std::string digits;
    for (std::uint32_t n = random.below(max_length + 1); n > 0; --n)
        digits += static_cast<char>('0' + random.below(10));
    return digits;
}

}  // namespace

TEST_CASE("every float written in any usual way is read as strtof reads it") {
    Random random(1, 0);
    for (int i = 0; i < 200'000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
        if (!std::isfinite(value)) continue;
        check_like_strtof(printed("%.9g", static_cast<double>(value)));
        if (i % 8 == 0) {
            for (const char* format : {"%.6f", "%.3g", "%.17g", "%e", "%.30f"})
                check_like_strtof(printed(format, static_cast<double>(value)));
        }
    }
}

TEST_CASE("decimals of any length and exponent are read as strtof reads them") {
    Random random(2, 0);
    for (int i = 0; i < 200'000; ++i) {
        std::string text = random.coin() ? "-" : "";
        const std::string whole = random_digits(random, i % 3 == 0 ? 25 : 8);
        const std::string decimals = random_digits(random, i % 5 == 0 ? 40 : 9);
        text += whole.empty() && decimals.empty() ? "7" : whole;
        if (!decimals.empty() || random.below(8) == 0) text += "." + decimals;
        if (text.back() == '.' && whole.empty() && decimals.empty()) text = "3.";
        if (random.below(4) == 0) text += (random.coin() ? "e" : "E-") + std::to_string(random.below(60));
        check_like_strtof(text);
    }
}

TEST_CASE("decimals exactly half-way between two floats, and next to it, are rounded as strtof rounds") {
    Random random(3, 0);
    for (int i = 0; i < 20'000; ++i) {
        // The midpoint of two neighbouring floats has at most 25 significant bits; all of its digits are printed.
        const auto mantissa = static_cast<double>((1U << 24) + 2 * random.below(1U << 23) + 1);
        const double midpoint = std::ldexp(mantissa, -static_cast<int>(random.below(40)));
        const std::string text = printed("%.60f", midpoint);
        const std::string shorter = text.substr(0, text.find_last_not_of('0') + 1);
        check_like_strtof(shorter);
        check_like_strtof(shorter + "0000000000000000000000000001");
        check_like_strtof(printed("%.20g", std::nextafter(midpoint, 0.0)));
    }
    check_like_strtof("16777217");
    check_like_strtof("16777217.0");
    check_like_strtof("1.00000017881393432617187499");  // NumPy rounds this one twice, and wrongly
    check_like_strtof("1.00000017881393432617187500");
    check_like_strtof("1.00000017881393432617187501");
}

TEST_CASE("the ends of the range: the largest floats, subnormals, underflow to zero") {
    for (const char* text : {"3.4028234e38",
                             "3.4028235e38",
                             "340282346638528859811704183484516925440",
                             "3.4028236e38",
                             "1e39",
                             "1e40",
                             "9e99",
                             "1e-37",
                             "1.17549435e-38",
                             "1e-40",
                             "1.4e-45",
                             "7.1e-46",
                             "7e-46",
                             "1e-46",
                             "1e-60",
                             "1e-400",
                             "-1e-400",
                             "0",
                             "-0",
                             "0.0",
                             "-0.0e99",
                             "0e999999999999",
                             "1e-999999999999",
                             "00000000001",
                             "000000000000000000000.1",
                             "1e+2",
                             "1.e1"})
        check_like_strtof(text);
    CHECK(parse(std::string("0.") + std::string(5000, '0') + "1").value == 0.0F);
    CHECK(parse("1" + std::string(5000, '0')).error == NumberError::too_large);
    CHECK(parse("0." + std::string(5000, '0') + "1e5001").value == 1.0F);
}

TEST_CASE("what is no finite decimal number is refused") {
    for (const char* text :
         {"", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e-", "nan", "inf", "-inf", "NaN", "infinity", "--1", "+-1"})
        CHECK(parse(text).error == NumberError::not_a_number);
    CHECK(parse("0x10").end != nullptr);  // reads the 0; the parser of rows then refuses the x
}

TEST_CASE("a written float reads back as the same float") {
    Random random(4, 0);
    char text[kMaxFloatLength + kTextPadding + 1] = {};
    int longest = 0;
    for (int i = 0; i < 200'000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random.next()));
        if (!std::isfinite(value)) continue;
        char* const end = write_float(value, text);
        *end = ' ';
        longest = std::max(longest, static_cast<int>(end - text));
        const ParsedFloat parsed = parse_float(text);
        REQUIRE(parsed.end == end);
        REQUIRE(std::bit_cast<std::uint32_t>(parsed.value) == std::bit_cast<std::uint32_t>(value));
    }
    CHECK(longest < kMaxFloatLength);
}

TEST_CASE("ids are read up to int32 and said to be too large beyond") {
    const auto id_of = [](const std::string& text) {
        return parse_id((text + ':' + std::string(kTextPadding, '0')).data()).id;
    };
    for (const std::int64_t id : {0LL, 7LL, 1234567LL, 12345678LL, 123456789LL, 2147483647LL})
        CHECK(id_of(std::to_string(id)) == id);
    CHECK(id_of("2147483648") == kTooLargeId);
    CHECK(id_of("99999999999999999999999999999999") == kTooLargeId);
    CHECK(id_of("00000000000000000000000000000012") == 12);
    CHECK(id_of("") == -1);
    CHECK(id_of("x1") == -1);
}
