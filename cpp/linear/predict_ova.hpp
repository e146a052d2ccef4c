#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/top_k.hpp"
#include "base/views.hpp"
#include "decisions/value_table.hpp"
#include "linear/label_masks.hpp"

namespace longtail::linear {

// The pruned weights, feature-major: the labels that use feature f are indices[indptr[f]...indptr[f + 1]).
// Weights are float32, or int8 codes to be multiplied by the label's scale. A few large weights of a coded index are
// exact: their codes are 0, and they are listed apart, divided by the label's scale.
struct OvaIndex {
    std::int64_t n_labels = 0;
    std::span<const std::int64_t> indptr;
    std::span<const std::int32_t> label_ids;
    std::span<const float> weights;  // empty: codes
    std::span<const std::int8_t> codes;
    std::span<const float> scales;                    // one per label, with codes
    std::span<const float> biases;                    // one per label
    std::span<const std::int64_t> counts;             // labels with a count of 0 are never predicted
    std::span<const std::int64_t> exact_indptr = {};  // those of feature f: exact_indptr[f]...; empty for none
    std::span<const std::int32_t> exact_label_ids = {};
    std::span<const float> exact_weights = {};
    LabelMasksView masks = {};  // of this index, or empty: the answer is the same, a row takes longer
};

// The exact top_k of every row: all labels are scored.
TopLabels predict_ova(const OvaIndex& index, const CsrView& x, std::int64_t top_k, int n_threads, Control& control);
TopLabels predict_ova(const OvaIndex& index, const DenseView& x, std::int64_t top_k, int n_threads, Control& control);

// The same by value: the top_k labels with the greatest values of their scores. The table has the labels of the index.
ValuedLabels predict_ova_by_value(const OvaIndex& index, const CsrView& x, const ValueTable& values, std::int64_t top_k,
                                  int n_threads, Control& control);
ValuedLabels predict_ova_by_value(const OvaIndex& index, const DenseView& x, const ValueTable& values,
                                  std::int64_t top_k, int n_threads, Control& control);

// Throw std::invalid_argument unless the index is one: what is loaded from a file is checked here.
void check_index(const OvaIndex& index, std::int64_t n_features);

}  // namespace longtail::linear
