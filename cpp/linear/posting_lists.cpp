#include "linear/posting_lists.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace longtail::linear {

namespace {

// Rows by their two most frequent words.
std::vector<std::int32_t> order_rows(const SparseRows& rows, const std::vector<std::int64_t>& indptr) {
    std::vector<std::int32_t> features(indptr.size() - 1);
    for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<std::int32_t>(i);
    std::stable_sort(features.begin(), features.end(), [&](std::int32_t a, std::int32_t b) {
        return indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b];
    });
    std::vector<std::uint32_t> ranks(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) ranks[features[i]] = static_cast<std::uint32_t>(i);
    std::vector<std::pair<std::uint64_t, std::int32_t>> keys;
    keys.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        std::uint64_t first = std::numeric_limits<std::uint32_t>::max();
        std::uint64_t second = first;
        rows.for_each(row, [&](std::int32_t feature, float) {
            second = std::min<std::uint64_t>(second, std::max<std::uint64_t>(first, ranks[feature]));
            first = std::min<std::uint64_t>(first, ranks[feature]);
        });
        keys.emplace_back(first << 32U | second, static_cast<std::int32_t>(row));
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::int32_t> order;
    order.reserve(keys.size());
    for (const auto& [key, row] : keys) order.push_back(row);
    return order;
}

}  // namespace

Postings::Postings(const SparseRows& rows)
    : places(static_cast<std::size_t>(rows.n_rows())),
      indptr(static_cast<std::size_t>(rows.n_features()) + 1, 0),
      row_ids(static_cast<std::size_t>(rows.n_stored())),
      values(row_ids.size()) {
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++indptr[feature + 1]; });
    for (std::int64_t feature = 0; feature < rows.n_features(); ++feature) indptr[feature + 1] += indptr[feature];
    std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
    std::vector<std::pair<float, std::int32_t>> entries(row_ids.size());
    row_indptr.reserve(places.size() + 1);
    row_features.reserve(row_ids.size());
    row_values.reserve(row_ids.size());
    std::int32_t place = 0;
    for (const std::int32_t row : order_rows(rows, indptr)) {
        rows.for_each(row, [&](std::int32_t feature, float value) {
            entries[cursor[feature]++] = {-value, place};
            row_features.push_back(feature);
            row_values.push_back(value);
        });
        row_indptr.push_back(static_cast<std::int64_t>(row_features.size()));
        places[row] = place++;
    }
    sums.reserve(row_ids.size() + 1);
    squares.reserve(row_ids.size() + 1);
    double sum = 0.0;
    double square = 0.0;
    for (std::int64_t feature = 0; feature < rows.n_features(); ++feature) {
        std::sort(entries.begin() + indptr[feature], entries.begin() + indptr[feature + 1]);
        for (std::int64_t i = indptr[feature]; i < indptr[feature + 1]; ++i) {
            row_ids[i] = entries[i].second;
            values[i] = -entries[i].first;
            sums.push_back(sum);
            squares.push_back(square);
            sum += values[i];
            square += static_cast<double>(values[i]) * values[i];
        }
    }
    sums.push_back(sum);
    squares.push_back(square);
}

}  // namespace longtail::linear
