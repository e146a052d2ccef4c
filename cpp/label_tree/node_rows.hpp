#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/views.hpp"
#include "label_tree/tree.hpp"

namespace longtail::label_tree {

// The training rows of one node, renumbered: its own rows in random order, its own features, and for each group of
// sixteen children which of them a row belongs to.
struct NodeRows {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    std::vector<float> squares;          // ‖x‖² of each row
    std::vector<float> weights;          // of each row; empty means 1
    std::vector<std::int32_t> features;  // feature of each local id
    std::vector<std::uint16_t> members;  // [group][row]
    std::int64_t n_groups = 0;

    std::int64_t n_rows() const { return static_cast<std::int64_t>(squares.size()); }
    std::span<const std::uint16_t> group(std::int64_t at) const {
        return std::span(members).subspan(at * n_rows(), n_rows());
    }
};

// Collects the rows of nodes; one per thread. A node costs the labels below it, their rows and the rows' non-zeros.
class RowCollector {
public:
    RowCollector(const CsrView& x, const LabelsView& rows_of_labels, const ShapeView& shape,
                 std::span<const float> row_weights = {});

    // The rows of all labels below the node, and `extra` ones.
    void collect(std::int64_t node, std::span<const std::int32_t> extra, Random& random, NodeRows& out);

private:
    void add_row(std::int32_t row);
    void add_subtree(std::int32_t child, std::uint16_t edge);
    void copy_rows(NodeRows& out);

    const CsrView& x_;
    const LabelsView& rows_of_labels_;
    const ShapeView& shape_;
    std::span<const float> row_weights_;
    std::vector<std::int32_t> local_rows_;  // -1 between calls, like the features
    std::vector<std::int32_t> local_features_;
    std::vector<std::int32_t> row_ids_;
    std::vector<std::pair<std::int32_t, std::uint16_t>> memberships_;  // (row, edge)
};

}  // namespace longtail::label_tree
