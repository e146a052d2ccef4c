#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/views.hpp"
#include "fastxml/node_columns.hpp"

namespace longtail::fastxml {

// The entries of X by column, handed down from node to node while a tree grows depth first. A node's columns lie one
// after the other in memory, with the node's own row numbers; splitting the node parts every column in place, first all
// of the left child's columns, then all of the right one's. So a large node gets its columns at the price of one pass over
// its parent's.
//
// Columns that cannot matter any more are dropped on the way: with largest_cost * sum |x_i| <= 1 the l1 penalty keeps a
// weight at zero, and below the node the sum only falls. Whoever uses dearer costs at a node has to take its rows from X.
class ColumnPool {
public:
    // Ranges of one node; empty for a node that is not in the pool. The latest one lies on top.
    struct Node {
        std::size_t first = 0;
        std::size_t last = 0;
        bool is_empty() const { return first == last; }
    };

    ColumnPool(const CsrView& x, float largest_cost);

    Node root() const { return {0, ranges_.size()}; }
    // Valid until the next split() or drop().
    ColumnsView view(const Node& node) const {
        return {entries_.get(), std::span(ranges_).subspan(node.first, node.last - node.first)};
    }
    float largest_cost() const { return largest_cost_; }

    // Replace the node on top by its children; the left one is on top then. places: for each row of the node its number
    // in the left child, or ~number in the right one. A child that is not wanted gets an empty node.
    void split(const Node& node, std::span<const std::int32_t> places, bool wants_left, bool wants_right, Node& left,
               Node& right);
    void drop(const Node& node) { ranges_.resize(node.first); }

private:
    bool may_matter(std::int32_t feature, std::int64_t count) const {
        return static_cast<float>(count) * bounds_[feature] > 1.0F;
    }

    float largest_cost_;
    std::vector<float> bounds_;  // by feature: largest_cost times the largest |x|
    std::unique_ptr<NodeColumns::Entry[]> entries_;  // not vectors: nobody needs the zeros
    std::unique_ptr<NodeColumns::Entry[]> right_entries_;
    std::vector<ColumnRange> ranges_;
    std::vector<ColumnRange> left_ranges_;
    std::vector<ColumnRange> right_ranges_;
};

}  // namespace longtail::fastxml
