#pragma once

// Exact one-vs-all training with working sets, for the squared hinge.
//
// At the solution of a rare label only a few hundred of all rows are active. So a label is solved on a small working
// set of rows (gram.hpp, row_dual.hpp, row_newton.hpp), then one pass over X finds the rows outside it that violate
// their margin; the worst of them join the set, until the gradient over all rows obeys the stopping rule. A pass also
// reports rows that are near their margin. As long as the weights have moved less than it takes to bring any other row
// there, rounds go on with these rows and without a pass.
//
// The pass serves 64 labels at once, with weights rounded to bfloat16: two cache lines a feature. Rounding moves the
// margin of row x by at most ‖w - rounded w‖·‖x‖, which the pass adds; so it reports every row that may violate, and
// the few that it reports without need are sorted out by an exact product. Everything between two passes belongs to
// one label. No label sees which others share its pass, and no memory grows with rows times labels.
//
// Where rows have many small entries, labels are first solved roughly over rows without these (coarse_rows.hpp), which takes
// a fraction of the time per pass and visit, and then over all entries, from the sets and betas found.

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
#include "linear/row_copies.hpp"
#include "linear/row_dual.hpp"
#include "linear/row_newton.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"

namespace longtail::linear {

// What rounds over coarse rows leave of a label: the rows of its set, positives first, and their betas. Empty: nothing.
struct RoughSolution {
    std::vector<std::int32_t> row_ids;
    std::vector<float> betas;
    LabelRecord record;
};

template <class Rows>
class WorkingSetTrainer {
public:
    WorkingSetTrainer(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                      const OvaConfig& config, LabelSink& sink, Control& control);

    // Train the listed labels of the range; return those that should rather be trained by Newton steps over all rows,
    // because many rows are active at their start. Labels with a rough solution go on from there.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids,
                                    std::span<const RoughSolution> rough_solutions = {});

    // The same with loose tolerances, for coarse rows: nothing goes to the sink. One entry for each label of the range.
    std::vector<RoughSolution> train_roughly(std::span<const std::int32_t> label_ids);

    // Whether labels can go on from rough solutions.
    static bool suits_rough_solutions(const OvaConfig& config);

private:
    static constexpr int kPairs = 2;
    static constexpr int kBlocks = 2 * kPairs;
    static constexpr int kWidth = kBlocks * kLanes;
    static constexpr int kPairWidth = 2 * kLanes;

    // A row and what its margin is at most.
    struct Candidate {
        std::int32_t row_id;
        float margin;
    };
    static bool is_worse(const Candidate& a, const Candidate& b) {
        return a.margin > b.margin || (a.margin == b.margin && a.row_id < b.row_id);
    }
    static bool violates(const Candidate& candidate) { return candidate.margin > -1.0F; }
    static bool comes_before(const Candidate& a, const Candidate& b) { return a.row_id < b.row_id; }

    // Where a pass puts a lane's next candidate. A pass reports to all lanes in turn: these stay in the first-level cache.
    struct Slot {
        Candidate* next;
        Candidate* end;
    };
    enum class Outcome { goes_on, finished, refused };
    struct Lane {
        std::int64_t label = -1;  // -1: empty
        LabelStart start;
        bool at_start = true;
        bool by_rows = false;
        bool in_primal = false;    // for good: the set is too crowded for the dual, and its betas are out of date
        bool is_resumed = false;   // from a rough solution: betas are known, weights and margins are not
        double end_share = 0.0;    // of its tolerance: the gradient norm at which it ends,
        double inner_share = 0.0;  // and at which a round does
        InnerResult inner;
        Subproblem problem;                     // its positives come first
        AlignedVector<float> weights;           // n_features + 1
        float bias_shift = 0.0F;                // what the dual's weights lack in their margins: see best_bias.hpp,
        float dual_bias = 0.0F;                 // and their bias weight
        float rounding = 0.0F;                  // ‖w - rounded w‖, and a little for the sums
        std::vector<std::int32_t> sorted_rows;  // of the working set
        std::vector<char> is_written;           // for each sixteen features: some rounded weight is not zero
        RawVector<Candidate> candidates;
        std::size_t max_candidates = 0;
        bool truncated = false;      // there were more candidates,
        double unlisted_loss = 0.0;  // whose losses and number the statistics want
        std::int32_t n_unlisted = 0;
        RawVector<Candidate> near;             // what the last pass reported,
        AlignedVector<float> scanned_weights;  // at these weights;
        float floor = 0.0F;                    // no other row had a larger margin
        float reach = 0.0F;                    // how far below its margin a row is near
        LabelRecord record;
    };

    bool begin(Lane& lane, int at, std::int64_t label);
    void finish(Lane& lane);
    void resume(Lane& lane, int at, const RoughSolution& rough);
    void scan();
    template <int kUsedPairs, int kAhead>
    void scan_rows(int first_pair);
    void report(int at, std::int32_t row, float margin);
    void keep_worst(Lane& lane, int at);
    Outcome advance(Lane& lane, int at);
    Outcome go_on(Lane& lane);
    bool begin_rounds(Lane& lane, int at);
    bool find_violators(Lane& lane);
    bool fits_start() const;
    // Objectives over coarse rows would mislead.
    bool keeps_history() const { return config_.keep_history && rough_ == nullptr; }
    void fit_start(Lane& lane) const;
    void choose_first_rows(Lane& lane);
    bool grow(Lane& lane);
    void drop_idle(Lane& lane) const;
    void solve(Lane& lane, bool from_margins);
    template <class Feature>
    struct LabelCopies {
        RowCopies<Feature> whole;
        CoarseCopies<Feature> coarse;
    };
    template <class Feature>
    void solve_dual(Lane& lane, LabelCopies<Feature>& copies, double tolerance, bool from_margins);
    void solve_in_dual(Lane& lane, double tolerance, bool from_margins);
    bool in_dual(const Lane& lane) const;
    bool is_crowded(const Lane& lane) const;
    void set_weights(Lane& lane);
    void drop_members(Lane& lane) const;
    bool may_be_converged(const Lane& lane) const;
    bool is_converged(Lane& lane);
    void leave_unlisted(Lane& lane, const Candidate& candidate) const;
    void record_iteration(Lane& lane, float step_size);
    void write_lanes();
    void clear_lane(Lane& lane, int at);
    float margin(const Lane& lane, std::int32_t row) const;
    RoundedPairs& rounded(std::int64_t feature, int at) { return rounded_[feature * kPairs + at / kPairWidth]; }

    const Rows& rows_;
    const OvaLabels& labels_;
    const OvaMoments& moments_;
    const OvaStart& start_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<Rows> starter_;
    GramSolver gram_solver_;
    RowSolver<Rows> row_solver_;
    RowDual row_dual_;
    float spread_;                              // of margins: they are the closer together the lower the cost
    LabelCopies<std::uint16_t> narrow_copies_;  // of one label's rows, while it is solved in the dual
    LabelCopies<std::int32_t> copies_;          // where there are more features
    std::vector<CoarsePart> coarse_parts_;      // where labels go on from rough solutions

    std::span<const RoughSolution> resumed_;       // by label, or empty
    std::vector<RoughSolution>* rough_ = nullptr;  // where rough solutions go

    std::vector<Lane> lanes_;
    Slot slots_[kWidth] = {};
    AlignedVector<RoundedPairs> rounded_;  // n_features × kPairs
    Lanes biases_[kBlocks] = {};
    Lanes shared_scales_[kBlocks] = {};
    Lanes roundings_[kBlocks] = {};
    Lanes floors_[kBlocks] = {};  // margins above are reported
    std::vector<float> row_norms_;
    float max_row_norm_ = 0.0F;
    std::int64_t max_row_size_ = 0;
    std::vector<std::int32_t> checked_ids_;
    AlignedVector<Lanes> scatter_;  // zero between calls
    AlignedVector<float> gradient_;
};

extern template class WorkingSetTrainer<SparseRows>;
extern template class WorkingSetTrainer<DenseRows>;

}  // namespace longtail::linear
