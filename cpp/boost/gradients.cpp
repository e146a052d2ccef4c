#include "boost/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel_for.hpp"

namespace longtail::boost {
namespace {

// A range of labels of one split, about kRangeEntries entries long.
struct LabelRange {
    std::int64_t split = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
};
constexpr std::int64_t kRangeEntries = 1 << 16;

// Per label of the parent, what goes left.
struct LeftShare {
    std::int64_t n_entries = 0;
    double total = 0.0;
    double magnitude = 0.0;
};

std::vector<LabelRange> cut_ranges(std::span<const GradientSplit> splits) {
    std::vector<LabelRange> ranges;
    for (std::size_t i = 0; i < splits.size(); ++i) {
        const NodeGradients& parent = *splits[i].parent;
        for (std::int64_t first = 0, last = 0; first < parent.n_labels(); first = last) {
            while (last < parent.n_labels() && (last == first || parent.begin[last] - parent.begin[first] < kRangeEntries))
                ++last;
            ranges.push_back({static_cast<std::int64_t>(i), first, last});
        }
    }
    return ranges;
}

LeftShare measure_left(const GradientSplit& split, std::int64_t label) {
    const NodeGradients& parent = *split.parent;
    // Four chains of additions, always the same ones: one chain would wait for itself.
    constexpr int kChains = 4;
    std::int64_t n_entries[kChains] = {};
    double totals[kChains] = {};
    double magnitudes[kChains] = {};
    const auto add = [&](std::int64_t i, int chain) {
        const bool goes_left = split.child_rows[parent.rows[i]] >= 0;
        const double value = goes_left ? static_cast<double>(parent.values[i]) : 0.0;
        n_entries[chain] += goes_left ? 1 : 0;
        totals[chain] += value;
        magnitudes[chain] += std::abs(value);
    };
    std::int64_t i = parent.begin[label];
    const std::int64_t last = parent.begin[label + 1];
    for (; i + kChains <= last; i += kChains)
        for (int chain = 0; chain < kChains; ++chain) add(i + chain, chain);
    for (; i < last; ++i) add(i, 0);
    return {(n_entries[0] + n_entries[1]) + (n_entries[2] + n_entries[3]), (totals[0] + totals[1]) + (totals[2] + totals[3]),
            (magnitudes[0] + magnitudes[1]) + (magnitudes[2] + magnitudes[3])};
}

void append_label(NodeGradients& child, std::int32_t label_id, std::int64_t n_entries, double total, double magnitude) {
    if (n_entries == 0) return;
    child.label_ids.push_back(label_id);
    child.begin.push_back(child.begin.back() + n_entries);
    child.totals.push_back(total);
    child.magnitudes.push_back(magnitude);
}

// Where each label of the parent begins in its two children; it ends where the next one begins.
struct ChildPlaces {
    std::vector<std::int64_t> left, right;
};

ChildPlaces plan_children(GradientSplit& split, std::span<const LeftShare> shares) {
    const NodeGradients& parent = *split.parent;
    ChildPlaces places;
    places.left.reserve(parent.label_ids.size());
    places.right.reserve(parent.label_ids.size());
    for (std::int64_t label = 0; label < parent.n_labels(); ++label) {
        const LeftShare& share = shares[label];
        const std::int64_t n_right = parent.begin[label + 1] - parent.begin[label] - share.n_entries;
        places.left.push_back(split.left.begin.back());
        places.right.push_back(split.right.begin.back());
        append_label(split.left, parent.label_ids[label], share.n_entries, share.total, share.magnitude);
        append_label(split.right, parent.label_ids[label], n_right, parent.totals[label] - share.total,
                     std::max(parent.magnitudes[label] - share.magnitude, 0.0));
    }
    const auto reserve_entries = [](NodeGradients& child, bool is_needed) {
        if (!is_needed) return;
        child.rows.resize(child.begin.back());
        child.values.resize(child.begin.back());
    };
    reserve_entries(split.left, split.needs_left);
    reserve_entries(split.right, split.needs_right);
    return places;
}

// Copy one label's entries to the two children. Sides alternate unpredictably, so both are written and one cursor
// moves; when one side is complete, the rest belongs to the other.
void fill_both(const GradientSplit& split, NodeGradients& left, NodeGradients& right, std::int64_t first,
               std::int64_t last, std::int64_t next_left, std::int64_t last_left, std::int64_t next_right,
               std::int64_t last_right) {
    const NodeGradients& parent = *split.parent;
    std::int64_t i = first;
    while (next_left < last_left && next_right < last_right) {
        const std::int32_t place = split.child_rows[parent.rows[i]];
        const float value = parent.values[i++];
        left.rows[next_left] = place;
        left.values[next_left] = value;
        right.rows[next_right] = ~place;
        right.values[next_right] = value;
        next_left += place >= 0 ? 1 : 0;
        next_right += place >= 0 ? 0 : 1;
    }
    for (; i < last; ++i) {
        const std::int32_t place = split.child_rows[parent.rows[i]];
        NodeGradients& child = place >= 0 ? left : right;
        std::int64_t& next = place >= 0 ? next_left : next_right;
        child.rows[next] = place >= 0 ? place : ~place;
        child.values[next++] = parent.values[i];
    }
}

void fill_one(const GradientSplit& split, NodeGradients& child, bool is_left, std::int64_t first, std::int64_t last,
              std::int64_t next, std::int64_t last_next) {
    const NodeGradients& parent = *split.parent;
    for (std::int64_t i = first; i < last && next < last_next; ++i) {
        const std::int32_t place = split.child_rows[parent.rows[i]];
        child.rows[next] = is_left ? place : ~place;
        child.values[next] = parent.values[i];
        next += (place >= 0) == is_left ? 1 : 0;
    }
}

void fill_children(GradientSplit& split, const ChildPlaces& places, const LabelRange& range) {
    const NodeGradients& parent = *split.parent;
    for (std::int64_t label = range.first; label < range.last; ++label) {
        const std::int64_t first = parent.begin[label];
        const std::int64_t last = parent.begin[label + 1];
        const std::int64_t left = places.left[label];
        const std::int64_t right = places.right[label];
        const bool is_last_label = label + 1 == parent.n_labels();
        const std::int64_t last_left = is_last_label ? split.left.begin.back() : places.left[label + 1];
        const std::int64_t last_right = is_last_label ? split.right.begin.back() : places.right[label + 1];
        if (split.needs_left && split.needs_right)
            fill_both(split, split.left, split.right, first, last, left, last_left, right, last_right);
        else if (split.needs_left)
            fill_one(split, split.left, true, first, last, left, last_left);
        else
            fill_one(split, split.right, false, first, last, right, last_right);
    }
}

}  // namespace

LabelSums keep_top_k(std::span<const std::int32_t> label_ids, std::span<const double> totals, std::int32_t leaf_top_k) {
    std::vector<std::int32_t> kept;
    kept.reserve(label_ids.size());
    for (std::size_t i = 0; i < totals.size(); ++i)
        if (totals[i] != 0.0) kept.push_back(static_cast<std::int32_t>(i));
    if (leaf_top_k > 0 && kept.size() > static_cast<std::size_t>(leaf_top_k)) {
        const auto larger = [&](std::int32_t a, std::int32_t b) {
            const double size_a = std::abs(totals[a]);
            const double size_b = std::abs(totals[b]);
            return size_a > size_b || (size_a == size_b && a < b);
        };
        std::nth_element(kept.begin(), kept.begin() + leaf_top_k, kept.end(), larger);
        kept.resize(leaf_top_k);
        std::sort(kept.begin(), kept.end());
    }
    LabelSums out;
    for (const std::int32_t i : kept) {
        out.label_ids.push_back(label_ids[i]);
        out.sums.push_back(totals[i]);
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

void split_gradients(std::span<GradientSplit> splits, int n_threads, Control& control) {
    const std::vector<LabelRange> ranges = cut_ranges(splits);
    std::vector<std::vector<LeftShare>> shares(splits.size());
    for (std::size_t i = 0; i < splits.size(); ++i) shares[i].resize(splits[i].parent->label_ids.size());
    parallel_for(static_cast<std::int64_t>(ranges.size()), n_threads, control, [&](std::int64_t task, int) {
        const LabelRange& range = ranges[task];
        for (std::int64_t label = range.first; label < range.last; ++label)
            shares[range.split][label] = measure_left(splits[range.split], label);
    });
    std::vector<ChildPlaces> places(splits.size());
    parallel_for(static_cast<std::int64_t>(splits.size()), n_threads, control,
                 [&](std::int64_t i, int) { places[i] = plan_children(splits[i], shares[i]); });
    parallel_for(static_cast<std::int64_t>(ranges.size()), n_threads, control, [&](std::int64_t task, int) {
        const LabelRange& range = ranges[task];
        GradientSplit& split = splits[range.split];
        if (split.needs_left || split.needs_right) fill_children(split, places[range.split], range);
    });
}

}  // namespace longtail::boost
