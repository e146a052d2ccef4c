#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "fastxml/node_builder.hpp"

namespace longtail::fastxml {

// The tail classifiers of PfastreXML (section 6.2): one centre per label, and P(label | x) = 1 / (1 + exp(gamma d^2)) with
// the distance d of the row from it. Rows enter with the bias as one more coordinate, scaled to length one.
struct TailView {
    std::span<const std::int64_t> indptr;  // the centres, one sparse row per label
    std::span<const std::int32_t> indices;
    std::span<const float> values;
    std::span<const float> biases;         // the centres' bias coordinate
    std::span<const float> squared_norms;  // bias included
    float bias{};                          // the rows' bias coordinate before scaling
    float gamma{};
    float alpha{};                // the trees' part in the score
    std::int32_t n_candidates{};  // labels ranked by the trees that are looked at
};

struct TailCentres {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    std::vector<float> biases;
    std::vector<float> squared_norms;
};

struct TailConfig {
    std::int64_t first_label{};
    std::int64_t last_label{};
    float bias{};
    float gamma{};
    std::int32_t max_steps{};  // of the ascent of eq. 6 from the means of eq. 7; 0: plain means
};

// Learn the centres of the labels [first_label, last_label). label_rows: for each label, the rows that have it.
// propensities: one p per label, used by the ascent only. row_weights: empty, or how much each row counts.
TailCentres learn_tail(const FeaturesView& x, const LabelsView& label_rows, std::span<const float> propensities,
                       std::span<const float> row_weights, const TailConfig& config, Control& control);

// What makes (x, bias) a vector of length one.
float tail_scale(std::span<const float> row_values, float bias);

}  // namespace longtail::fastxml
