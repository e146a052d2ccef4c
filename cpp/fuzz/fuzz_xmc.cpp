#include "fuzz/text_property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return longtail::fuzz::check_text(data, size, {});
}
