#pragma once

// Rows without their small entries. A document of hundreds of words has most of its length in a few dozens of them, so a
// problem over these entries alone costs a fraction and has nearly the same solution: early rounds of training use it.

#include <cstdint>
#include <optional>
#include <vector>

#include "linear/rows.hpp"

namespace longtail::linear {

struct CoarseRows {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
};

// The coarse rows of X; nothing where too many entries would stay.
std::optional<CoarseRows> make_coarse_rows(const SparseRows& rows);

}  // namespace longtail::linear
