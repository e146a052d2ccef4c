#include "label_tree/forest.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace longtail::label_tree {
namespace {

void require(bool is_kept, const char* rule) {
    if (!is_kept) throw std::invalid_argument(std::string("label tree: ") + rule + "; the model is damaged");
}

template <class T>
void require_borders(std::span<const T> borders, std::size_t n_parts, std::size_t n_entries, const char* name) {
    const auto fail = [&](const char* rule) { require(false, (std::string(name) + rule).c_str()); };
    if (borders.size() != n_parts + 1) fail(" must have one entry more than there are nodes");
    if (borders.front() != 0 || borders.back() != static_cast<T>(n_entries))
        fail(" must go from 0 to the number of entries");
    for (std::size_t i = 1; i < borders.size(); ++i)
        if (borders[i - 1] > borders[i]) fail(" must not decrease");
}

void check_shape(const ForestView& forest, std::int64_t n_labels) {
    const auto& shape = forest.shape;
    const std::int64_t n_nodes = shape.n_nodes();
    require(!forest.roots.empty() && forest.roots[0] == 0, "the first tree must begin with node 0");
    std::vector<char> has_parent(n_nodes, 0);
    for (std::size_t tree = 0; tree < forest.roots.size(); ++tree) {
        const std::int32_t root = forest.roots[tree];
        require(root >= 0 && root < n_nodes, "roots must be nodes");
        require(tree == 0 || forest.roots[tree - 1] < root, "roots must increase");
        has_parent[root] = 1;
    }
    for (std::int64_t node = 0; node < n_nodes; ++node) {
        const auto children = shape.children(node);
        require(!children.empty() && static_cast<std::int64_t>(children.size()) <= kMaxChildren,
                "a node must have 1 to 65535 children");
        for (const std::int32_t child : children) {
            if (is_label(child)) {
                require(~child < n_labels, "a child names a label that does not exist");
                continue;
            }
            require(child > node && child < n_nodes, "children must come after their parents");
            require(!has_parent[child], "a node must have one parent");
            has_parent[child] = 1;
        }
    }
    for (const char has : has_parent) require(has != 0, "every node must be below a root");
}

// Memory for prediction follows the largest feature, so it is looked at before anything else of a node.
void check_features(const ForestView& forest, std::int64_t node, std::int64_t n_features) {
    const std::int64_t first = forest.feature_indptr[node];
    const std::int64_t last = forest.feature_indptr[node + 1];
    if (first == last) return;
    const std::int32_t greatest = forest.feature_ids[last - 1];
    require(greatest >= 0 && greatest < n_features, "a feature does not exist");
}

}  // namespace

void check_trees(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels) {
    require(forest.shape.child_indptr.size() >= 2, "there must be a node");
    const std::size_t n_nodes = forest.shape.child_indptr.size() - 1;
    const std::size_t n_edges = forest.shape.child_ids.size();
    require_borders(forest.shape.child_indptr, n_nodes, n_edges, "child_indptr_");
    require_borders(forest.feature_indptr, n_nodes, forest.feature_ids.size(), "feature_indptr_");
    require_borders(forest.entry_begins, n_nodes, forest.edges.size(), "entry_begins_");
    require(forest.row_begins.size() == forest.feature_ids.size(), "row_begins_ must have one entry per feature");
    const bool is_int8 = !forest.scales.empty();
    require((is_int8 ? forest.codes.size() : forest.weights.size()) == forest.edges.size() &&
                (is_int8 ? forest.weights.empty() : forest.codes.empty()),
            "there must be one weight per entry");
    require(forest.biases.size() == n_edges && (!is_int8 || forest.scales.size() == n_edges),
            "biases_ and scales_ must have one entry per child");
    check_shape(forest, n_labels);
    for (std::size_t node = 0; node < n_nodes; ++node)
        check_features(forest, static_cast<std::int64_t>(node), n_features);
}

void check_weights(const ForestView& forest, std::int64_t node) {
    const std::int64_t first = forest.feature_indptr[node];
    const std::int64_t last = forest.feature_indptr[node + 1];
    const std::int64_t first_entry = forest.entry_begins[node];
    const std::int64_t last_entry = forest.entry_begins[node + 1];
    require((first == last) == (first_entry == last_entry), "a node must have entries where it has features");
    if (first == last) return;
    require(forest.feature_ids[first] >= 0, "a feature does not exist");
    require(forest.row_begins[first] == 0, "a node's entries must begin with its first feature");
    for (std::int64_t at = first + 1; at < last; ++at) {
        require(forest.feature_ids[at - 1] < forest.feature_ids[at], "features must increase");
        require(forest.row_begins[at - 1] < forest.row_begins[at], "entries must increase");
    }
    require(forest.row_begins[last - 1] < last_entry - first_entry, "every feature must have an entry");
    const auto n_children = static_cast<std::uint32_t>(forest.shape.children(node).size());
    std::uint32_t greatest = 0;
    for (std::int64_t i = first_entry; i < last_entry; ++i)
        greatest = std::max<std::uint32_t>(greatest, forest.edges[i]);
    require(greatest < n_children, "an entry names a child that does not exist");
    if (forest.weights.empty()) return;
    bool is_finite = true;
    for (std::int64_t i = first_entry; i < last_entry; ++i) is_finite &= std::isfinite(forest.weights[i]);
    require(is_finite, "weights must be finite");
}

}  // namespace longtail::label_tree
