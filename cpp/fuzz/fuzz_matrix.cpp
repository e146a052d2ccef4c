#include "fuzz/text_property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    longtail::RowFormat format;
    format.n_header_numbers = 2;
    format.has_labels = false;
    return longtail::fuzz::check_text(data, size, format);
}
