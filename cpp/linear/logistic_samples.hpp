#pragma once

// Exact one-vs-all training with samples of the rows, for the logistic loss.
//
// Every row counts, but for a rare label nearly all rows have tiny and similar curvatures. So the gradient is exact, from
// one pass over X for sixteen labels at once, and the curvature is that of a sample: rows of great curvature, and of the
// others so many that each stands for the curvature kSampledCurvature (a row is drawn if its curvature times ‖x‖² exceeds
// its own fixed threshold: a spectral approximation of 1 + H, however many rows there are, and nearly the same rows in
// every step and for every label, so that their Gram matrix is kept). The problem with that model is solved in the span of
// the sample (sampled_logistic.hpp).
//
// Labels begin at the solution for a label without positives, where the gradient and a sample are known: the first step
// takes no pass. A label whose objective does not fall is left to Newton steps over all rows.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "linear/lane_positives.hpp"
#include "linear/lane_sum.hpp"
#include "linear/problem.hpp"
#include "linear/row_blocks.hpp"
#include "linear/rows.hpp"
#include "linear/sampled_logistic.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"

namespace longtail::linear {

class LogisticSampleTrainer {
public:
    LogisticSampleTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                          const OvaStart& start, const OvaConfig& config, LabelSink& sink, Control& control);

    static bool knows(const OvaConfig& config);
    static bool suits(const OvaStart& start, const OvaConfig& config);

    // Train the listed labels of the range; return those that should rather be trained by Newton steps over all rows.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids);

private:
    static constexpr double kSampledCurvature = 0.2;  // that a row of the sample stands for, at least, times ‖x‖²

    // A row of a sample, its margin, and its curvature times ‖x‖² in units of kSampledCurvature: the chance with which it
    // was drawn, or more than one.
    struct Drawn {
        std::int32_t row_id;
        float margin;
        float size;
        float chance() const { return size < 1.0F ? size : 1.0F; }
    };
    struct Lane {
        bool is_busy = false;
        std::int64_t label = -1;                  // -1: the label without positives
        std::span<const std::int32_t> positives;  // sorted
        LabelStart start;
        bool is_at_background = false;  // whose Gram matrix then serves its sample
        bool has_step = false;          // from `earlier`:
        double slope = 0.0;             // ∇L(earlier) · step
        int n_halvings = 0;
        bool meets_rule = false;  // already the earlier weights did
        double gradient_norm = 0.0;
        double slope_sum = 0.0;         // of all rows' losses, by their margins
        AlignedVector<float> weights;   // n_features + 1
        AlignedVector<float> earlier;   // the weights that the last step began at
        AlignedVector<float> gradient;  // of the losses
        std::vector<Drawn> drawn;       // besides the positives
        std::vector<std::int32_t> gram_rows;
        GramMatrix gram;  // of the last sample: much of it is in the next
        LabelRecord record;
    };
    // The solution for a label without positives, and what the first step of all labels shares.
    struct Background {
        AlignedVector<float> weights;
        AlignedVector<float> gradient;
        double slope_sum = 0.0;
        double objective = 0.0;
        std::vector<Drawn> drawn;
        std::vector<std::int32_t> row_ids;  // drawn
        GramMatrix gram;
    };
    enum class Outcome { goes_on, halved, finished, refused };

    void solve_background();
    bool begin(int at, std::int64_t label);
    void begin_at_background(Lane& lane);
    void begin_lane(int at, std::int64_t label, double positive_cost);
    void pass();
    template <bool kWithLosses>
    void pass_rows();
    template <bool kWithLosses>
    void pass_by_blocks();
    template <bool kWithLosses, int kStride>
    void pass_by_rows();
    template <bool kWithLosses>
    Lanes slopes_at(std::int64_t row, const Lanes& margins, std::size_t& cursor);
    Lanes bias_margins() const;
    void write_weights();
    void read_gradients();
    void thin(std::vector<Drawn>& drawn, double most) const;
    Outcome judge(Lane& lane, int at);
    void step(Lane& lane);
    void set_sample(Lane& lane);
    void solve_sample(Lane& lane);
    bool is_near_minimum(const Lane& lane) const;
    double slope_along_step(const Lane& lane, const float* at) const;
    double gradient_norm(const Lane& lane) const;
    double cost_of(const Lane& lane, std::int32_t row, bool is_positive) const;

    const SparseRows& rows_;
    const OvaLabels& labels_;
    const OvaMoments& moments_;
    const OvaStart& start_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<SparseRows> starter_;
    SampledLogistic solver_;
    std::int64_t width_;  // n_features + 1, the bias last
    double most_drawn_;   // rows of the first samples besides the positives, at most about

    std::vector<Lane> lanes_;
    Background background_;
    std::vector<float> squares_;     // ‖x‖² of every row, with the bias
    std::vector<float> thresholds_;  // the size above which a row is drawn
    LanePositives positives_;
    Lanes negative_costs_ = {};  // 0 in empty lanes
    Lanes positive_costs_ = {};
    // Weights and gradients of each feature. A table too large for the cache has them side by side, on the same page. In a
    // smaller one the gradients follow all weights: walking every other line would use half of the first-level cache.
    AlignedVector<Lanes> table_;
    Lanes* gradients_ = nullptr;
    bool is_cached_ = false;
    std::optional<RowBlocks> blocks_;  // where passes go by blocks, which do not mind how large the table is
    LaneSum losses_;                   // only with a history
    LaneSum bias_slopes_;
    LogisticSample sample_;
    AlignedVector<float> first_betas_;
    std::vector<float> earlier_margins_;  // of the sample
    std::vector<std::int32_t> places_;
    std::vector<char> is_placed_;
    AlignedVector<Lanes> scatter_;  // zero between calls
};

}  // namespace longtail::linear
