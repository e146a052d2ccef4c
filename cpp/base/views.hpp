#pragma once

#include <cstdint>
#include <span>
#include <variant>

namespace longtail {

// Views never own memory. Python owns every fitted array; kernels see it through these.
// The same three CSR parts everywhere: indptr (int64), indices (int32), values (float32).
// Within a row, indices are strictly increasing: check_csr proves it once, kernels rely on it.

struct CsrView {
    std::int64_t n_rows = 0;
    std::int64_t n_cols = 0;
    std::span<const std::int64_t> indptr;
    std::span<const std::int32_t> indices;
    std::span<const float> values;

    std::int64_t row_size(std::int64_t row) const { return indptr[row + 1] - indptr[row]; }
    std::span<const std::int32_t> row_indices(std::int64_t row) const {
        return indices.subspan(indptr[row], row_size(row));
    }
    std::span<const float> row_values(std::int64_t row) const { return values.subspan(indptr[row], row_size(row)); }
};

// A label matrix is a pattern: the labels of a row, without values.
struct LabelsView {
    std::int64_t n_rows = 0;
    std::int64_t n_labels = 0;
    std::span<const std::int64_t> indptr;
    std::span<const std::int32_t> indices;

    std::int64_t row_size(std::int64_t row) const { return indptr[row + 1] - indptr[row]; }
    std::span<const std::int32_t> row_labels(std::int64_t row) const {
        return indices.subspan(indptr[row], row_size(row));
    }
};

// Row-major, C-contiguous.
struct DenseView {
    std::int64_t n_rows = 0;
    std::int64_t n_cols = 0;
    std::span<const float> values;

    std::span<const float> row(std::int64_t i) const { return values.subspan(i * n_cols, n_cols); }
};

// X as every kernel takes it.
using RowsView = std::variant<CsrView, DenseView>;

inline std::int64_t n_rows_of(const RowsView& x) {
    return std::visit([](const auto& view) { return view.n_rows; }, x);
}
inline std::int64_t n_cols_of(const RowsView& x) {
    return std::visit([](const auto& view) { return view.n_cols; }, x);
}

// Scale every row to length one, in double precision; rows of zeros stay as they are.
void scale_to_unit_rows(std::span<const std::int64_t> indptr, std::span<float> values);

// Throw std::invalid_argument that begins with `owner` ("X", "Y", "weights") and says which rule the view breaks:
// lengths, monotone indptr, index range, strictly increasing indices in a row, finite values.
void check_csr(const CsrView& view, const char* owner);
void check_labels(const LabelsView& view, const char* owner);
void check_dense(const DenseView& view, const char* owner);

}  // namespace longtail
