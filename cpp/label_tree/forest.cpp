#include "label_tree/forest.hpp"

#include <stdexcept>
#include <string>
#include <vector>

namespace longtail::label_tree {
namespace {

void require(bool is_kept, const std::string& rule) {
    if (!is_kept) throw std::invalid_argument("label tree: " + rule + "; the model is damaged");
}

template <class T>
void require_borders(std::span<const T> borders, std::size_t n_parts, std::size_t n_entries, const char* name) {
    require(borders.size() == n_parts + 1, std::string(name) + " must have one entry more than there are nodes");
    require(borders.front() == 0 && borders.back() == static_cast<T>(n_entries),
            std::string(name) + " must go from 0 to the number of entries");
    for (std::size_t i = 1; i < borders.size(); ++i)
        require(borders[i - 1] <= borders[i], std::string(name) + " must not decrease");
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

void check_weights(const ForestView& forest, std::int64_t node, std::int64_t n_features) {
    const std::int64_t first = forest.feature_indptr[node];
    const std::int64_t last = forest.feature_indptr[node + 1];
    const std::int64_t n_entries = forest.entry_begins[node + 1] - forest.entry_begins[node];
    require((first == last) == (n_entries == 0), "a node must have entries where it has features");
    if (first == last) return;
    require(forest.row_begins[first] == 0, "a node's entries must begin with its first feature");
    for (std::int64_t at = first; at < last; ++at) {
        const std::int32_t feature = forest.feature_ids[at];
        require(feature >= 0 && feature < n_features, "a feature does not exist");
        require(at == first || forest.feature_ids[at - 1] < feature, "features must increase");
        require(at == first || forest.row_begins[at - 1] < forest.row_begins[at], "entries must increase");
    }
    require(forest.row_begins[last - 1] < n_entries, "every feature must have an entry");
    const std::size_t n_children = forest.shape.children(node).size();
    for (std::int64_t i = forest.entry_begins[node]; i < forest.entry_begins[node + 1]; ++i)
        require(forest.edges[i] < n_children, "an entry names a child that does not exist");
}

}  // namespace

void check_forest(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels) {
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
        check_weights(forest, static_cast<std::int64_t>(node), n_features);
}

}  // namespace longtail::label_tree
