#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/views.hpp"
#include "fastxml/node_columns.hpp"

namespace longtail::fastxml {

// X by column: what ColumnPool starts from. One serves all trees.
struct FeatureColumns {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> rows;
    std::vector<float> values;  // with NodeColumns::kLanes floats of padding
    CsrView view() const { return {static_cast<std::int64_t>(indptr.size()) - 1, 0, indptr, rows, values}; }
};
FeatureColumns transpose(const CsrView& x);

// The entries of X by column, handed down from node to node while a tree grows depth first. A node's columns lie one
// after the other in memory, with the node's own row numbers; splitting the node parts every column in one pass.
//
// Memory is two stacks. A node lies on top of one of them: its left child takes its place there, its right child goes on
// top of the other stack and waits until the left child's subtree is done. So nothing is copied twice. The root's columns
// are those of X.
//
// Columns that cannot matter any more are dropped on the way: with largest_cost * sum |x_i| <= 1 the l1 penalty keeps a
// weight at zero, and below the node the sum only falls. Nodes with higher costs must take their columns from the rows.
class ColumnPool {
public:
    // The columns of one node; empty for a node that is not in the pool.
    struct Node {
        std::size_t first = 0;  // its ranges
        std::size_t last = 0;
        int stack = 0;
        std::int64_t begin = 0;  // its place on the stack
        bool is_empty() const { return first == last; }
    };

    // columns: as in FeatureColumns, with padding behind the values; they must outlive the pool.
    ColumnPool(const CsrView& columns, float largest_cost);

    Node root() const { return {0, ranges_.size(), kNoStack, 0}; }
    // Valid until the next split() or drop().
    ColumnsView view(const Node& node) const {
        const auto ranges = std::span(ranges_).subspan(node.first, node.last - node.first);
        if (node.stack == kNoStack) return {columns_.indices.data(), columns_.values.data(), ranges};
        return {stacks_[node.stack].rows.data(), stacks_[node.stack].values.data(), ranges};
    }
    float largest_cost() const { return largest_cost_; }

    // Replace the latest node by its children; the left one is the latest then. places: for each row of the node its
    // number in the left child, or ~number in the right one. A child that is not wanted gets an empty node.
    void split(const Node& node, std::span<const std::int32_t> places, bool wants_left, bool wants_right, Node& left,
               Node& right);
    void drop(const Node& node) {
        ranges_.resize(node.first);
        if (node.stack != kNoStack) stacks_[node.stack].top = node.begin;
    }

private:
    static constexpr int kNoStack = 2;

    struct Stack {
        LargeVector<std::int32_t> rows;
        LargeVector<float> values;
        std::int64_t top = 0;
    };
    // Where the entries of one side are written.
    struct Cursor {
        std::int32_t* rows;
        float* values;
        std::int64_t next;
        float magnitude = 0.0F;  // sum |x_i| of the present column
    };
    static void split_column(const std::int32_t* rows, const float* values, std::int64_t n, const std::int32_t* places,
                             Cursor& left, Cursor& right);
    void finish_column(Cursor& side, std::int64_t first, bool is_wanted, std::int32_t feature,
                       std::vector<ColumnRange>& ranges) const;

    CsrView columns_;
    float largest_cost_;
    Stack stacks_[2];
    std::vector<ColumnRange> ranges_;
    std::vector<ColumnRange> left_ranges_;
    std::vector<ColumnRange> right_ranges_;
};

}  // namespace longtail::fastxml
