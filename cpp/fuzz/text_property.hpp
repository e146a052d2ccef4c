#pragma once

// What must hold for any bytes given to the reader, in any dialect: no crash, no undefined behaviour, and
//   - the same rows, or the same error, however the bytes are cut and however many threads parse them;
//   - rows that are a sound CSR matrix;
//   - rows that survive being written and read again.
// The first four bytes of an input choose the cuts; the rest is the text.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/views.hpp"
#include "xmc_text/reader.hpp"
#include "xmc_text/writer.hpp"

namespace longtail::fuzz {

struct Outcome {
    std::string error;
    TextRows rows;
};

inline Outcome read(std::span<const char> text, const RowFormat& format, std::size_t block_bytes,
                    std::int64_t piece_bytes, int n_threads) {
    Control control;
    TextReader reader("text", format, piece_bytes);
    try {
        for (std::size_t at = 0; at < text.size(); at += block_bytes)
            reader.feed(text.subspan(at, std::min(block_bytes, text.size() - at)), n_threads, control);
        return {"", reader.finish(control)};
    } catch (const std::invalid_argument& error) {
        return {error.what(), {}};
    }
}

template <class T>
bool same(GrowingArray<T>& a, GrowingArray<T>& b) {
    return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline void require(bool holds) {
    if (!holds) std::abort();
}

inline void require_same(Outcome& a, Outcome& b) {
    require(a.error == b.error);
    require(a.rows.n_rows == b.rows.n_rows && a.rows.n_features == b.rows.n_features &&
            a.rows.n_labels == b.rows.n_labels);
    require(same(a.rows.feature_indptr, b.rows.feature_indptr) && same(a.rows.label_indptr, b.rows.label_indptr));
    require(same(a.rows.feature_indices, b.rows.feature_indices) && same(a.rows.label_indices, b.rows.label_indices));
    require(same(a.rows.feature_values, b.rows.feature_values));
}

inline std::string write_again(TextRows& rows, const RowFormat& format) {
    const CsrView x{rows.n_rows,
                    rows.n_features,
                    {rows.feature_indptr.data(), rows.feature_indptr.size()},
                    {rows.feature_indices.data(), rows.feature_indices.size()},
                    {rows.feature_values.data(), rows.feature_values.size()}};
    const LabelsView y{rows.n_rows,
                       format.has_labels ? rows.n_labels : 0,
                       {rows.label_indptr.data(), rows.label_indptr.size()},
                       {rows.label_indices.data(), rows.label_indices.size()}};
    check_csr(x, "X");
    check_labels(y, "Y");
    std::string text;
    if (format.n_header_numbers >= 2) text = std::to_string(rows.n_rows) + " " + std::to_string(rows.n_features);
    if (format.n_header_numbers == 3) text += " " + std::to_string(rows.n_labels);
    if (format.n_header_numbers > 0) text += "\n";
    Control control;
    for (const auto& part : write_rows(x, y, {format.has_labels, format.first_feature_id}, 0, rows.n_rows, 1, control))
        text += part;
    return text;
}

inline int check_text(const std::uint8_t* data, std::size_t size, RowFormat format) {
    if (size < 4) return 0;
    const std::span<const char> text(reinterpret_cast<const char*>(data) + 4, size - 4);
    const std::size_t block_bytes = data[0] == 0 ? 4096 : data[0];
    const std::int64_t piece_bytes = data[1] == 0 ? TextReader::kPieceBytes : data[1];
    const int n_threads = data[2] < 8 ? 3 : 1;  // threads are slow to start, so few inputs get them
    if (data[3] > 0) format.max_line_bytes = 64 * data[3];

    Outcome whole = read(text, format, text.size() + 1, TextReader::kPieceBytes, 1);
    Outcome cut = read(text, format, block_bytes, piece_bytes, n_threads);
    // A line over the limit is noticed at its end or on the way, depending on the cuts; all else is the same.
    if (whole.error.find("longer than") != std::string::npos || cut.error.find("longer than") != std::string::npos)
        return 0;
    require_same(whole, cut);
    if (!whole.error.empty()) return 0;

    if (format.n_header_numbers == 0) {
        format.n_features = whole.rows.n_features;
        format.n_labels = whole.rows.n_labels;
    }
    format.max_line_bytes = RowFormat{}.max_line_bytes;
    const std::string written = write_again(whole.rows, format);
    Outcome again = read(written, format, written.size() + 1, TextReader::kPieceBytes, 1);
    require_same(whole, again);
    return 0;
}

}  // namespace longtail::fuzz
