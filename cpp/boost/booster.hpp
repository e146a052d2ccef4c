#pragma once

#include <cstdint>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "boost/bins.hpp"
#include "boost/params.hpp"
#include "boost/row_scores.hpp"
#include "boost/tree.hpp"

namespace longtail::boost {

// The boosting run over one training set: bins and scores live here, trees come out one by one. Views must stay valid.
class Booster {
public:
    Booster(const DenseView& x, const LabelsView& y, const BoostParams& params);
    Booster(const CsrView& x, const LabelsView& y, const BoostParams& params);

    // Both count one unit of progress. Grow tree number `tree_id` on the current gradients and add it to the scores.
    Tree grow(std::int64_t tree_id, int n_threads, Control& control);
    // Add a tree that was grown earlier (a resumed run) or on other rows (a validation set).
    void add(const TreeView& tree, int n_threads, Control& control);

    double loss(int n_threads, Control& control) const { return scores_.loss(n_threads, control); }
    std::vector<std::int64_t> gradient_sizes() const;

private:
    std::vector<std::int32_t> find_leaves(const TreeView& tree, int n_threads, Control& control) const;
    void add_leaves(const TreeView& tree, std::span<const std::int32_t> leaf_of_row, int n_threads, Control& control);

    bool is_dense_;
    DenseView dense_;
    CsrView sparse_;
    BoostParams params_;
    Bins bins_;
    RowScores scores_;
};

}  // namespace longtail::boost
