#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/views.hpp"
#include "gbdt/split_search.hpp"

namespace longtail::gbdt {

// The sum of the k largest p² while single p change: the two priority queues of section 4.1. The k best are a heap
// with the weakest on top, the others a heap with the strongest on top; a change moves at most one pair across.
class RunningTopK {
public:
    RunningTopK(std::span<const double> start, std::int32_t top_k);
    void add(std::int32_t label, double change);
    double squares() const { return squares_; }

private:
    struct Heap {
        std::vector<std::int32_t> labels;
        bool weakest_first = false;
    };
    bool comes_first(const Heap& heap, std::int32_t a, std::int32_t b) const {
        return heap.weakest_first ? keys_[a] < keys_[b] : keys_[a] > keys_[b];
    }
    void place(Heap& heap, std::size_t position, std::int32_t label);
    void settle(Heap& heap, std::size_t position);

    std::vector<double> sums_, keys_;
    std::vector<std::size_t> positions_;
    std::vector<bool> is_best_;
    Heap best_, rest_;
    double squares_ = 0.0;
};

// The gradients of a node row by row, labels as places in NodeGradients.
struct RowGradients {
    std::vector<std::int64_t> begin;
    std::vector<std::int32_t> labels;
    std::vector<float> values;
};
RowGradients by_row(const NodeGradients& gradients, std::int64_t n_rows);

// Algorithm 1 for one feature: every value of the node is tried as threshold.
SplitChoice search_exactly(const DenseView& x, const NodeView& node, const RowGradients& by_row, std::int32_t feature,
                           const BoostParams& params, Control& control);

}  // namespace longtail::gbdt
