#pragma once

// Rows without their small entries. A document of hundreds of words has most of its length in a few dozens of them, so a
// problem over these entries alone costs a fraction and has nearly the same solution: early rounds of training use it.

#include <cstdint>
#include <optional>
#include <span>
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

// What makes products of coarse rows those of whole ones, as far as two numbers per row can: the coarse row's square, and
// the value of one more feature, which stands for what left-out entries have in common. With it, the products of each row
// with all others are right on average.
struct CoarsePart {
    float square;
    float common;
};

// `mean_margins` has the products of each whole row with the mean row, without a bias.
std::vector<CoarsePart> measure_coarse_rows(const SparseRows& coarse, std::span<const float> mean_margins);

}  // namespace longtail::linear
