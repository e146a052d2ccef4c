#include "gbdt/candidates.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::gbdt {
namespace {

// Choose among one feature's bins from its row counts.
void choose_thresholds(std::int32_t feature, std::span<const std::int32_t> counts, std::int64_t n_rows,
                       const BoostParams& params, Candidates& out) {
    const double step = params.threshold_step * static_cast<double>(n_rows);
    std::int64_t n_left = 0;
    double wanted = step;
    for (std::size_t bin = 0; bin + 1 < counts.size(); ++bin) {
        n_left += counts[bin];
        if (n_rows - n_left < params.min_leaf_size || n_left == n_rows) break;
        if (n_left < params.min_leaf_size || static_cast<double>(n_left) < wanted) continue;
        out.bins.push_back(static_cast<std::uint8_t>(bin));
        out.n_left.push_back(static_cast<std::int32_t>(n_left));
        wanted = (std::floor(static_cast<double>(n_left) / step) + 1.0) * step;
    }
    const auto n_thresholds = static_cast<std::int32_t>(out.bins.size());
    if (n_thresholds == out.begin.back()) return;
    out.features.push_back(feature);
    out.begin.push_back(n_thresholds);
}

}  // namespace

void Candidates::append(const Candidates& other) {
    const std::int32_t offset = begin.back();
    features.insert(features.end(), other.features.begin(), other.features.end());
    for (std::size_t i = 1; i < other.begin.size(); ++i) begin.push_back(offset + other.begin[i]);
    bins.insert(bins.end(), other.bins.begin(), other.bins.end());
    n_left.insert(n_left.end(), other.n_left.begin(), other.n_left.end());
    weight_left.insert(weight_left.end(), other.weight_left.begin(), other.weight_left.end());
}

void count_bins(const Bins& bins, std::span<const std::int32_t> rows, std::span<const std::int32_t> features,
                std::span<std::int32_t> counts) {
    std::fill(counts.begin(), counts.end(), 0);
    for (const std::int32_t row : rows) {
        const std::uint8_t* row_bins = bins.dense_row(row);
        for (std::size_t i = 0; i < features.size(); ++i) ++counts[i * kMaxBins + row_bins[features[i]]];
    }
}

Candidates find_candidates(const Bins& bins, std::span<const std::int32_t> counts, std::int64_t n_rows,
                           std::span<const std::int32_t> features, const BoostParams& params) {
    Candidates out;
    for (std::size_t i = 0; i < features.size(); ++i)
        choose_thresholds(features[i], counts.subspan(i * kMaxBins, static_cast<std::size_t>(bins.n_bins(features[i]))),
                          n_rows, params, out);
    return out;
}

void weigh_left(const Bins& bins, std::span<const std::int32_t> rows, std::span<const float> row_weights,
                Candidates& candidates) {
    const std::size_t n_features = candidates.features.size();
    std::vector<double> by_bin(n_features * kMaxBins, 0.0);
    if (bins.is_dense) {
        for (const std::int32_t row : rows) {
            const std::uint8_t* row_bins = bins.dense_row(row);
            for (std::size_t i = 0; i < n_features; ++i)
                by_bin[i * kMaxBins + row_bins[candidates.features[i]]] += row_weights[row];
        }
    } else {
        std::vector<double> zeros(n_features, 0.0);
        for (const std::int32_t row : rows) {
            // Both lists of features rise.
            std::size_t i = 0;
            for (std::int64_t at = bins.row_begin[row]; at < bins.row_begin[row + 1] && i < n_features; ++at) {
                while (i < n_features && candidates.features[i] < bins.feature_ids[at]) zeros[i++] += row_weights[row];
                if (i < n_features && candidates.features[i] == bins.feature_ids[at])
                    by_bin[i++ * kMaxBins + bins.bins[at]] += row_weights[row];
            }
            for (; i < n_features; ++i) zeros[i] += row_weights[row];
        }
        for (std::size_t i = 0; i < n_features; ++i)
            by_bin[i * kMaxBins + bins.zero_bins[candidates.features[i]]] += zeros[i];
    }
    candidates.weight_left.resize(candidates.bins.size());
    for (std::size_t i = 0; i < n_features; ++i) {
        double sum = 0.0;
        std::size_t bin = 0;
        for (std::int32_t at = candidates.begin[i]; at < candidates.begin[i + 1]; ++at) {
            for (; bin <= candidates.bins[at]; ++bin) sum += by_bin[i * kMaxBins + bin];
            candidates.weight_left[at] = sum;
        }
    }
}

Candidates find_sparse_candidates(const Bins& bins, std::span<const std::int32_t> rows,
                                  std::span<const std::int32_t> features, std::span<const std::int32_t> feature_places,
                                  const BoostParams& params) {
    std::vector<std::int64_t> count_begin{0};
    for (const std::int32_t feature : features) count_begin.push_back(count_begin.back() + bins.n_bins(feature));
    std::vector<std::int32_t> counts(count_begin.back(), 0);
    std::vector<std::int32_t> n_zeros(features.size(), static_cast<std::int32_t>(rows.size()));
    for (const std::int32_t row : rows)
        for (std::int64_t i = bins.row_begin[row]; i < bins.row_begin[row + 1]; ++i) {
            const std::int32_t place = feature_places[bins.feature_ids[i]];
            if (place < 0) continue;
            ++counts[count_begin[place] + bins.bins[i]];
            --n_zeros[place];
        }
    Candidates out;
    for (std::size_t i = 0; i < features.size(); ++i) {
        counts[count_begin[i] + bins.zero_bins[features[i]]] = n_zeros[i];
        choose_thresholds(features[i], std::span(counts).subspan(count_begin[i], count_begin[i + 1] - count_begin[i]),
                          static_cast<std::int64_t>(rows.size()), params, out);
    }
    return out;
}

}  // namespace longtail::gbdt
