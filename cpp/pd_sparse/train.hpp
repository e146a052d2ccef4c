#pragma once

#include <cstdint>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail::pd_sparse {

struct Config {
    float l1{};    // λ: threshold of the weights
    float cost{};  // C: the most that one row can count
    std::int32_t n_epochs{};
    float tolerance{};  // stop when no row violates its margin by more
    std::uint64_t seed{};
    std::int32_t n_violators{};  // labels that a visit of a row can add to its active ones
    std::int64_t n_held_out{};   // rows, less than all, that are not trained on but give `precisions`
    bool post_train{};           // train the weights that are not zero again, without the l1 penalty
};

// Sparse weights by feature, labels increasing; feature n_features is the constant 1.
struct Weights {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> label_ids;
    std::vector<float> values;
    std::vector<double>
        objectives;  // the dual objective after each epoch, with the l1 penalty; never falls but for rounding
    std::vector<double> precisions;  // the mean of P@1, 3 and 5 of the held-out rows, several times per epoch; then
                                     // those of the second training
};

// PD-Sparse (Yen et al., ICML 2016): minimise
//     ½ ‖W‖² + λ ‖W‖₁ + C Σ_i max(0, 1 + max_{k not in y_i} z_ik - min_{p in y_i} z_ip),  z_i = Wᵀ x_i,
// by block-coordinate Frank-Wolfe in the dual. Row i has β_i: its labels β >= 0, some others β <= 0, both sums equal
// and at most C. V = Σ x_i β_iᵀ is kept sparse, W = V shrunk by λ. A visit of a row adds the labels that violate its
// margin most to its active ones, and minimises the dual over them with the curvature bounded by ‖x_i‖². With held-out
// rows, training ends after a few epochs without a better precision, and W is the best one so far. λ both chooses the
// weights and makes them smaller; the second training undoes the latter.
Weights train(const CsrView& x, const LabelsView& y, const Config& config, Control& control);

// Move two lists of numbers as little as possible so that both are >= 0 and have the same sum, at most `limit`.
void project_to_equal_sums(std::vector<float>& first, std::vector<float>& second, float limit);

}  // namespace longtail::pd_sparse
