// Numbers: as strtof reads them, or refused.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "xmc_text/numbers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace longtail;
    std::string text(reinterpret_cast<const char*>(data), size);
    const std::size_t length = text.find('\n');
    if (length != std::string::npos) text.resize(length);
    const std::string padded = text + '\n' + std::string(kTextPadding, '5');

    const ParsedFloat parsed = parse_float(padded.data());
    if (parsed.error == NumberError::none) {
        const std::string accepted = padded.substr(0, parsed.end - padded.data());
        char* strtof_end = nullptr;
        const float expected = std::strtof(accepted.c_str(), &strtof_end);
        if (*strtof_end != '\0' || std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(parsed.value))
            std::abort();
        char out[kMaxFloatLength + kTextPadding + 1] = {};
        if (!std::isfinite(parsed.value)) std::abort();
        if (write_float(parsed.value, out) > out + kMaxFloatLength) std::abort();
        if (std::bit_cast<std::uint32_t>(parse_float(out).value) != std::bit_cast<std::uint32_t>(parsed.value))
            std::abort();
    } else if (parsed.error == NumberError::too_large) {
        if (!std::isinf(std::strtof(padded.c_str(), nullptr))) std::abort();
    }
    const ParsedId id = parse_id(padded.data());
    if (id.end < padded.data() || id.end > padded.data() + text.size()) std::abort();
    return 0;
}
