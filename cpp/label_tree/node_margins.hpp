#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/views.hpp"
#include "label_tree/forest.hpp"

namespace longtail::label_tree {

// Scores the children of one node after the other, for rows of X. What a node needs is prepared once for all of its
// rows: where its features are, and its weights as an array if most of them are stored anyway.
class NodeMargins {
public:
    NodeMargins(const CsrView& x, const ForestView& forest);

    // Go to a node whose weights have been checked; `n_words` is the number of entries of all rows to come.
    void open(std::int64_t node, std::int64_t n_words);

    // The sums of weights times values of a row, one per child; valid until the next call.
    std::span<const float> of_row(std::int64_t row);

    void close();

private:
    void spread_weights();
    template <class Take>
    void for_words(std::int64_t row, const Take& take) const;
    std::int64_t n_children() const {
        return forest_.shape.child_indptr[node_ + 1] - forest_.shape.child_indptr[node_];
    }
    std::int64_t first_entry(std::int64_t place) const;

    const CsrView& x_;
    const ForestView& forest_;
    std::int64_t n_places_;
    std::int64_t node_ = 0;
    std::span<const std::int32_t> features_;
    bool is_scattered_ = false;
    bool is_dense_ = false;
    std::int64_t stride_ = 0;           // of a feature's weights in dense_: children, rounded up
    std::vector<std::int32_t> places_;  // of the node's features, plus one; zero between nodes
    std::vector<float> dense_;
    std::vector<float> sums_;
};

}  // namespace longtail::label_tree
