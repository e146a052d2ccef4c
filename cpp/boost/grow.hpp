#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "boost/bins.hpp"
#include "boost/gradients.hpp"
#include "boost/params.hpp"
#include "boost/tree.hpp"

namespace longtail::boost {

struct GrownTree {
    Tree tree;
    std::vector<std::int32_t> leaf_of_row;  // node id per entry of `rows`
};

// Grow one tree level by level on `rows` (ascending ids), trying `features` (ascending ids). Nodes of a level and the
// tiles of their features are searched in parallel. `x` is read by the exact search only and may be empty otherwise.
GrownTree grow_tree(const Bins& bins, const DenseView& x, std::span<const std::int32_t> rows,
                    std::span<const std::int32_t> features, NodeGradients root, const BoostParams& params, int n_threads,
                    Control& control);

}  // namespace longtail::boost
