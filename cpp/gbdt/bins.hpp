#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail::gbdt {

inline constexpr int kMaxBins = 256;

// Every feature cut once into at most 256 bins of about equal row counts; nodes pick their thresholds among the cuts.
//
//   bin b of feature f holds the values v with cut(f, b - 1) < v <= cut(f, b); the last bin has no upper cut
//
// Dense input keeps one byte per (row, feature). Sparse input keeps, row by row, only the features whose bin is not
// the bin of zero: `row_begin`, `feature_ids`, `bins`.
struct Bins {
    std::int64_t n_rows = 0;
    std::int32_t n_features = 0;
    bool is_dense = true;
    std::vector<std::int64_t> cut_begin;  // n_features + 1
    std::vector<float> cuts;
    std::vector<std::uint8_t> bins;  // dense: n_rows x n_features; sparse: one per kept entry
    std::vector<std::int64_t> row_begin;
    std::vector<std::int32_t> feature_ids;
    std::vector<std::uint8_t> zero_bins;  // sparse only, per feature

    int n_bins(std::int32_t feature) const { return static_cast<int>(cut_begin[feature + 1] - cut_begin[feature]) + 1; }
    float cut(std::int32_t feature, int bin) const { return cuts[cut_begin[feature] + bin]; }
    const std::uint8_t* dense_row(std::int64_t row) const { return bins.data() + row * n_features; }
};

Bins make_bins(const DenseView& x, int n_threads, Control& control);
Bins make_bins(const CsrView& x, int n_threads, Control& control);

// A value between two neighbours a < b that float arithmetic keeps in [a, b).
float cut_between(float a, float b);

}  // namespace longtail::gbdt
