#pragma once

// Exact one-vs-all training with working sets, for the squared hinge.
//
// At the solution of a rare label only a few hundred of all rows are active. So a label is solved on a small working
// set of rows (gram.hpp, row_newton.hpp), then one pass over X finds the rows outside it that violate their margin;
// the worst of them join the set, until the gradient over all rows obeys the stopping rule. The pass serves 32 labels
// at once; everything between two passes belongs to one label. No label sees which others share its pass, and no
// memory grows with the number of rows times labels.

#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "linear/gram.hpp"
#include "linear/lanes.hpp"
#include "linear/problem.hpp"
#include "linear/row_newton.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"

namespace longtail::linear {

template <class Rows>
class WorkingSetTrainer {
public:
    WorkingSetTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                      const OvaConfig& config, LabelSink& sink, Control& control);

    // Train the listed labels of the range; return those that should rather be trained by Newton steps over all rows,
    // because most rows are active at their start.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids);

private:
    static constexpr int kBlocks = 2;
    static constexpr int kWidth = kBlocks * kLanes;

    struct Candidate {
        std::int32_t row_id;
        float margin;
    };
    struct Lane {
        std::int64_t label = -1;  // -1: empty
        LabelStart start;
        bool at_start = true;
        bool by_rows = false;  // weights hold w; otherwise the betas do
        double inner_share = 0.3;
        InnerResult inner;
        Subproblem problem;
        AlignedVector<float> weights;
        std::vector<std::int32_t> sorted_rows;  // of the working set
        std::vector<std::int32_t> support;      // features whose lane is not zero
        std::vector<Candidate> candidates;
        std::size_t max_candidates = 0;
        std::int64_t n_violating = 0;  // rows whose margin exceeds -1, positives included
        double violation = 0.0;        // their Σ (1 + margin)²
        bool truncated = false;
        LabelRecord record;
    };

    struct LossOverRows {
        double loss;
        std::int32_t n_active;
    };

    bool begin(Lane& lane, int at, std::int64_t label);
    void scan();
    void report(int at, std::int32_t row, float margin);
    void shrink(Lane& lane, int at);
    bool advance(Lane& lane, int at, std::vector<std::int32_t>& refused);
    void choose_first_rows(Lane& lane, int at);
    bool grow(Lane& lane);
    void solve(Lane& lane, bool from_margins);
    bool is_converged(Lane& lane);
    void set_weights(Lane& lane);
    double half_square() const;
    LossOverRows loss_over_rows(const Lane& lane) const;
    void record_start(Lane& lane, int at);
    void write_lane(Lane& lane, int at);
    void clear_lane(Lane& lane, int at);
    void set_floor(int at, float floor) { floors_[at / kLanes][at % kLanes] = floor; }
    float* lane_weight(std::int64_t feature, int at) {
        return reinterpret_cast<float*>(&lane_weights_[feature * kBlocks]) + at;
    }

    const Rows& rows_;
    const OvaLabels& labels_;
    const OvaStart& start_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<Rows> starter_;
    GramSolver gram_solver_;
    RowSolver<Rows> row_solver_;

    std::vector<Lane> lanes_;
    AlignedVector<Lanes> lane_weights_;  // n_features × kBlocks
    Lanes biases_[kBlocks] = {};
    Lanes shared_scales_[kBlocks] = {};
    Lanes floors_[kBlocks] = {};  // margins above are reported
    AlignedVector<Lanes> scatter_;     // zero between calls
    AlignedVector<float> weights_;     // n_features + 1
    AlignedVector<double> gradient_;
};

extern template class WorkingSetTrainer<SparseRows>;
extern template class WorkingSetTrainer<DenseRows>;

}  // namespace longtail::linear
