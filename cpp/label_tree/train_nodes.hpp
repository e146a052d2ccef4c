#pragma once

#include <cstdint>
#include <span>

#include "base/control.hpp"
#include "base/views.hpp"
#include "label_tree/dual_lanes.hpp"
#include "label_tree/tree.hpp"

namespace longtail::label_tree {

struct TrainConfig {
    SolverConfig solver;
    float prune_below{};
};

struct TrainData {
    CsrView x;
    LabelsView rows_of_labels;                // row ids of each label
    std::span<const float> positive_weights;  // of each label; empty means 1
    std::span<const float> row_weights;       // of each row, above 0; empty means 1
    LabelsView extra_rows;                    // more rows for each of the nodes that are trained; may be empty
};

// Train the edges of the given nodes: each child against the other rows of its parent.
EdgeWeights train_nodes(const TrainData& data, const ShapeView& shape, std::span<const std::int32_t> node_ids,
                        const TrainConfig& config, std::uint64_t seed, int n_threads, Control& control);

}  // namespace longtail::label_tree
