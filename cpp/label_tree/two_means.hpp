#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/views.hpp"
#include "label_tree/grow_shape.hpp"

namespace longtail::label_tree {

// Spherical 2-means whose sides have a given size. One per thread; costs the non-zeros of the labels it is given.
class TwoMeans {
public:
    explicit TwoMeans(const CsrView& vectors);

    // Reorder the labels so that the first n_first form one side and the rest the other; both in increasing order.
    void split(std::span<std::int32_t> label_ids, std::int64_t n_first, Random& random);

private:
    void find_features(std::span<const std::int32_t> label_ids);
    void set_direction(std::int32_t first, std::int32_t second);
    double centre_sides(std::int64_t n_first);  // new direction; returns the sum of the labels' cosines
    void assign(std::int64_t n_first);
    void clear();

    const CsrView& vectors_;
    std::vector<float> direction_;               // zero between calls, like the sums and the marks
    std::vector<std::pair<float, float>> sums_;  // of both sides
    std::vector<char> is_marked_;
    std::vector<std::int32_t> features_;
    std::vector<std::pair<float, std::int32_t>> scored_;
};

}  // namespace longtail::label_tree
