#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail::label_tree {

struct LabelVectors {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
};

// The unit vector along the sum of each label's rows, each row scaled to unit length and by its weight (empty: 1).
// `rows_of_labels` holds the row ids of each label. Labels without rows get empty vectors.
LabelVectors mean_rows(const CsrView& x, const LabelsView& rows_of_labels, std::span<const float> row_weights,
                       int n_threads, Control& control);

}  // namespace longtail::label_tree
