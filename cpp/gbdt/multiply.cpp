#include "gbdt/multiply.hpp"

#include <algorithm>

#include "base/parallel_for.hpp"
#include "base/top_k.hpp"

namespace longtail::gbdt {
namespace {

constexpr std::int64_t kWidth = 64;      // columns of w that are summed in registers
constexpr std::int64_t kTaskRows = 256;  // rows per task

// out[0 .. n_cols) = Σ values[i] · w[columns(i)][first .. first + n_cols), one fused chain per column.
template <class Column>
void add_rows(const DenseView& w, std::int64_t first, std::int64_t n_cols, std::span<const float> values, Column column,
              float* __restrict out) {
    float sums[kWidth] = {};
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = values[i];
        const float* __restrict from = w.values.data() + column(i) * w.n_cols + first;
        if (n_cols == kWidth)
            for (std::int64_t j = 0; j < kWidth; ++j) sums[j] += value * from[j];
        else
            for (std::int64_t j = 0; j < n_cols; ++j) sums[j] += value * from[j];
    }
    std::copy_n(sums, n_cols, out);
}

void multiply_row(const CsrView& x, const DenseView& w, std::int64_t row, std::int64_t first, std::int64_t n_cols,
                  float* out) {
    const auto columns = x.row_indices(row);
    add_rows(
        w, first, n_cols, x.row_values(row), [&](std::size_t i) { return static_cast<std::int64_t>(columns[i]); }, out);
}
void multiply_row(const DenseView& x, const DenseView& w, std::int64_t row, std::int64_t first, std::int64_t n_cols,
                  float* out) {
    add_rows(w, first, n_cols, x.row(row), [](std::size_t i) { return static_cast<std::int64_t>(i); }, out);
}

template <class View>
std::vector<float> multiply_all(const View& x, const DenseView& w, int n_threads, Control& control) {
    std::vector<float> out(static_cast<std::size_t>(x.n_rows * w.n_cols));
    parallel_for((x.n_rows + kTaskRows - 1) / kTaskRows, n_threads, control, [&](std::int64_t task, int) {
        const std::int64_t last = std::min((task + 1) * kTaskRows, x.n_rows);
        for (std::int64_t row = task * kTaskRows; row < last; ++row)
            for (std::int64_t first = 0; first < w.n_cols; first += kWidth)
                multiply_row(x, w, row, first, std::min(kWidth, w.n_cols - first), out.data() + row * w.n_cols + first);
    });
    return out;
}

}  // namespace

std::vector<float> multiply(const CsrView& x, const DenseView& w, int n_threads, Control& control) {
    return multiply_all(x, w, n_threads, control);
}
std::vector<float> multiply(const DenseView& x, const DenseView& w, int n_threads, Control& control) {
    return multiply_all(x, w, n_threads, control);
}

TopLabels multiply_top_k(const DenseView& x, const DenseView& w, std::int64_t top_k, int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    constexpr std::int64_t kRows = 32;  // share a block of w while it is in cache
    parallel_for((x.n_rows + kRows - 1) / kRows, n_threads, control, [&](std::int64_t task, int) {
        const std::int64_t first_row = task * kRows;
        const std::int64_t last_row = std::min(first_row + kRows, x.n_rows);
        std::vector<std::vector<ScoredLabel>> heaps(last_row - first_row);
        float scores[kWidth];
        for (std::int64_t first = 0; first < w.n_cols; first += kWidth) {
            control.throw_if_stopped();
            const std::int64_t n_cols = std::min(kWidth, w.n_cols - first);
            for (std::int64_t row = first_row; row < last_row; ++row) {
                multiply_row(x, w, row, first, n_cols, scores);
                std::vector<ScoredLabel>& heap = heaps[row - first_row];
                for (std::int64_t j = 0; j < n_cols; ++j) {
                    const ScoredLabel label{scores[j], static_cast<std::int32_t>(first + j)};
                    const bool is_full = static_cast<std::int64_t>(heap.size()) == top_k;
                    if (is_full && !ranks_before(label, heap.front())) continue;
                    if (is_full) {
                        std::pop_heap(heap.begin(), heap.end(), ranks_before);
                        heap.back() = label;
                    } else {
                        heap.push_back(label);
                    }
                    std::push_heap(heap.begin(), heap.end(), ranks_before);
                }
            }
        }
        for (std::int64_t row = first_row; row < last_row; ++row)
            select_top_k(heaps[row - first_row], std::span(out.label_ids).subspan(row * top_k, top_k),
                         std::span(out.scores).subspan(row * top_k, top_k));
    });
    return out;
}

}  // namespace longtail::gbdt
