#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail {

// Which parts a line has; the views' rows go together.
struct LineFormat {
    bool has_labels = true;
    std::int32_t first_feature_id = 0;
};

// Lines for rows [first_row, last_row): "l1,l2 f:v f:v\n", values in the shortest form that reads back the same. A row
// without labels begins with a blank where lines have labels. The text comes in parts, in order, made in parallel.
std::vector<std::string> write_rows(const CsrView& x, const LabelsView& y, const LineFormat& format,
                                    std::int64_t first_row, std::int64_t last_row, int n_threads, Control& control);

}  // namespace longtail
