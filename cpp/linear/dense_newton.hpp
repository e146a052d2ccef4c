#pragma once

// Newton steps with the whole Hessian: for the squared hinge on dense rows of few features, where many rows are active.
//
// The Hessian is 1 + Σ 2c·xxᵀ over the active rows. It is kept from step to step: only rows that change sides are added
// or taken away, in blocks that a register tile multiplies. A label begins at no rows or at all rows, whose matrix the
// labels share, whichever is nearer. The gradient follows from the same rows: after the step λp with Hp = -g it is
// (1 - λ)g and what the changed rows add. When it meets the stopping rule, margins and gradient are computed afresh, the
// gradient in float64, and these decide.

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "base/lanes.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"

namespace longtail::linear {

class DenseNewtonTrainer {
public:
    DenseNewtonTrainer(const DenseRows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                       const OvaConfig& config, LabelSink& sink, Control& control);

    // A Hessian takes n_features / 2 multiplications for each entry of a row, once; conjugate gradients take two in each
    // of their steps, of which there are some dozens.
    static bool suits(const DenseRows& rows, const OvaConfig& config);
    void train(std::span<const std::int32_t> label_ids);

private:
    void train_label(std::int64_t label);
    bool descend(LabelRecord& record, double tolerance);
    void refresh(LabelRecord& record);
    void set_margins(const float* weights, float* margins);
    void choose_base();
    void update(bool moves_gradient);
    void add_row(std::int64_t row, double weight);
    void add_block();
    void set_all_rows();
    float take_step();
    double gradient_norm() const;

    const DenseRows& rows_;
    const OvaLabels& labels_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<DenseRows> starter_;
    std::int64_t width_;  // n_features + 1, the bias last

    AlignedVector<float> signs_;
    AlignedVector<float> costs_;
    AlignedVector<float> margins_;
    AlignedVector<float> along_;  // margins of the step
    AlignedVector<float> held_;   // the cost with which a row is in the Hessian
    AlignedVector<float> weights_;
    AlignedVector<float> float_step_;
    std::vector<double> gradient_;
    std::vector<double> step_;
    std::vector<double> hessian_;  // the lower half
    std::vector<double> factor_;
    std::vector<double> all_rows_;  // Σ 2c·xxᵀ over all rows as negatives; empty until a label asks for it
    AlignedVector<float> row_;      // one row, padded to whole lanes
    std::int64_t block_size_ = 0;   // rows that wait to be added to the Hessian:
    AlignedVector<float> right_;    // sixteen features of each, then the next sixteen,
    AlignedVector<float> left_;     // and the same four at a time, times their weights
};

}  // namespace longtail::linear
