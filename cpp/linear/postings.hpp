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
#include <span>
#include <vector>

#include "base/control.hpp"
#include "linear/background.hpp"
#include "linear/near_rows.hpp"
#include "linear/problem.hpp"
#include "linear/rows.hpp"
#include "linear/sink.hpp"
#include "linear/starts.hpp"
#include "linear/word_problem.hpp"

namespace longtail::linear {

// The columns of X: for each feature its rows, increasing, and their values.
struct Postings {
    explicit Postings(const SparseRows& rows);

    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> row_ids;
    std::vector<float> values;
};

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
    void start_words(std::span<const std::int32_t> positives);
    void set_far_rows(bool by_background);
    bool solve_words();
    bool solve_near();
    void gather_near();
    bool gather_above(double floor, bool with_background);
    bool gather_violators();
    void add_near(std::int32_t row, float offset);
    bool free_words(double share);
    double bias_entry() const;
    double objective() const;
    void hand_over(std::int64_t label, double gradient_norm);
    void forget_label();

    const SparseRows& rows_;
    const OvaLabels& labels_;
    const OvaConfig& config_;
    LabelSink& sink_;
    Control& control_;
    Starter<SparseRows> starter_;
    Postings postings_;
    Background background_;

    std::vector<std::int32_t> slots_;     // of each row of X among the label's rows, or -1
    std::vector<std::int32_t> numbers_;   // of each feature among the label's words, or -1
    std::vector<float> row_gaps_;         // of each row of X in the background
    std::vector<std::int32_t> row_ids_;   // the rows in the postings of the positives' words, by slot
    std::vector<std::int32_t> far_rows_;  // other rows that joined, by the slots after these
    std::vector<char> is_near_;           // by slot
    std::vector<std::int32_t> words_;     // features by number; the positives' come first
    std::int64_t n_core_ = 0;             // so many are the positives'
    LabelStart start_;
    WordProblem core_;
    NearRows near_;
    LabelRecord record_;
};

}  // namespace longtail::linear
