#pragma once

// Hessian matrices of sixteen labels over dense rows of few features, for Newton steps that solve H p = -g outright.
//
// With the squared hinge a matrix is 1 + Σ 2c·xxᵀ over the active rows. It is kept from step to step: only rows that
// cross the margin are added or taken away, in blocks that a register tile multiplies. A label begins at no rows or at
// all rows, whose matrix the labels share, whichever is nearer. (Curvatures of the logistic loss all move in every step:
// conjugate gradients took a third of the time there, on Mediamill.)

#include <cstdint>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "base/lanes.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

class WholeHessians {
public:
    WholeHessians(const DenseRows& rows, const OvaLabels& labels, const OvaConfig& config, Control& control);

    // A matrix takes n_features / 2 multiplications for each entry of a row, once; conjugate gradients take two in each
    // of their steps, of which there are some dozens.
    static bool suits(const DenseRows& rows, const OvaConfig& config);

    // The label of this lane is a new one.
    void begin(int at) { is_new_[at] = true; }
    // Bring the matrices of the lanes in `busy`, as bits, to the curvatures of all rows.
    void update(const AlignedVector<Lanes>& curvatures, std::uint32_t busy);
    // step = -H⁻¹ gradient in one lane; both have n_features + 1 entries, the bias last.
    void solve(int at, const AlignedVector<Lanes>& gradient, AlignedVector<Lanes>& step);

private:
    struct Move {
        std::int32_t row;
        float curvature;  // what is added to the row's
    };

    void choose_base(const AlignedVector<Lanes>& curvatures, int at);
    void set_all_rows();
    void add_row(std::int64_t row, float curvature, std::vector<double>& matrix);
    void add_block(std::vector<double>& matrix);
    float base_curvature(std::int64_t row) const;

    const DenseRows& rows_;
    const OvaLabels& labels_;
    const OvaConfig& config_;
    Control& control_;
    std::int64_t width_;  // n_features + 1, the bias last

    bool is_new_[kLanes] = {};
    std::vector<double> matrices_[kLanes];  // the lower halves
    std::vector<Move> moves_[kLanes];
    AlignedVector<Lanes> held_;     // the curvature with which a row is in the matrices
    std::vector<double> all_rows_;  // Σ 2c·xxᵀ over all rows as negatives; empty until a label asks for it
    std::vector<double> factor_;
    std::vector<double> gradient_;
    std::vector<double> step_;
    AlignedVector<float> row_;     // one row, padded to whole lanes
    std::int64_t block_size_ = 0;  // rows that wait to be added to a matrix:
    AlignedVector<float> right_;   // sixteen features of each, then the next sixteen,
    AlignedVector<float> left_;    // and the same four at a time, times their curvatures
};

}  // namespace longtail::linear
