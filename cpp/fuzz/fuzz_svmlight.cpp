#include "fuzz/text_property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    longtail::RowFormat format;
    format.n_header_numbers = 0;
    format.has_comments = true;
    format.first_feature_id = size > 2 && data[2] % 2 == 1 ? 1 : 0;
    return longtail::fuzz::check_text(data, size, format);
}
