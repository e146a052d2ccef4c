#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace longtail {

// What a line of text may look like. The same parser reads three dialects:
//   XMC        l1,l2 f:v f:v     header "n_rows n_features n_labels"
//   matrix     f:v f:v           header "n_rows n_columns" (each half of the two-file layout)
//   svmlight   l1,l2 f:v f:v     no header, # comments, features may begin at 1
struct RowFormat {
    int n_header_numbers = 3;           // 3, 2 or 0 (no header)
    bool has_labels = true;             // a line begins with its labels
    bool has_comments = false;          // '#' ends a line; empty lines are skipped
    std::int32_t first_feature_id = 0;  // 1 where the file counts features from one
    std::int64_t n_features = -1;       // ids must be below; -1: any int32. A header overrides both
    std::int64_t n_labels = -1;
    std::int64_t max_line_bytes = std::int64_t{1} << 28;
};

// The rows of one piece of text, and where it went wrong. Buffers are kept from piece to piece.
struct RowBlock {
    std::unique_ptr<std::int32_t[]> feature_ids;
    std::unique_ptr<float[]> values;
    std::unique_ptr<std::int32_t[]> label_ids;
    std::vector<std::int64_t> feature_ends;  // one per row: where its features end
    std::vector<std::int64_t> label_ends;
    std::int64_t n_features = 0;  // used of the buffers
    std::int64_t n_labels = 0;
    std::int64_t max_feature_id = -1;
    std::int64_t max_label_id = -1;
    std::int64_t n_lines = 0;

    std::int64_t n_rows() const { return static_cast<std::int64_t>(feature_ends.size()); }

    // Empty when all is well; else what is wrong at which line of the piece and which column, both from 1.
    std::string error;
    std::int64_t error_line = 0;
    std::int64_t error_column = 0;

    // Forget the rows and make room for any piece of n_bytes.
    void reset(std::int64_t n_bytes);

private:
    std::int64_t capacity_bytes_ = -1;
};

// Parse whole lines: text must end with '\n' and be followed by kTextPadding readable bytes. Never throws for what the
// text says; the first error ends the block and is noted in it.
void parse_rows(const char* begin, const char* end, const RowFormat& format, RowBlock& block);

}  // namespace longtail
