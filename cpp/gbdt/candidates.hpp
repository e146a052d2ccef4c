#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gbdt/bins.hpp"
#include "gbdt/params.hpp"

namespace longtail::gbdt {

// The thresholds a node tries, feature by feature: rows whose bin is <= `bins[i]` go left, `n_left[i]` of them.
// Features without an allowed threshold are not listed.
struct Candidates {
    std::vector<std::int32_t> features;
    std::vector<std::int32_t> begin{0};
    std::vector<std::uint8_t> bins;
    std::vector<std::int32_t> n_left;
    std::vector<double> weight_left;  // of those rows; empty if rows have no weights

    std::int32_t n_features() const { return static_cast<std::int32_t>(features.size()); }
    void append(const Candidates& other);
};

// Thresholds at every `threshold_step` of the node's own sorted values, as in the paper, but never one that leaves a
// side with fewer than min_leaf_size rows.
//
// Dense bins: `counts` has kMaxBins numbers for each of `features`, how many of the node's rows have that bin.
void count_bins(const Bins& bins, std::span<const std::int32_t> rows, std::span<const std::int32_t> features,
                std::span<std::int32_t> counts);
Candidates find_candidates(const Bins& bins, std::span<const std::int32_t> counts, std::int64_t n_rows,
                           std::span<const std::int32_t> features, const BoostParams& params);
// Sparse bins: `feature_places[f]` is f's place in `features` (ascending) or -1.
Candidates find_sparse_candidates(const Bins& bins, std::span<const std::int32_t> rows,
                                  std::span<const std::int32_t> features, std::span<const std::int32_t> feature_places,
                                  const BoostParams& params);

// Fill weight_left: the weights of the rows that go left, by candidate.
void weigh_left(const Bins& bins, std::span<const std::int32_t> rows, std::span<const float> row_weights,
                Candidates& candidates);

}  // namespace longtail::gbdt
