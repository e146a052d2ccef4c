#pragma once

// Exact one-vs-all training through the inverted index, for short rows without negative values and the squared hinge.
//
// In a set of short rows one common word of a positive brings every row with that word to the margin: working sets
// become large and are found in many rounds. But a row with none of the positives' words has a margin of at most the
// bias: all those far rows are one number. And of the rows in the postings of those words, those below their margin can
// only be pushed further down by their other words. So a label is first solved over the positives' words alone
// (word_problem.hpp), then, from there, over all words of the rows that are near or above their margin (near_rows.hpp).
// What is left out is checked: no row outside may be above its margin, and the gradient over all rows and features must
// obey the stopping rule. The cost follows the postings of the positives' words.
//
// Where the postings' rows do not hold the bias weight at -1, all rows together do, in the same way for every label:
// see background.hpp.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "linear/background.hpp"
#include "linear/near_rows.hpp"
#include "linear/near_words.hpp"
#include "linear/posting_lists.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"
#include "linear/word_problem.hpp"

namespace longtail::linear {

class PostingsTrainer {
public:
    PostingsTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                    const OvaConfig& config, LabelSink& sink, Control& control);

    // Whether this way of training knows the configuration and suits the rows.
    static bool suits(const SparseRows& rows, const OvaConfig& config);

    // Train the listed labels; return those that should be trained another way.
    std::vector<std::int32_t> train(std::span<const std::int32_t> label_ids);

private:
    bool train_label(std::int64_t label);
    void find_rows(std::span<const std::int32_t> positives);
    void find_shared_by_words(std::size_t largest);
    void find_shared_by_rows(std::size_t largest);
    void list_shared();
    void sort_pairs(int by);
    void list_row(std::int64_t posting);
    void start_words();
    bool begin_near(bool by_background);
    bool solve_columns();
    void switch_to_background(double lift);
    double scale_for(double lift) const;
    float offset(std::int32_t row) const { return near_.has_background ? postings_.row_gaps[row] : 1.0F; }
    bool gather_above(double floor);
    double few_above() const;
    void find_holders(std::int32_t feature);
    void add_joining();
    bool solve_near();
    bool free_words();
    double bias_entry() const;
    double objective() const;
    void hand_over(std::int64_t label, double gradient_norm);
    void forget_label();

    const OvaLabels& labels_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<SparseRows> starter_;
    Background background_;
    std::optional<Postings> own_postings_;  // when none are given
    PostingsView postings_;                 // with gaps
    SparseRows rows_;                       // in the order of the postings, as are all numbers of rows below

    // Of one label.
    LabelStart start_;
    LabelRecord record_;
    std::int64_t n_core_ = 0;           // words of the positives: the first ones that are free
    BitSet is_core_;                    // their features
    BitSet is_seen_;                    // rows, while columns are compared; else empty
    std::vector<std::int64_t> shared_;  // postings of rows with several of those features
    std::vector<WordPair> pairs_;       // those with two of them,
    std::vector<std::int64_t> pair_postings_;
    std::vector<WordPair> sorted_pairs_;
    std::vector<std::int64_t> sorted_postings_;
    std::vector<std::size_t> pair_begins_;
    BitSet is_listed_;                  // rows that core_ lists,
    std::vector<std::int64_t> listed_;  // a posting of each; of a positive none
    WordProblem core_;
    NearWords near_words_;
    NearRows near_;
    bool has_columns_ = false;                   // near_ still has all rows of the columns;
    std::vector<std::int64_t> column_postings_;  // their postings,
    std::vector<double> column_slopes_;          // and the slopes of those of them that are near
    std::vector<std::int64_t> joining_;          // postings of rows that will be near
};

}  // namespace longtail::linear
