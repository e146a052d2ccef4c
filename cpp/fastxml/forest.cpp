#include "fastxml/forest.hpp"

#include <stdexcept>
#include <string>

namespace longtail::fastxml {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("forest: " + why); }

void check_rows_of(const char* name, std::span<const std::int64_t> indptr, std::span<const std::int32_t> ids,
                   std::size_t n_values, std::size_t n_nodes, std::int64_t n_ids) {
    if (indptr.size() != n_nodes + 1 || ids.size() != n_values || indptr.front() != 0 ||
        indptr.back() != static_cast<std::int64_t>(ids.size()))
        refuse(std::string(name) + "_indptr does not fit the other arrays");
    for (std::size_t node = 0; node < n_nodes; ++node)
        if (indptr[node] > indptr[node + 1]) refuse(std::string(name) + "_indptr must not fall");
    for (const std::int32_t id : ids)
        if (id < 0 || id >= n_ids)
            refuse(std::string(name) + " names " + std::to_string(id) + ", but ids end at " +
                   std::to_string(n_ids - 1));
}

}  // namespace

void check_forest(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels) {
    const std::size_t n_nodes = forest.right_child.size();
    const std::size_t n_trees = forest.tree_roots.size();
    if (n_trees == 0 || n_nodes == 0 || forest.tree_roots[0] != 0) refuse("must begin with the root of a tree");
    if (forest.biases.size() != n_nodes) refuse("needs one bias per node");
    for (std::size_t tree = 0; tree < n_trees; ++tree) {
        const std::int64_t first = forest.tree_roots[tree];
        const std::int64_t last = tree + 1 < n_trees ? forest.tree_roots[tree + 1] : static_cast<std::int64_t>(n_nodes);
        if (first >= last || last > static_cast<std::int64_t>(n_nodes)) refuse("tree_roots must rise and stay inside");
        for (std::int64_t node = first; node < last; ++node) {
            const std::int32_t right = forest.right_child[node];
            // The left child is the next node, so a right child lies at least two further on; a split is never last.
            if (right != 0 && (right < node + 2 || right >= last))
                refuse("node " + std::to_string(node) + " has right child " + std::to_string(right) +
                       ", which is not between it and the end of its tree");
        }
    }
    check_rows_of("split", forest.split_indptr, forest.split_features, forest.split_weights.size(), n_nodes,
                  n_features);
    check_rows_of("leaf", forest.leaf_indptr, forest.leaf_labels, forest.leaf_values.size(), n_nodes, n_labels);
}

}  // namespace longtail::fastxml
