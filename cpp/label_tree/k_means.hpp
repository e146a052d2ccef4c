#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/lanes.hpp"
#include "base/random.hpp"
#include "base/views.hpp"
#include "label_tree/grow_shape.hpp"

namespace longtail::label_tree {

// Spherical k-means without balance. One per thread. Centres are stored feature-major over the node's own features.
class KMeans {
public:
    explicit KMeans(const CsrView& vectors);

    // Reorder the labels so that clusters are contiguous, each in increasing order of labels; returns the clusters'
    // ends. Empty clusters are left out.
    std::vector<std::int64_t> split(std::span<std::int32_t> label_ids, std::int32_t n_clusters, Random& random);

private:
    double assign(std::span<const std::int32_t> label_ids);
    void centre(std::span<const std::int32_t> label_ids);

    const CsrView& vectors_;
    std::vector<std::int32_t> local_ids_;  // of features; -1 between calls
    std::vector<std::int32_t> features_;
    AlignedVector<Lanes> centres_;
    std::int32_t n_clusters_ = 0;
    std::int32_t n_groups_ = 0;
    std::vector<std::int32_t> cluster_ids_;
};

}  // namespace longtail::label_tree
