#include "xmc_text/reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/parallel_for.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kMaxHeaderBytes = 4096;
constexpr const char* kHeaderForms[] = {"", "", "n_rows n_columns", "n_rows n_features n_labels"};

bool is_header_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

TextReader::TextReader(std::string name, const RowFormat& format, std::int64_t piece_bytes)
    : name_(std::move(name)), format_(format), piece_bytes_(piece_bytes), has_header_(format.n_header_numbers == 0) {}

void TextReader::refuse(std::int64_t line, std::int64_t column, const std::string& what) const {
    throw std::invalid_argument(name_ + ", line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
                                what);
}

void TextReader::read_header(const std::string& line) {
    const char* next = line.data();
    const char* const end = next + line.size();
    const auto column = [&] { return next - line.data() + 1; };
    const std::string wanted = std::string("expected the header \"") + kHeaderForms[format_.n_header_numbers] + "\"";
    if (line.starts_with("\xEF\xBB\xBF")) next += 3;  // the byte order mark some editors leave
    std::vector<std::int64_t> numbers;
    for (;;) {
        while (next < end && is_header_blank(*next)) ++next;
        if (next == end) break;
        std::int64_t number = -1;
        const auto [after, error] = std::from_chars(next, end, number);
        if (error == std::errc::result_out_of_range) refuse(1, column(), "the number is too large");
        if (error != std::errc() || number < 0 || (after < end && !is_header_blank(*after)))
            refuse(1, column(), wanted + ", got something that is no count");
        // Columns are int32 everywhere. Rows are counted as they come, so no claim about them costs memory.
        if (!numbers.empty() && number > INT32_MAX)
            refuse(1, column(), "more than 2147483647 columns are not supported");
        numbers.push_back(number);
        next = after;
    }
    if (static_cast<int>(numbers.size()) != format_.n_header_numbers) {
        const bool is_half = numbers.size() == 2;
        refuse(1, 1,
               wanted + ", got " + std::to_string(numbers.size()) + " numbers" +
                   (is_half ? "; a file of the two-file layout is read together with its other half" : ""));
    }
    n_header_rows_ = numbers[0];
    format_.n_features = numbers[1];
    if (format_.n_header_numbers == 3) format_.n_labels = numbers[2];
    has_header_ = true;
    n_lines_ = 1;
}

void TextReader::read_file(const std::filesystem::path& path, int n_threads, Control& control) {
    FileSource source(path, n_threads);
    std::int64_t body_begin = 0;
    if (!has_header_ && source.size() > 0) {
        std::string start(std::min(kMaxHeaderBytes, source.size()), '\0');
        start.resize(source.read(0, 0, start.data(), static_cast<std::int64_t>(start.size())));
        const std::size_t length = start.find('\n');
        if (length == std::string::npos && source.size() > kMaxHeaderBytes)
            refuse(1, kMaxHeaderBytes, "the header line is too long");
        read_header(start.substr(0, length));
        body_begin = length == std::string::npos ? source.size() : static_cast<std::int64_t>(length) + 1;
    }
    expected_bytes_ = source.size() - body_begin;
    parse_body(source, body_begin, n_threads, control);
}

void TextReader::feed(std::span<const char> bytes, int n_threads, Control& control) {
    // A line begun in an earlier feed ends here, or goes on; so does the header.
    while (!bytes.empty() && (!has_header_ || !partial_line_.empty())) {
        const auto length = static_cast<std::size_t>(std::find(bytes.begin(), bytes.end(), '\n') - bytes.begin());
        keep_partial_line(bytes.first(length));
        if (length == bytes.size()) return;
        bytes = bytes.subspan(length + 1);
        const std::string line = std::exchange(partial_line_, {});
        if (has_header_) {
            feed_lines(line, n_threads, control);
        } else {
            read_header(line);
        }
    }
    std::size_t n_whole = bytes.size();
    while (n_whole > 0 && bytes[n_whole - 1] != '\n') --n_whole;
    feed_lines(bytes.first(n_whole), n_threads, control);
    keep_partial_line(bytes.subspan(n_whole));
}

void TextReader::feed_lines(std::span<const char> lines, int n_threads, Control& control) {
    MemorySource source(lines);
    parse_body(source, 0, n_threads, control);
}

void TextReader::keep_partial_line(std::span<const char> bytes) {
    partial_line_.append(bytes.begin(), bytes.end());
    const std::int64_t limit = has_header_ ? format_.max_line_bytes : kMaxHeaderBytes;
    if (static_cast<std::int64_t>(partial_line_.size()) > limit)
        refuse(n_lines_ + 1, limit, "the line is longer than " + std::to_string(limit) + " bytes");
}

void TextReader::parse_body(Source& source, std::int64_t body_begin, int n_threads, Control& control) {
    if (static_cast<int>(workers_.size()) < n_threads) workers_.resize(n_threads);
    if (workers_.empty()) workers_.resize(1);
    arrays_.begin_sequence();
    const Pieces pieces{body_begin, piece_bytes_, format_.max_line_bytes};
    parallel_for(pieces.count(source), n_threads, control,
                 [&](std::int64_t piece, int worker) { parse_piece(source, pieces, piece, worker); });
    if (error_) std::rethrow_exception(error_);
}

void TextReader::parse_piece(Source& source, const Pieces& pieces, std::int64_t piece, int worker) {
    try {
        auto& [text, block] = workers_[worker];
        const PieceLines found = read_piece(source, pieces, piece, worker, text);
        parse_rows(found.lines.data(), found.lines.data() + found.lines.size(), format_, block);
        if (found.is_cut && block.error.empty()) {
            block.error = "the line is longer than " + std::to_string(format_.max_line_bytes) + " bytes";
            block.error_line = block.n_lines + 1;
            block.error_column = format_.max_line_bytes;
        }
        const auto n_bytes = static_cast<std::int64_t>(found.lines.size());
        arrays_.append(piece, block, [&](const RowBlock& ready) { return admit(ready, n_bytes); });
    } catch (...) {
        // Kept, not thrown, and the others told to give up: they may be waiting for this piece's turn. Of several
        // errors in the text the first is kept, because later pieces do not get their turn.
        if (!arrays_.stop()) return;
        error_ = std::current_exception();
    }
}

std::int64_t TextReader::admit(const RowBlock& block, std::int64_t n_bytes) {
    std::int64_t n_rows = block.n_rows();
    if (n_header_rows_ >= 0 && n_rows > n_header_rows_ - arrays_.n_rows()) {
        // With a header, every line is a row. Past the last row only blank lines are allowed, and ignored.
        n_rows = n_header_rows_ - arrays_.n_rows();
        for (std::int64_t row = n_rows; row < block.n_rows(); ++row) {
            const bool is_blank = block.feature_ends[row] == (row > 0 ? block.feature_ends[row - 1] : 0) &&
                                  block.label_ends[row] == (row > 0 ? block.label_ends[row - 1] : 0);
            if (!is_blank)
                refuse(n_lines_ + row + 1, 1,
                       "more rows than the " + std::to_string(n_header_rows_) + " that the header promises");
        }
    }
    if (!block.error.empty()) refuse(n_lines_ + block.error_line, block.error_column, block.error);
    n_lines_ += block.n_lines;
    n_bytes_ += n_bytes;
    max_feature_id_ = std::max(max_feature_id_, block.max_feature_id);
    max_label_id_ = std::max(max_label_id_, block.max_label_id);
    if (expected_bytes_ > n_bytes_ && n_bytes_ > 0)
        arrays_.expect_growth(1.02 * static_cast<double>(expected_bytes_) / static_cast<double>(n_bytes_));
    else
        arrays_.expect_growth(1.5);
    return n_rows;
}

TextRows TextReader::finish(Control& control) {
    if (!partial_line_.empty()) {
        const std::string line = std::exchange(partial_line_, {});
        if (has_header_)
            feed_lines(line, 1, control);
        else
            read_header(line);
    }
    if (!has_header_)
        refuse(
            1, 1,
            std::string("the file is empty; expected the header \"") + kHeaderForms[format_.n_header_numbers] + "\"");
    if (n_header_rows_ > arrays_.n_rows())
        refuse(n_lines_ + 1, 1,
               "the file ends after " + std::to_string(arrays_.n_rows()) + " rows, but its header promises " +
                   std::to_string(n_header_rows_));
    TextRows rows = arrays_.release();
    // A header, or the caller, says how many there are; else as many as occur.
    rows.n_features = format_.n_features >= 0 ? format_.n_features : max_feature_id_ + 1;
    rows.n_labels = format_.n_labels >= 0 ? format_.n_labels : max_label_id_ + 1;
    return rows;
}

}  // namespace longtail
