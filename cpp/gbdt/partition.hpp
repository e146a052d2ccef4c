#pragma once

#include <cstdint>

namespace longtail::gbdt {

// Entries of one label: rows of the node, ascending, and their gradients.
struct Entries {
    const std::int32_t* rows = nullptr;
    const float* values = nullptr;
    std::int64_t size = 0;
};

// Where the entries go; null: that side is not wanted. There must be room for all entries on the left and for
// kPartitionSlack more than all on the right.
struct Sides {
    std::int32_t* left_rows = nullptr;
    float* left_values = nullptr;
    std::int32_t* right_rows = nullptr;
    float* right_values = nullptr;
};
inline constexpr std::int64_t kPartitionSlack = 16;

// What went left.
struct LeftShare {
    std::int64_t n_entries = 0;
    double total = 0.0;
    double magnitude = 0.0;  // sum of absolute values
};

// Divide entries in order: child_rows[row] is the row's number on the left, or ~number on the right. Sums are made in
// the same order on every machine.
LeftShare partition(const Entries& entries, const std::int32_t* child_rows, const Sides& sides);

}  // namespace longtail::gbdt
