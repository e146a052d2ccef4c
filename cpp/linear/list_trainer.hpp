#pragma once

// Exact one-vs-all training through lists of the rows of each word, label by label, for the squared hinge and rows
// without negative values.
//
// At the solution only words of the positives have weights above zero: all others come from negative rows. So rows above
// their margin are found in the lists of the positives' words (word_lists.hpp), of which the longest need not be read.
// Where the rows have most of their length in rare words, that is quicker than a label's share of passes over all rows,
// and almost nothing here takes time by rows or features: a label's working set has numbers of its own for its words
// (local_rows.hpp). Sets are solved in the dual (row_dual.hpp).
//
// A label's rounds first look only for rows that rare words lift, then, when these are in the set, for all. At low costs
// the rows with the label's words do not pull the bias below -1. Then rows without any of them are above their margin
// too, by a little: thousands of rows. Many of them are active without positives too; these join the set in one step
// (background.hpp).

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "linear/background.hpp"
#include "linear/local_rows.hpp"
#include "linear/posting_lists.hpp"
#include "linear/problem.hpp"
#include "linear/row_dual.hpp"
#include "linear/row_finder.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"
#include "linear/word_lists.hpp"

namespace longtail::linear {

class ListTrainer {
public:
    ListTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                const OvaConfig& config, LabelSink& sink, Control& control);

    // Whether this way of training knows the configuration and suits the rows.
    static bool suits(const SparseRows& rows, const OvaConfig& config);

    // Whether it needs the solution of background.hpp.
    static bool uses_background(const OvaConfig& config);

    // Train the listed labels; return those that should be trained another way.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids);

private:
    bool train_label(std::int64_t label);
    bool begin_set(std::span<const std::int32_t> positives);
    void begin_betas();
    void move_bias(float shift);
    void append(std::int32_t row, float sign, double cost, float margin);
    bool find_rows();
    bool check_near();
    bool search();
    void search_rare(double depth);
    void sample_far();
    void set_far();
    void add_far();
    double far_share() const;
    void list_words();
    void list_found(const std::vector<FoundRow>& found);
    void check_rows(float reach);
    double gradient_norm();
    void record_round(float step_size);
    void hand_over(std::int64_t label, double norm);
    void forget_label();
    float& bias_weight() { return weights_.back(); }

    const SparseRows& rows_;
    const OvaLabels& labels_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    const OvaMoments& moments_;
    Starter<SparseRows> starter_;
    std::optional<WordListParts> parts_;  // if they are not shared
    WordLists lists_;
    RowFinder finder_;
    RowDual dual_;
    std::vector<FoundRow> far_;  // rows that hold the background, with their gaps there; empty until they are needed
    double far_shift_ = 0.0;     // the gap there of a row without words

    // Of one label.
    LabelStart start_;
    LabelRecord record_;
    Subproblem problem_;  // the rows of the set, positives first
    LocalRows local_;
    BitSet is_member_;
    BitSet in_order_;                  // words; empty between uses
    std::int64_t n_core_ = 0;          // words of the positives: the first numbers
    AlignedVector<float> weights_;     // by number of the word; the bias weight stands at n_features
    AlignedVector<float> by_feature_;  // the same weights while rows are sought, else zero
    std::vector<WordWeight> words_;    // with weights above zero, of the positives,
    double other_square_ = 0.0;        // and of those that only rounding lifts above zero
    std::vector<std::int32_t> checked_ids_;
    std::vector<FoundRow> checked_;  // their margins
    bool seeks_all_ = false;         // and not only rows that rare words lift
    bool has_far_rows_ = false;
    bool knows_all_ = false;  // all rows above their margin, of which so many are not in the set, with this loss:
    std::int32_t n_outside_ = 0;
    double outside_loss_ = 0.0;
    std::vector<FoundRow> near_;  // what the last search found above its floor, with margins,
    float near_reach_ = 0.0F;     // and how far below their margin all others are, at these weights:
    std::vector<float> sought_weights_;
    std::vector<float> far_margins_;  // w·x of the far rows
    float sought_bias_weight_ = 0.0F;
    std::int64_t spent_ = 0;  // on searches, in entries of lists
    std::vector<double> gradient_;
};

}  // namespace longtail::linear
