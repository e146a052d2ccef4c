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
    void start_words();
    void begin_near(bool by_background);
    bool gather_above(double floor, bool with_holders);
    void add_near(std::int32_t row, float offset);
    void add_holders(std::int32_t feature);
    void free_all_words();
    void describe_near(std::size_t first);
    void move_freed();
    bool solve_near();
    void set_fixed_gradient();
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
    std::optional<Postings> own_postings_;  // when none are given
    PostingsView postings_;
    SparseRows rows_;  // in the order of the postings, as are all numbers of rows below
    Background background_;
    std::vector<float> row_gaps_;  // of each row in the background
    // The rows of each feature that hold the background: those with a gap above zero.
    std::vector<std::int64_t> holder_indptr_;
    std::vector<std::int32_t> holder_ids_;

    // Of one label.
    LabelStart start_;
    LabelRecord record_;
    std::vector<std::int32_t> words_;    // features whose weights may move, by number; the positives' come first
    std::vector<std::int32_t> numbers_;  // of each feature among them, or -1
    std::int64_t n_core_ = 0;            // so many are the positives'
    BitSet is_found_;                    // rows in the postings of the positives' words
    BitSet is_listed_;                   // those that core_ lists
    WordProblem core_;
    std::vector<std::int32_t> near_ids_;
    BitSet is_near_;
    NearRows near_;
    // The words of near rows whose weights are kept at zero, and the gradient over them.
    std::vector<std::int64_t> other_begins_;
    std::vector<std::int32_t> other_features_;
    std::vector<float> other_values_;
    // While near rows are written anew.
    std::vector<std::int64_t> next_begins_;
    std::vector<std::int32_t> next_words_;
    std::vector<float> next_values_;
    std::vector<std::int32_t> fixed_words_;
    std::vector<double> fixed_gradient_;  // by feature; zero between uses
    BitSet is_fixed_;
    double fixed_square_ = 0.0;
};

}  // namespace longtail::linear
