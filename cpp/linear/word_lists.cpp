#include "linear/word_lists.hpp"

#include <cmath>
#include <numeric>

namespace longtail::linear {

namespace {

std::vector<WordEntry> entries_of(std::span<const std::int32_t> ids, std::span<const float> values) {
    std::vector<WordEntry> out;
    out.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) out.push_back({ids[i], values[i]});
    return out;
}

}  // namespace

WordListParts::WordListParts(const SparseRows& rows) : indptr(static_cast<std::size_t>(rows.n_features()) + 1, 0) {
    const std::int64_t n_rows = rows.n_rows();
    const auto n_features = static_cast<std::int32_t>(rows.n_features());
    for (std::int64_t row = 0; row < n_rows; ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++indptr[feature + 1]; });
    std::vector<std::int32_t> by_size(static_cast<std::size_t>(n_features));
    std::iota(by_size.begin(), by_size.end(), 0);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](std::int32_t a, std::int32_t b) { return indptr[a + 1] > indptr[b + 1]; });
    std::vector<std::int32_t> ranks(by_size.size());
    for (std::int32_t rank = 0; rank < n_features; ++rank) ranks[by_size[rank]] = rank;
    for (std::int32_t feature = 0; feature < n_features; ++feature) indptr[feature + 1] += indptr[feature];

    std::vector<std::array<std::int32_t, 2>> tops;  // the ranks of the two most frequent words
    tops.reserve(static_cast<std::size_t>(n_rows));
    for (std::int64_t row = 0; row < n_rows; ++row) {
        std::array<std::int32_t, 2> top{n_features, n_features};
        rows.for_each(row, [&](std::int32_t feature, float) {
            const std::int32_t rank = ranks[feature];
            if (rank < top[0])
                top = {rank, top[0]};
            else if (rank < top[1])
                top[1] = rank;
        });
        tops.push_back(top);
    }
    std::vector<std::int32_t> order(tops.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return tops[a] < tops[b]; });

    places.resize(order.size());
    row_ids.resize(static_cast<std::size_t>(rows.n_stored()));
    values.resize(row_ids.size());
    std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
    for (std::int32_t place = 0; place < n_rows; ++place) {
        places[order[place]] = place;
        rows.for_each(order[place], [&](std::int32_t feature, float value) {
            row_features.push_back(feature);
            row_values.push_back(value);
            row_ids[cursor[feature]] = place;
            values[cursor[feature]++] = value;
        });
        row_indptr.push_back(static_cast<std::int64_t>(row_features.size()));
    }
}

WordLists::WordLists(const PostingsView& parts)
    : n_rows_(parts.ordered.n_rows),
      places_(parts.places),
      row_begins_(parts.ordered.indptr),
      list_begins_(parts.indptr),
      row_entries_(entries_of(parts.ordered.indices, parts.ordered.values)),
      list_entries_(entries_of(parts.row_ids, parts.values)) {
    for (std::int32_t feature = 0; feature < parts.ordered.n_cols; ++feature) {
        int level = kLevels;
        while (level > 1 && size(feature) > n_rows_ >> (kFirstShift + level - 2)) --level;
        levels_.push_back(static_cast<std::int8_t>(level));
    }
    set_groups();
    set_norms();
}

void WordLists::set_groups() {
    const auto comes_before = [&](const WordEntry& a, const WordEntry& b) {
        return size(a.id) > size(b.id) || (size(a.id) == size(b.id) && a.id < b.id);
    };
    for (std::int32_t place = 0; place < n_rows_; ++place) {
        const std::span<const WordEntry> own = row(place);
        std::array<WordEntry, 2> top{WordEntry{0, 0.0F}, WordEntry{0, 0.0F}};
        std::partial_sort_copy(own.begin(), own.end(), top.begin(), top.end(), comes_before);
        if (groups_.empty() || groups_.back().feature != top[0].id)
            groups_.push_back({top[0].id, place, place, top[0].value});
        groups_.back().last = place + 1;
        groups_.back().least_value = std::min(groups_.back().least_value, top[0].value);
        tops_.push_back(top);
    }
}

void WordLists::set_norms() {
    const auto n_padded = static_cast<std::size_t>(n_blocks() * kBlockRows);
    for (int at_level = 1; at_level < kLevels; ++at_level) norms_[at_level].assign(n_padded, 0.0F);
    double max_square = 0.0;
    for (std::int64_t place = 0; place < n_rows_; ++place) {
        double squares[kLevels + 1] = {};
        for (const WordEntry& entry : row(place))
            squares[levels_[entry.id]] += static_cast<double>(entry.value) * entry.value;
        for (int at_level = 1; at_level < kLevels; ++at_level) {
            squares[at_level] += squares[at_level - 1];
            norms_[at_level][place] = static_cast<float>(1.00001 * std::sqrt(squares[at_level]));
        }
        max_square = std::max(max_square, squares[kLevels - 1] + squares[kLevels]);
    }
    max_row_norm_ = 1.00001 * std::sqrt(max_square);
    for (int at_level = 1; at_level < kLevels; ++at_level) {
        block_norms_[at_level].assign(static_cast<std::size_t>(n_blocks()), 0.0F);
        for (std::int64_t place = 0; place < n_rows_; ++place) {
            const float norm = norms_[at_level][place];
            float& greatest = block_norms_[at_level][place / kBlockRows];
            greatest = std::max(greatest, norm);
            ++above_[at_level][static_cast<std::size_t>(kBins * norm / max_row_norm_)];
        }
        for (int bin = kBins; bin > 0; --bin) above_[at_level][bin - 1] += above_[at_level][bin];
    }
}

std::int64_t WordLists::n_above(int at_level, double limit) const {
    return limit < max_row_norm_ ? above_[at_level][static_cast<std::size_t>(kBins * limit / max_row_norm_)] : 0;
}

}  // namespace longtail::linear
