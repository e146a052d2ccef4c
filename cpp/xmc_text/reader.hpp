#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/control.hpp"
#include "xmc_text/row_arrays.hpp"
#include "xmc_text/row_parser.hpp"
#include "xmc_text/source.hpp"

namespace longtail {

// Reads text in one of the dialects of RowFormat: a whole file by read_file, or a stream by any number of feeds; then
// finish. Errors are std::invalid_argument that name file, line and column, always those of the first error in the text.
//
// The text is cut into pieces at line ends. Workers parse pieces into their own blocks and append them in the order of
// the text, so the result does not depend on the number of threads, and memory beyond the arrays is one piece per worker.
class TextReader {
public:
    static constexpr std::int64_t kPieceBytes = 1 << 18;

    TextReader(std::string name, const RowFormat& format, std::int64_t piece_bytes = kPieceBytes);

    void read_file(const std::filesystem::path& path, int n_threads, Control& control);
    // Parse the next bytes of a stream, cut anywhere.
    void feed(std::span<const char> bytes, int n_threads, Control& control);
    // How long the whole text may be: the arrays are then laid out at once. A hint, not a promise.
    void expect_bytes(std::int64_t n_bytes) { expected_bytes_ = n_bytes; }
    TextRows finish(Control& control);

private:
    struct Worker {
        std::vector<char> text;
        RowBlock block;
    };

    void read_header(const std::string& line);
    void feed_lines(std::span<const char> lines, int n_threads, Control& control);
    void keep_partial_line(std::span<const char> bytes);
    void parse_body(Source& source, std::int64_t body_begin, int n_threads, Control& control);
    void parse_piece(Source& source, const Pieces& pieces, std::int64_t piece, int worker);
    std::int64_t admit(const RowBlock& block, std::int64_t n_bytes);
    [[noreturn]] void refuse(std::int64_t line, std::int64_t column, const std::string& what) const;

    const std::string name_;
    RowFormat format_;
    const std::int64_t piece_bytes_;
    bool has_header_;                  // or needs none
    std::int64_t n_header_rows_ = -1;  // -1: any number of rows
    std::int64_t n_lines_ = 0;
    std::int64_t n_bytes_ = 0;
    std::int64_t expected_bytes_ = 0;
    std::int64_t max_feature_id_ = -1;
    std::int64_t max_label_id_ = -1;
    std::string partial_line_;
    std::vector<Worker> workers_;
    RowArrays arrays_;
    std::exception_ptr error_;
};

}  // namespace longtail
