#include "gbdt/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/parallel_for.hpp"
#include "gbdt/partition.hpp"

namespace longtail::gbdt {
namespace {

// A range of labels of one split, about kRangeEntries entries long. Its children's entries fill the store from `begin`
// on, first all of the left child, then all of the right one: the room that the range itself takes.
struct LabelRange {
    std::int64_t split = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t n_entries = 0;
    std::int64_t begin = 0;
};
constexpr std::int64_t kRangeEntries = 1 << 16;

std::vector<LabelRange> cut_ranges(std::int64_t split, const NodeGradients& parent) {
    if (parent.n_entries <= kRangeEntries) return {{split, 0, parent.n_labels(), parent.n_entries, 0}};
    std::vector<LabelRange> ranges;
    for (std::int64_t first = 0, last = 0; first < parent.n_labels(); first = last) {
        LabelRange range{split, first, first, 0, 0};
        while (last < parent.n_labels() && range.n_entries < kRangeEntries)
            range.n_entries += parent.labels[last++].n_entries;
        range.last = last;
        ranges.push_back(range);
    }
    return ranges;
}

// What becomes of a range.
struct ChildLabels {
    std::vector<LabelGradients> left, right;
    std::int64_t n_left = 0;
    std::int64_t n_right = 0;
};

// Entries of the right child wait in `waiting` until the left child's are complete.
ChildLabels split_range(const GradientSplit& split, const LabelRange& range, GradientStore& store,
                        GradientStore& waiting) {
    const NodeGradients& parent = *split.parent;
    ChildLabels out;
    out.left.reserve(range.last - range.first);
    out.right.reserve(range.last - range.first);
    waiting.reserve(range.n_entries + kPartitionSlack);
    std::int64_t n_left = 0;
    std::int64_t n_right = 0;
    for (std::int64_t i = range.first; i < range.last; ++i) {
        const LabelGradients& label = parent.labels[i];
        Sides sides;
        sides.left_rows = split.needs_left ? store.rows() + range.begin + n_left : nullptr;
        sides.left_values = split.needs_left ? store.values() + range.begin + n_left : nullptr;
        sides.right_rows = split.needs_right ? waiting.rows() + n_right : nullptr;
        sides.right_values = split.needs_right ? waiting.values() + n_right : nullptr;
        const LeftShare share = partition({parent.rows + label.begin, parent.values + label.begin, label.n_entries},
                                          split.child_rows.data(), sides);
        const auto left_size = static_cast<std::int32_t>(share.n_entries);
        const std::int32_t right_size = label.n_entries - left_size;
        if (left_size > 0) out.left.push_back({label.label_id, left_size, n_left, share.total, share.magnitude});
        if (right_size > 0)
            out.right.push_back({label.label_id, right_size, n_right, label.total - share.total,
                                 std::max(label.magnitude - share.magnitude, 0.0)});
        n_left += left_size;
        n_right += right_size;
    }
    const std::int64_t right_begin = range.begin + (split.needs_left ? n_left : 0);
    if (split.needs_right) {
        std::copy_n(waiting.rows(), n_right, store.rows() + right_begin);
        std::copy_n(waiting.values(), n_right, store.values() + right_begin);
    }
    for (LabelGradients& label : out.left) label.begin += range.begin;
    for (LabelGradients& label : out.right) label.begin += right_begin;
    out.n_left = n_left;
    out.n_right = n_right;
    return out;
}

void append(std::vector<LabelGradients>& labels, std::vector<LabelGradients>&& more) {
    if (labels.empty())
        labels = std::move(more);
    else
        labels.insert(labels.end(), more.begin(), more.end());
}

}  // namespace

void GradientStore::reserve(std::int64_t n_entries) {
    if (n_entries <= capacity_) return;
    capacity_ = n_entries + n_entries / 4;  // gradients grow from tree to tree
    rows_.reset();
    values_.reset();
    rows_ = std::make_unique_for_overwrite<std::int32_t[]>(capacity_);
    values_ = std::make_unique_for_overwrite<float[]>(capacity_);
}

LabelSums keep_top_k(std::span<const LabelGradients> labels, std::int32_t leaf_top_k) {
    std::vector<std::int32_t> kept;
    kept.reserve(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
        if (labels[i].total != 0.0) kept.push_back(static_cast<std::int32_t>(i));
    if (leaf_top_k > 0 && kept.size() > static_cast<std::size_t>(leaf_top_k)) {
        const auto larger = [&](std::int32_t a, std::int32_t b) {
            const double size_a = std::abs(labels[a].total);
            const double size_b = std::abs(labels[b].total);
            return size_a > size_b || (size_a == size_b && a < b);
        };
        std::nth_element(kept.begin(), kept.begin() + leaf_top_k, kept.end(), larger);
        kept.resize(leaf_top_k);
        std::sort(kept.begin(), kept.end());
    }
    LabelSums out;
    out.label_ids.reserve(kept.size());
    out.sums.reserve(kept.size());
    for (const std::int32_t i : kept) {
        out.label_ids.push_back(labels[i].label_id);
        out.sums.push_back(labels[i].total);
    }
    return out;
}

double top_k_squares(std::span<const double> totals, std::int32_t leaf_top_k) {
    std::vector<double> squares(totals.begin(), totals.end());
    for (double& square : squares) square *= square;
    if (leaf_top_k > 0 && squares.size() > static_cast<std::size_t>(leaf_top_k)) {
        std::nth_element(squares.begin(), squares.begin() + leaf_top_k, squares.end(), std::greater<>());
        squares.resize(leaf_top_k);
    }
    return std::accumulate(squares.begin(), squares.end(), 0.0);
}

void split_gradients(std::span<GradientSplit> splits, GradientStore& store, int n_threads, Control& control) {
    const auto n_splits = static_cast<std::int64_t>(splits.size());
    std::vector<std::vector<LabelRange>> ranges_of(n_splits);
    parallel_for(n_splits, n_threads, control,
                 [&](std::int64_t i, int) { ranges_of[i] = cut_ranges(i, *splits[i].parent); });
    std::vector<LabelRange> ranges;
    std::int64_t n_entries = 0;
    for (const std::vector<LabelRange>& own : ranges_of)
        for (LabelRange range : own) {
            range.begin = n_entries;
            n_entries += range.n_entries;
            ranges.push_back(range);
        }
    store.reserve(n_entries);

    std::vector<GradientStore> waiting(std::max(n_threads, 1));
    std::vector<ChildLabels> found(ranges.size());
    parallel_for(static_cast<std::int64_t>(ranges.size()), n_threads, control, [&](std::int64_t task, int worker) {
        found[task] = split_range(splits[ranges[task].split], ranges[task], store, waiting[worker]);
    });
    std::vector<std::size_t> first_range{0};
    for (const std::vector<LabelRange>& own : ranges_of) first_range.push_back(first_range.back() + own.size());
    parallel_for(n_splits, n_threads, control, [&](std::int64_t i, int) {
        GradientSplit& split = splits[i];
        for (NodeGradients* child : {&split.left, &split.right}) {
            child->rows = store.rows();
            child->values = store.values();
        }
        for (std::size_t range = first_range[i]; range < first_range[i + 1]; ++range) {
            append(split.left.labels, std::move(found[range].left));
            append(split.right.labels, std::move(found[range].right));
            split.left.n_entries += found[range].n_left;
            split.right.n_entries += found[range].n_right;
        }
    });
}

}  // namespace longtail::gbdt
