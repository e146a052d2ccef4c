#include "linear/posting_lists.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace longtail::linear {

namespace {

constexpr std::int64_t kMaxCopied = 16;  // longest row that has copies

// The features, those in most rows first.
std::vector<std::int32_t> order_features(const SparseRows& rows) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(rows.n_features()), 0);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++counts[feature]; });
    std::vector<std::int32_t> features(counts.size());
    std::iota(features.begin(), features.end(), 0);
    std::stable_sort(features.begin(), features.end(),
                     [&](std::int32_t a, std::int32_t b) { return counts[a] > counts[b]; });
    return features;
}

// Rows by their two most frequent words.
std::vector<std::int32_t> order_rows(const SparseRows& rows, const std::vector<std::int32_t>& numbers) {
    std::vector<std::pair<std::uint64_t, std::int32_t>> keys;
    keys.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        std::uint64_t first = std::numeric_limits<std::uint32_t>::max();
        std::uint64_t second = first;
        rows.for_each(row, [&](std::int32_t feature, float) {
            const auto number = static_cast<std::uint64_t>(numbers[feature]);
            second = std::min(second, std::max(first, number));
            first = std::min(first, number);
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

Postings::Postings(const SparseRows& rows, std::span<const double> background_weights, double background_shift)
    : places(static_cast<std::size_t>(rows.n_rows())),
      features(order_features(rows)),
      indptr(features.size() + 1, 0),
      row_ids(static_cast<std::size_t>(rows.n_stored())),
      values(row_ids.size()) {
    std::vector<std::int32_t> numbers(features.size());
    for (std::size_t i = 0; i < features.size(); ++i) numbers[features[i]] = static_cast<std::int32_t>(i);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++indptr[numbers[feature] + 1]; });
    for (std::size_t number = 0; number < features.size(); ++number) indptr[number + 1] += indptr[number];
    std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
    std::vector<std::pair<float, std::int32_t>> entries(row_ids.size());
    row_indptr.reserve(places.size() + 1);
    row_features.reserve(row_ids.size());
    row_values.reserve(row_ids.size());
    std::int32_t place = 0;
    for (const std::int32_t row : order_rows(rows, numbers)) {
        rows.for_each(row, [&](std::int32_t feature, float value) {
            entries[cursor[numbers[feature]]++] = {-value, place};
            row_features.push_back(numbers[feature]);
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
    copy_rows();
    if (!background_weights.empty()) set_gaps(background_weights, background_shift);
}

void Postings::copy_rows() {
    const auto n_copied = [&](std::int32_t row) {
        const std::int64_t size = row_indptr[row + 1] - row_indptr[row];
        return size <= kMaxCopied ? size : 0;
    };
    copy_begins.reserve(row_ids.size() + 1);
    for (const std::int32_t row : row_ids) copy_begins.push_back(copy_begins.back() + n_copied(row));
    copy_features.resize(static_cast<std::size_t>(copy_begins.back() + kCopyPadding));
    copy_values.resize(static_cast<std::size_t>(copy_begins.back()));
    for (std::size_t posting = 0; posting < row_ids.size(); ++posting) {
        const std::int64_t shift = row_indptr[row_ids[posting]] - copy_begins[posting];
        for (std::int64_t i = copy_begins[posting]; i < copy_begins[posting + 1]; ++i) {
            copy_features[i] = row_features[i + shift];
            copy_values[i] = row_values[i + shift];
        }
    }
}

void Postings::set_gaps(std::span<const double> weights, double shift) {
    row_gaps.reserve(places.size());
    for (std::size_t row = 0; row < places.size(); ++row) {
        double gap = shift;
        for (std::int64_t i = row_indptr[row]; i < row_indptr[row + 1]; ++i)
            gap += weights[features[row_features[i]]] * row_values[i];
        row_gaps.push_back(static_cast<float>(gap));
    }
    posting_gaps.reserve(row_ids.size());
    holder_indptr.reserve(indptr.size());
    holder_indptr.push_back(0);
    for (std::size_t feature = 0; feature < features.size(); ++feature) {
        for (std::int64_t i = indptr[feature]; i < indptr[feature + 1]; ++i) {
            posting_gaps.push_back(row_gaps[row_ids[i]]);
            if (posting_gaps.back() > 0.0F) holder_places.push_back(static_cast<std::int32_t>(i - indptr[feature]));
        }
        holder_indptr.push_back(static_cast<std::int64_t>(holder_places.size()));
    }
}

}  // namespace longtail::linear
