#pragma once

// A forest of label trees as flat arrays. Inner nodes are numbered level by level, every child has a greater id than
// its parent; the children of a node are inner nodes (id >= 0) or labels (~label_id). The weights of a node's edges
// are stored feature-major: one walk over the words of a row scores all children.
//
//   node n: edges          child_ids[child_indptr[n] .. child_indptr[n + 1])
//           features       feature_ids[feature_indptr[n] .. feature_indptr[n + 1]), increasing
//           entries        entry_begins[n] + row_begins[r] .. of feature row r: (edge within the node, weight)

#include <cstdint>
#include <span>
#include <vector>

namespace longtail::label_tree {

struct ShapeView {
    std::span<const std::int64_t> child_indptr;
    std::span<const std::int32_t> child_ids;

    std::int64_t n_nodes() const { return static_cast<std::int64_t>(child_indptr.size()) - 1; }
    std::span<const std::int32_t> children(std::int64_t node) const {
        return child_ids.subspan(child_indptr[node], child_indptr[node + 1] - child_indptr[node]);
    }
};

struct Shape {
    std::vector<std::int64_t> child_indptr{0};
    std::vector<std::int32_t> child_ids;
};

inline bool is_label(std::int32_t child) { return child < 0; }

// Edge weights of some consecutive nodes.
struct EdgeWeights {
    std::vector<std::int64_t> feature_indptr{0};
    std::vector<std::int32_t> feature_ids;
    std::vector<std::int32_t> row_begins;  // of each feature row, from the node's first entry
    std::vector<std::int64_t> entry_begins{0};
    std::vector<std::uint16_t> edges;
    std::vector<float> weights;
    std::vector<float> biases;  // one per edge, times the value of the constant feature
};

constexpr std::int64_t kMaxChildren = 65535;

}  // namespace longtail::label_tree
