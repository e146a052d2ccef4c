#include "base/views.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace longtail {
namespace {

[[noreturn]] void refuse(const char* owner, const std::string& rule) {
    throw std::invalid_argument(std::string(owner) + ": " + rule);
}

void check_pattern(std::int64_t n_rows, std::int64_t n_cols, std::span<const std::int64_t> indptr,
                   std::span<const std::int32_t> indices, const char* owner) {
    if (n_rows < 0 || n_cols < 0) refuse(owner, "shape must not be negative");
    if (n_cols > INT32_MAX) refuse(owner, "more than 2147483647 columns are not supported");
    if (static_cast<std::int64_t>(indptr.size()) != n_rows + 1)
        refuse(owner, "indptr must have n_rows + 1 entries, got " + std::to_string(indptr.size()) + " for " +
                          std::to_string(n_rows) + " rows");
    if (indptr[0] != 0) refuse(owner, "indptr must begin with 0, got " + std::to_string(indptr[0]));
    const auto n_entries = static_cast<std::int64_t>(indices.size());
    for (std::int64_t row = 0; row < n_rows; ++row)
        if (indptr[row + 1] < indptr[row] || indptr[row + 1] > n_entries)
            refuse(owner, "indptr must not decrease nor pass the number of entries, row " + std::to_string(row));
    if (indptr[n_rows] != n_entries)
        refuse(owner, "indptr must end with the number of entries " + std::to_string(n_entries) + ", got " +
                          std::to_string(indptr[n_rows]));
    for (std::int64_t row = 0; row < n_rows; ++row) {
        std::int64_t previous = -1;
        for (std::int64_t entry = indptr[row]; entry < indptr[row + 1]; ++entry) {
            const std::int64_t column = indices[entry];
            if (column < 0 || column >= n_cols)
                refuse(owner, "index " + std::to_string(column) + " of row " + std::to_string(row) +
                                  " is outside 0 .. " + std::to_string(n_cols - 1));
            if (column <= previous)
                refuse(owner, "indices of row " + std::to_string(row) + " must be sorted and distinct");
            previous = column;
        }
    }
}

void check_finite(std::span<const float> values, const char* owner) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i])) refuse(owner, "value " + std::to_string(i) + " is NaN or infinite");
}

}  // namespace

void check_csr(const CsrView& view, const char* owner) {
    check_pattern(view.n_rows, view.n_cols, view.indptr, view.indices, owner);
    if (view.values.size() != view.indices.size())
        refuse(owner, "values and indices must have the same length, got " + std::to_string(view.values.size()) +
                          " and " + std::to_string(view.indices.size()));
    check_finite(view.values, owner);
}

void check_labels(const LabelsView& view, const char* owner) {
    check_pattern(view.n_rows, view.n_labels, view.indptr, view.indices, owner);
}

void check_dense(const DenseView& view, const char* owner) {
    if (view.n_rows < 0 || view.n_cols < 0 ||
        static_cast<std::int64_t>(view.values.size()) != view.n_rows * view.n_cols)
        refuse(owner, "a dense matrix needs n_rows * n_cols values");
    check_finite(view.values, owner);
}

void scale_to_unit_rows(std::span<const std::int64_t> indptr, std::span<float> values) {
    for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
        const auto part = values.subspan(indptr[row], indptr[row + 1] - indptr[row]);
        double sum = 0.0;
        for (const float value : part) sum += static_cast<double>(value) * value;
        if (sum == 0.0) continue;
        const double length = std::sqrt(sum);
        for (float& value : part) value = static_cast<float>(value / length);
    }
}

}  // namespace longtail
