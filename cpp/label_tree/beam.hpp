#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/top_k.hpp"
#include "base/views.hpp"
#include "decisions/value_table.hpp"
#include "label_tree/forest.hpp"

namespace longtail::label_tree {

// Edge probability: exp(-max(0, 1 - margin)^power), or with power 0 the logistic function of slope·margin.
struct Link {
    std::int32_t power{};
    float slope{};

    float log_probability(float margin) const;
    void to_log_probabilities(std::span<float> margins) const;
};

struct BeamConfig {
    std::int32_t width{};
    Link link;
    // Probability of a label: that of its own edge times that of the path above it to this power.
    float path_weight{};
};

// The top_k labels of each row by beam search; several trees are averaged. Labels that no beam reaches are left out.
TopLabels predict_beam(const CsrView& x, const ForestView& forest, const BeamConfig& config, std::int32_t top_k,
                       int n_threads, Control& control);

// The same labels ranked by what they are worth at their scores.
ValuedLabels predict_beam_by_value(const CsrView& x, const ForestView& forest, const BeamConfig& config,
                                   const ValueTable& values, std::int32_t top_k, int n_threads, Control& control);

struct Routes {
    std::vector<std::int64_t> indptr;  // of nodes
    std::vector<std::int32_t> row_ids;
};

// For every node with labels as children: the rows whose beam visits it, in increasing order. Needs the weights of
// the other nodes only.
Routes route_rows(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads,
                  Control& control);

}  // namespace longtail::label_tree
