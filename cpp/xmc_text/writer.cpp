#include "xmc_text/writer.hpp"

#include <algorithm>

#include "base/parallel_for.hpp"
#include "xmc_text/numbers.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerPart = 256;
constexpr std::int64_t kMaxIdLength = 11;

std::int64_t max_line_bytes(const CsrView& x, const LabelsView& y, bool has_labels, std::int64_t row) {
    const std::int64_t label_bytes = has_labels ? y.row_size(row) * (kMaxIdLength + 1) : 0;
    return label_bytes + x.row_size(row) * (kMaxIdLength + kMaxFloatLength + 2) + 2;
}

char* write_row(const CsrView& x, const LabelsView& y, const LineFormat& format, std::int64_t row, char* out) {
    if (format.has_labels) {
        const char* const begin = out;
        for (const std::int32_t label_id : y.row_labels(row)) {
            if (out != begin) *out++ = ',';
            out = write_id(label_id, out);
        }
        *out++ = ' ';
    }
    const auto feature_ids = x.row_indices(row);
    const auto values = x.row_values(row);
    for (std::size_t i = 0; i < feature_ids.size(); ++i) {
        if (i > 0) *out++ = ' ';
        out = write_id(std::int64_t{feature_ids[i]} + format.first_feature_id, out);
        *out++ = ':';
        out = write_float(values[i], out);
    }
    *out++ = '\n';
    return out;
}

}  // namespace

std::vector<std::string> write_rows(const CsrView& x, const LabelsView& y, const LineFormat& format,
                                    std::int64_t first_row, std::int64_t last_row, int n_threads, Control& control) {
    const std::int64_t n_parts = (last_row - first_row + kRowsPerPart - 1) / kRowsPerPart;
    std::vector<std::string> parts(n_parts);
    parallel_for(n_parts, n_threads, control, [&](std::int64_t part, int) {
        const std::int64_t begin = first_row + part * kRowsPerPart;
        const std::int64_t end = std::min(begin + kRowsPerPart, last_row);
        std::vector<char> line;
        for (std::int64_t row = begin; row < end; ++row) {
            line.resize(std::max<std::int64_t>(max_line_bytes(x, y, format.has_labels, row),
                                               static_cast<std::int64_t>(line.size())));
            parts[part].append(line.data(), write_row(x, y, format, row, line.data()));
        }
    });
    return parts;
}

}  // namespace longtail
