// The reader of files: the same rows, or the same error, as from a stream of the same bytes.
#include <unistd.h>
#include <cstdio>
#include <string>

#include "fuzz/text_property.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace longtail;
    if (size < 2) return 0;
    static const std::string path = "/dev/shm/longtail_fuzz_file." + std::to_string(getpid());
    const std::span<const char> text(reinterpret_cast<const char*>(data) + 2, size - 2);
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    fuzz::require(file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size());
    std::fclose(file);

    const RowFormat format;
    fuzz::Outcome streamed = fuzz::read(text, format, text.size() + 1, TextReader::kPieceBytes, 1);
    fuzz::Outcome filed;
    try {
        Control control;
        TextReader reader("text", format, data[0] == 0 ? TextReader::kPieceBytes : data[0]);
        reader.read_file(path, data[1] < 8 ? 3 : 1, control);
        filed.rows = reader.finish(control);
    } catch (const std::invalid_argument& error) {
        filed.error = error.what();
    }
    fuzz::require_same(streamed, filed);
    return 0;
}
