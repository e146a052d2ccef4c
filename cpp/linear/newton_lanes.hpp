#pragma once

// The paper's method in sixteen lanes: truncated Newton over all active rows, one label a lane. Used where working
// sets do not help: the logistic loss, starts at which most rows are active, and comparisons with the paper.
// A lane that converges takes the next label before the next Newton step.
// Where rows are dense and features few, steps are solved with the whole Hessian instead (whole_hessian.hpp). A label
// then begins at zero unless its start is clearly better: the first Hessian of all labels at zero is one matrix, and
// from a bad start more rows change sides.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "base/lanes.hpp"
#include "linear/lane_sum.hpp"
#include "linear/losses.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"
#include "linear/whole_hessian.hpp"

namespace longtail::linear {

template <class Rows, class LossFunction>
class NewtonTrainer {
public:
    NewtonTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                  const OvaConfig& config, LabelSink& sink, Control& control);

    void train(std::span<const std::int32_t> label_ids);

private:
    struct Lane {
        std::int64_t label = -1;
        bool is_fresh = false;
        LabelStart start;
        double gradient_norm = 0.0;
        int n_final_steps = 0;  // since the gradient first met the stopping rule
        bool is_near = false;   // the minimum: its step showed it
        bool searching = false;
        float step_size = 0.0F;
        std::int32_t earlier_cg_steps = 0;
        LabelRecord record;
    };
    // Signs and costs of one row in all lanes; walks along the batch's positives.
    struct RowSigns {
        Lanes signs;
        Lanes costs;
    };

    bool begin(Lane& lane, int at, std::int64_t label);
    void index_positives();
    RowSigns row_signs(std::int64_t row, std::size_t& cursor) const;
    void set_fresh_margins();
    void reject_starts(const LaneMask& fresh, const double* loss, const double* zero_loss);
    void set_gradient();
    void flush_gradient();
    bool meets_rule(const Lane& lane) const { return lane.gradient_norm <= lane.start.tolerance; }
    double most_gap(const Lane& lane) const;
    bool is_finished(Lane& lane) const;
    void note_gap(Lane& lane, double gap) const;
    void retire(int at);
    void set_steps();
    void set_cg_steps();
    void set_preconditioner();
    void hessian_product();
    void search_lines();
    LaneSum inner(const AlignedVector<Lanes>& a, const AlignedVector<Lanes>& b) const;

    const Rows& rows_;
    const OvaLabels& labels_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<Rows> starter_;
    std::int64_t width_;  // n_features + 1, the bias last
    std::optional<WholeHessians> hessians_;

    std::vector<Lane> lanes_;
    std::vector<std::pair<std::int32_t, std::int32_t>> positives_;  // (row, lane), sorted
    Lanes negative_costs_ = {};                                     // 0 in empty lanes
    Lanes positive_costs_ = {};
    Lanes counted_ = {};                     // how many times a row of the sample counts: of rare labels,
    Lanes counted_of_many_ = {};             // of labels with many rows
    std::vector<std::int32_t> active_rows_;  // rows that are active in some lane
    AlignedVector<Lanes> margins_;
    AlignedVector<Lanes> along_;            // margins of the step
    AlignedVector<Lanes> curvatures_;       // c φ''
    std::vector<float> little_curvatures_;  // of each row: below, it is sampled; empty: no samples
    AlignedVector<Lanes> weights_;
    AlignedVector<Lanes> first_weights_;  // w₀, only with a history
    AlignedVector<Lanes> gradient_;
    AlignedVector<double> gradient_sums_;  // over the rows of finished blocks, with dense rows
    AlignedVector<Lanes> step_;
    AlignedVector<Lanes> residual_;
    AlignedVector<Lanes> direction_;
    AlignedVector<Lanes> product_;
    AlignedVector<Lanes> preconditioner_;
    AlignedVector<float> column_;
};

}  // namespace longtail::linear
