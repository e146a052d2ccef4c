#include "fastxml/column_pool.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::fastxml {

ColumnPool::ColumnPool(const CsrView& x, float largest_cost)
    : largest_cost_(largest_cost),
      bounds_(static_cast<std::size_t>(x.n_cols), 0.0F),
      entries_(std::make_unique_for_overwrite<NodeColumns::Entry[]>(x.indices.size())),
      right_entries_(std::make_unique_for_overwrite<NodeColumns::Entry[]>(x.indices.size())) {
    std::vector<std::int64_t> next(static_cast<std::size_t>(x.n_cols) + 1, 0);
    for (const std::int32_t feature : x.indices) ++next[feature + 1];
    for (std::size_t j = 0; j < bounds_.size(); ++j) {
        if (next[j + 1] > 0)
            ranges_.push_back({next[j], static_cast<std::int32_t>(next[j + 1]), static_cast<std::int32_t>(j)});
        next[j + 1] += next[j];
    }
    for (std::int64_t row = 0; row < x.n_rows; ++row)
        for (std::int64_t k = x.indptr[row]; k < x.indptr[row + 1]; ++k)
            entries_[next[x.indices[k]]++] = {static_cast<std::int32_t>(row), x.values[k]};
    for (const ColumnRange& range : ranges_) {
        float largest = 0.0F;
        for (std::int64_t k = range.begin; k < range.begin + range.count; ++k)
            largest = std::max(largest, std::fabs(entries_[k].value));
        bounds_[range.feature] = largest_cost * largest;
    }
}

void ColumnPool::split(const Node& node, std::span<const std::int32_t> places, bool wants_left, bool wants_right,
                       Node& left, Node& right) {
    left = right = Node{};
    if (node.is_empty()) return;
    left_ranges_.clear();
    right_ranges_.clear();
    const auto ranges = std::span(ranges_).subspan(node.first, node.last - node.first);
    NodeColumns::Entry* entries = entries_.get();
    NodeColumns::Entry* rights = right_entries_.get();
    std::int64_t n_left = ranges.front().begin;  // writing stays behind reading
    std::int64_t n_right = 0;
    for (const ColumnRange range : ranges) {
        const std::int64_t first_left = n_left;
        const std::int64_t first_right = n_right;
        for (std::int64_t k = range.begin; k < range.begin + range.count; ++k) {
            const NodeColumns::Entry entry = entries[k];
            const std::int32_t place = places[entry.row];
            const bool is_right = place < 0;
            entries[n_left] = {place, entry.value};
            rights[n_right] = {~place, entry.value};
            n_left += !is_right;
            n_right += is_right;
        }
        if (wants_left && may_matter(range.feature, n_left - first_left))
            left_ranges_.push_back({first_left, static_cast<std::int32_t>(n_left - first_left), range.feature});
        else
            n_left = first_left;
        if (wants_right && may_matter(range.feature, n_right - first_right))
            right_ranges_.push_back({first_right, static_cast<std::int32_t>(n_right - first_right), range.feature});
        else
            n_right = first_right;
    }
    std::copy_n(rights, n_right, entries + n_left);
    for (ColumnRange& range : right_ranges_) range.begin += n_left;
    ranges_.resize(node.first);
    right = {ranges_.size(), ranges_.size() + right_ranges_.size()};
    ranges_.insert(ranges_.end(), right_ranges_.begin(), right_ranges_.end());
    left = {ranges_.size(), ranges_.size() + left_ranges_.size()};
    ranges_.insert(ranges_.end(), left_ranges_.begin(), left_ranges_.end());
}

}  // namespace longtail::fastxml
