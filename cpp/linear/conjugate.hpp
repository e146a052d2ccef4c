#pragma once

// Exact one-vs-all training by conjugate gradients over all rows, two groups of sixteen labels at a time, for the squared
// hinge.
//
// At low costs thousands of rows are active at the solution, each with a tiny gap and different ones for each label, so
// that working sets hold a good part of X. But then the curvature is low as well, except along the bias: a few steps of
// nonlinear conjugate gradients suffice if each step also takes the best bias. A step reads X once for how the directions
// of all labels change all margins, and once for each group, only the active rows, for their gradients. Directions may be
// anything: they are rounded to bfloat16, so that those of both groups fit into a cache line. Along a direction the
// objective is known exactly and minimised together with the bias.
//
// Directions take the curvature of the last five steps into account (L-BFGS: Liu and Nocedal, 1989). Rows become active on
// the way, so the last step alone (Polak and Ribière) is not enough: it takes a tenth to a fifth more steps.
//
// The same holds for labels with so many positives that working sets would be too large, if rows have many words.
//
// Labels begin at the solution for a label without positives (OvAP's problem, eq. 15), where the gradient of a label is
// that of its positives alone.
//
// Margins are kept as v = w·x and δ = 1 + b, with b what the bias adds: negatives are active if δ + v > 0, and near that
// border nothing is lost to rounding. Memory grows with the rows times 32, never with the labels.

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "linear/lane_positives.hpp"
#include "linear/lanes.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"

namespace longtail::linear {

class ConjugateTrainer {
public:
    ConjugateTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                     const OvaConfig& config, LabelSink& sink, Control& control);

    // Whether this way of training knows the configuration, and suits all labels because the cost is low.
    static bool suits(const SparseRows& rows, const OvaStart& start, const OvaConfig& config);
    // Whether it suits labels for which working sets would be too large, at any cost.
    static bool suits_frequent(const SparseRows& rows, const OvaStart& start, const OvaConfig& config);

    // Train the listed labels of the range; return those that should be trained another way.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids);

private:
    // Rows that may be active somewhere along a step: v at its beginning, and how the direction changes it.
    struct Movers {
        AlignedVector<float> values;  // with room for all rows, so that adding one is quick
        AlignedVector<float> moves;
        std::int64_t n = 0;
    };
    // The derivatives of the objective by the length t of a step and by δ.
    struct Slopes {
        double by_length;
        double by_shift;
        double length_length;
        double length_shift;
        double shift_shift;
    };
    struct NewtonStep {
        double length;
        double shift;
    };
    // Sums over active negatives.
    struct Sums {
        double gaps = 0.0;
        double gap_moves = 0.0;
        double n = 0.0;
        double moves = 0.0;
        double move_squares = 0.0;
    };
    // A step, how it changed the gradient, and their product.
    struct Curvature {
        AlignedVector<float> step;
        AlignedVector<float> change;
        double product = 0.0;
    };
    static constexpr int kMemory = 5;
    struct Lane {
        bool is_busy = false;
        std::int64_t label = -1;
        std::span<const std::int32_t> positives;  // sorted
        LabelStart start;
        double shift = 0.0;             // δ
        double length = 0.0;            // t of this step
        NewtonStep first = {};          // a first guess of the length, and of the change of δ
        double along = 0.0;             // w · the direction, at the beginning of the step,
        double square = 0.0;            // and ‖direction‖²
        double gradient_square = 0.0;   // ‖∇L‖² at the end without the bias, where the best one leaves nothing,
        double bias_slope = 0.0;        // or next to nothing
        double objective = 0.0;         // L there,
        std::int32_t n_active = 0;      // and the number of active rows
        double end_norm = 0.0;          // the norm of the gradient to reach
        int n_misses = 0;               // exact checks that failed
        AlignedVector<float> weights;   // n_features
        AlignedVector<float> gradient;  // the same
        AlignedVector<float> earlier;   // the gradient before
        AlignedVector<float> direction;
        Curvature curvatures[kMemory];  // of the last steps, the earliest first
        int n_curvatures = 0;
        Movers negatives;
        Movers positive_rows;
        std::vector<std::int32_t> near_ids;  // negatives that are active or nearly so, for an exact check
        LabelRecord record;
    };
    // Sixteen lanes, and what is done for all of them at once.
    struct Group {
        std::vector<Lane> lanes;
        LanePositives positives;
        AlignedVector<Lanes> margins;  // v of each row,
        AlignedVector<Lanes> moves;    // and how the direction changes it
        Lanes is_new = {};             // 1 in lanes that begin with the background's margins
        Lanes is_busy = {};            // 1 in busy lanes
        Sums first_sums[kLanes];       // at the beginning of the step
        Lanes reaches = {};            // rows are listed up to this length of the step
        Lanes first_shifts = {};       // δ at the beginning of the step,
        Lanes last_shifts = {};        // and at that length, and a little
        double losses[kLanes] = {};    // of the negatives at its end,
        double gaps[kLanes] = {};      // and the sums of their gaps

        bool is_idle() const { return !any_above(is_busy, 0.0F); }
    };
    static constexpr int kGroups = 2;
    // The solution for a label without positives.
    struct Background {
        AlignedVector<float> weights;
        AlignedVector<float> gradient;  // what is left of it
        AlignedVector<float> margins;   // v of every row
        double shift = 0.0;
        double objective = 0.0;
    };
    enum class Outcome { goes_on, finished, refused };

    static bool knows(const OvaStart& start, const OvaConfig& config);
    void solve_background();
    void begin(Group& group, int at, std::int64_t label);
    void end_step(Lane& lane, double step_share, std::vector<std::int32_t>& refused);
    void hand_over(Lane& lane);
    void step();
    void write_directions();
    template <int kAhead>
    void set_moves();
    void guess_lengths(Group& group) const;
    void list_movers(Group& group) const;
    void search_line(Lane& lane) const;
    void move_on(Group& group);
    void read_gradient(Group& group, int at);
    void list_near(Group& group, std::uint32_t which) const;
    void remember_step(Lane& lane) const;
    void set_direction(Lane& lane) const;
    Outcome judge(Lane& lane);
    bool may_end(const Lane& lane) const;
    static double gradient_norm(const Lane& lane);
    bool is_surely_converged(const Lane& lane) const;
    bool is_converged(Lane& lane);
    Slopes slopes(const Lane& lane, const Sums& sums, double length, double shift) const;
    static Sums sums_at(const Movers& rows, double length, double shift);
    static NewtonStep newton_step(const Slopes& at);

    const SparseRows& rows_;
    const OvaLabels& labels_;
    const OvaMoments& moments_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<SparseRows> starter_;
    double cost_;
    double stiffness_;  // of δ: 1 / bias²
    std::int64_t n_features_;

    Group groups_[kGroups];
    Background background_;
    AlignedVector<RoundedPairs> directions_;  // by feature
    AlignedVector<Lanes> gradients_;          // of the negatives' losses, of one group
    AlignedVector<float> checked_;            // the gradient of an exact check
};

}  // namespace longtail::linear
