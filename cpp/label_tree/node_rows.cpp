#include "label_tree/node_rows.hpp"

#include <utility>

#include "base/lanes.hpp"

namespace longtail::label_tree {

RowCollector::RowCollector(const CsrView& x, const LabelsView& rows_of_labels, const ShapeView& shape,
                           std::span<const float> row_weights)
    : x_(x),
      rows_of_labels_(rows_of_labels),
      shape_(shape),
      row_weights_(row_weights),
      local_rows_(x.n_rows, -1),
      local_features_(x.n_cols, -1) {}

void RowCollector::add_row(std::int32_t row) {
    if (local_rows_[row] >= 0) return;
    local_rows_[row] = 0;
    row_ids_.push_back(row);
}

void RowCollector::add_subtree(std::int32_t child, std::uint16_t edge) {
    if (!is_label(child)) {
        for (const std::int32_t below : shape_.children(child)) add_subtree(below, edge);
        return;
    }
    for (const std::int32_t row : rows_of_labels_.row_labels(~child)) {
        add_row(row);
        memberships_.emplace_back(row, edge);
    }
}

void RowCollector::collect(std::int64_t node, std::span<const std::int32_t> extra, Random& random, NodeRows& out) {
    const auto children = shape_.children(node);
    for (std::size_t edge = 0; edge < children.size(); ++edge)
        add_subtree(children[edge], static_cast<std::uint16_t>(edge));
    for (const std::int32_t row : extra) add_row(row);
    // Rows arrive label by label, and coordinate descent wants them mixed; one shuffle here keeps every pass
    // sequential in memory.
    for (std::size_t i = row_ids_.size(); i > 1; --i)
        std::swap(row_ids_[i - 1], row_ids_[random.below(static_cast<std::uint32_t>(i))]);
    for (std::size_t i = 0; i < row_ids_.size(); ++i) local_rows_[row_ids_[i]] = static_cast<std::int32_t>(i);

    const std::int64_t n_rows = static_cast<std::int64_t>(row_ids_.size());
    out.n_groups = (static_cast<std::int64_t>(children.size()) + kLanes - 1) / kLanes;
    out.members.assign(out.n_groups * n_rows, 0);
    for (const auto& [row, edge] : memberships_) {
        auto& bits = out.members[edge / kLanes * n_rows + local_rows_[row]];
        bits = static_cast<std::uint16_t>(bits | (1U << (edge % kLanes)));
    }
    copy_rows(out);
    for (const std::int32_t row : row_ids_) local_rows_[row] = -1;
    row_ids_.clear();
    memberships_.clear();
}

void RowCollector::copy_rows(NodeRows& out) {
    out.indptr.assign(1, 0);
    out.indices.clear();
    out.values.clear();
    out.squares.clear();
    out.weights.clear();
    out.features.clear();
    for (const std::int32_t row : row_ids_) {
        const auto features = x_.row_indices(row);
        const auto values = x_.row_values(row);
        float square = 0.0F;
        for (std::size_t i = 0; i < features.size(); ++i) {
            auto& local = local_features_[features[i]];
            if (local < 0) {
                local = static_cast<std::int32_t>(out.features.size());
                out.features.push_back(features[i]);
            }
            out.indices.push_back(local);
            out.values.push_back(values[i]);
            square += values[i] * values[i];
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
        out.squares.push_back(square);
        if (!row_weights_.empty()) out.weights.push_back(row_weights_[row]);
    }
    for (const std::int32_t feature : out.features) local_features_[feature] = -1;
}

}  // namespace longtail::label_tree
