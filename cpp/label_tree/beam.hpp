#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "label_tree/tree.hpp"

namespace longtail::label_tree {

struct ForestView {
    ShapeView shape;
    std::span<const std::int32_t> roots;
    std::span<const std::int64_t> feature_indptr;
    std::span<const std::int32_t> feature_ids;
    std::span<const std::int32_t> row_begins;
    std::span<const std::int64_t> entry_begins;
    std::span<const std::uint16_t> edges;
    std::span<const float> weights;     // or
    std::span<const std::int8_t> codes;  // times the scale of their edge
    std::span<const float> scales;
    std::span<const float> biases;
};

struct BeamConfig {
    std::int32_t width = 10;
    // Edge probability exp(-max(0, 1 - margin)^power); 0 means the logistic function of the margin.
    std::int32_t power = 2;
    // Rank the labels that the beam reaches by the margin of their own edge, not by the product along the path.
    bool by_label_margin = false;
};

struct TopLabels {
    std::vector<std::int32_t> label_ids;
    std::vector<float> scores;
};

// The top_k labels of each row by beam search; several trees are averaged. Labels that no beam reaches are left out.
TopLabels predict_beam(const CsrView& x, const ForestView& forest, std::int64_t n_labels, const BeamConfig& config,
                       std::int32_t top_k, int n_threads, Control& control);

struct Routes {
    std::vector<std::int64_t> indptr;  // of nodes
    std::vector<std::int32_t> row_ids;
};

// For every node with labels as children: the rows whose beam visits it, in increasing order. Needs the weights of
// the other nodes only.
Routes route_rows(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads,
                  Control& control);

// The log-probability of an edge with this margin.
float log_link(float margin, std::int32_t power);

}  // namespace longtail::label_tree
