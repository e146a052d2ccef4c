#include "gbdt/exact_search.hpp"

#include <algorithm>
#include <numeric>

namespace longtail::gbdt {

RunningTopK::RunningTopK(std::span<const double> start, std::int32_t top_k)
    : sums_(start.begin(), start.end()), keys_(start.size()), positions_(start.size()), is_best_(start.size(), false) {
    best_.weakest_first = true;
    for (std::size_t i = 0; i < sums_.size(); ++i) keys_[i] = sums_[i] * sums_[i];
    std::vector<std::int32_t> order(start.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return keys_[a] > keys_[b]; });
    const std::size_t n_best = top_k == 0 ? order.size() : std::min(order.size(), static_cast<std::size_t>(top_k));
    best_.labels.assign(order.rend() - static_cast<std::ptrdiff_t>(n_best), order.rend());
    rest_.labels.assign(order.begin() + static_cast<std::ptrdiff_t>(n_best), order.end());
    for (std::size_t i = 0; i < n_best; ++i) {
        is_best_[best_.labels[i]] = true;
        positions_[best_.labels[i]] = i;
        squares_ += keys_[best_.labels[i]];
    }
    for (std::size_t i = 0; i < rest_.labels.size(); ++i) positions_[rest_.labels[i]] = i;
}

void RunningTopK::place(Heap& heap, std::size_t position, std::int32_t label) {
    heap.labels[position] = label;
    positions_[label] = position;
}

void RunningTopK::settle(Heap& heap, std::size_t position) {
    const std::int32_t label = heap.labels[position];
    while (position > 0 && comes_first(heap, label, heap.labels[(position - 1) / 2])) {
        place(heap, position, heap.labels[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    for (std::size_t child = 2 * position + 1; child < heap.labels.size(); child = 2 * position + 1) {
        if (child + 1 < heap.labels.size() && comes_first(heap, heap.labels[child + 1], heap.labels[child])) ++child;
        if (!comes_first(heap, heap.labels[child], label)) break;
        place(heap, position, heap.labels[child]);
        position = child;
    }
    place(heap, position, label);
}

void RunningTopK::add(std::int32_t label, double change) {
    const double old_key = keys_[label];
    sums_[label] += change;
    keys_[label] = sums_[label] * sums_[label];
    if (is_best_[label]) squares_ += keys_[label] - old_key;
    settle(is_best_[label] ? best_ : rest_, positions_[label]);
    if (rest_.labels.empty()) return;
    const std::int32_t weakest = best_.labels[0];
    const std::int32_t strongest = rest_.labels[0];
    if (keys_[strongest] <= keys_[weakest]) return;
    squares_ += keys_[strongest] - keys_[weakest];
    is_best_[strongest] = true;
    is_best_[weakest] = false;
    place(best_, 0, strongest);
    place(rest_, 0, weakest);
    settle(best_, 0);
    settle(rest_, 0);
}

RowGradients by_row(const NodeGradients& gradients, std::int64_t n_rows) {
    RowGradients out;
    out.begin.assign(n_rows + 1, 0);
    for (const LabelGradients& label : gradients.labels)
        for (std::int64_t i = label.begin; i < label.end(); ++i) ++out.begin[gradients.rows[i] + 1];
    for (std::int64_t row = 0; row < n_rows; ++row) out.begin[row + 1] += out.begin[row];
    out.labels.resize(gradients.n_entries);
    out.values.resize(gradients.n_entries);
    std::vector<std::int64_t> next(out.begin.begin(), out.begin.end() - 1);
    for (std::int64_t label = 0; label < gradients.n_labels(); ++label)
        for (std::int64_t i = gradients.labels[label].begin; i < gradients.labels[label].end(); ++i) {
            const std::int64_t place = next[gradients.rows[i]]++;
            out.labels[place] = static_cast<std::int32_t>(label);
            out.values[place] = gradients.values[i];
        }
    return out;
}

SplitChoice search_exactly(const DenseView& x, const NodeView& node, const RowGradients& by_row, std::int32_t feature,
                           const BoostParams& params, Control& control) {
    const auto n_rows = static_cast<std::int64_t>(node.rows.size());
    const auto value_of = [&](std::int32_t local_row) {
        return x.values[static_cast<std::int64_t>(node.rows[local_row]) * x.n_cols + feature];
    };
    std::vector<std::int32_t> order(n_rows);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return value_of(a) < value_of(b); });

    std::vector<double> totals;
    totals.reserve(node.gradients->labels.size());
    for (const LabelGradients& label : node.gradients->labels) totals.push_back(label.total);
    RunningTopK left(std::vector<double>(totals.size(), 0.0), params.leaf_top_k);
    RunningTopK right(totals, params.leaf_top_k);
    SplitChoice best;
    double weight = 0.0;
    for (std::int64_t i = 0; i + 1 < n_rows; ++i) {
        control.throw_if_stopped();
        weight += node.row_weights.empty() ? 1.0 : node.row_weights[node.rows[order[i]]];
        for (std::int64_t entry = by_row.begin[order[i]]; entry < by_row.begin[order[i] + 1]; ++entry) {
            left.add(by_row.labels[entry], static_cast<double>(by_row.values[entry]));
            right.add(by_row.labels[entry], -static_cast<double>(by_row.values[entry]));
        }
        const float here = value_of(order[i]);
        const float next = value_of(order[i + 1]);
        if (here == next || i + 1 < params.min_leaf_size || n_rows - i - 1 < params.min_leaf_size) continue;
        SplitChoice choice;
        choice.n_left = i + 1;
        choice.feature = feature;
        choice.threshold = cut_between(here, next);
        choice.reduction = left.squares() / (weight + params.l2) + right.squares() / (node.weight - weight + params.l2);
        if (choice.better_than(best)) best = choice;
    }
    return best;
}

}  // namespace longtail::gbdt
