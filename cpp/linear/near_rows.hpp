#pragma once

// The second half of a label of short rows: its problem over the rows near or above their margin, as they look through
// the words whose weights may move: the positives' and others, whose weights are kept at or below zero, where they are
// at the solution: rows that are not here can then only move away from their margin. It begins where word_problem.hpp
// ended, which is close, and is solved by Newton steps with conjugate gradients over the active rows.
//
// Every row has an offset o, and its gap is t·o + w·x, or 2 - (t·o + w·x) for a positive. Without a background o = 1 and
// t is a variable, one more than the bias. With a background (background.hpp) o is the row's gap there and the scale t
// is given: far rows have gap t·o and, by the background's own optimality, cancel together with its weights out of the
// gradient, except for what the rows here would have added: so each row here takes that part off its slope.

#include <array>
#include <cstdint>
#include <vector>

#include "linear/sink.hpp"
#include "linear/word_problem.hpp"

namespace longtail::linear {

class NearRows {
public:
    WordConfig config;
    bool has_background = false;
    bool stops_when_lifted = false;  // end early where far rows stay above their margin: a background describes them
    std::int64_t n_positives = 0;    // the first rows
    std::vector<std::int64_t> begins;
    std::vector<std::int32_t> words;  // local numbers; the first n_core are the positives'
    std::vector<float> values;
    std::vector<float> offsets;
    std::int64_t n_core = 0;
    // After the runs: the first rows with two words, three and four, and then the first of the others.
    static constexpr int kFirstSize = 2;
    static constexpr int kSizes = 3;
    std::array<std::int64_t, kSizes + 1> size_begins{};
    std::vector<double> point;  // weights of the words, then t

    void clear_rows();
    void add_run(std::int64_t first_row, std::int64_t last_row, std::int32_t word);  // negatives with this word alone
    void resize_point(std::size_t n_words);

    // Newton steps (in t too, without a background) until the gradient norm, with the bias weight in place of t, is at
    // most `tolerance`; false when that fails.
    bool descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record);

    void refresh() {  // after `point` was changed from outside
        evaluate(at_);
        finish(at_);
    }

    double gradient_square() const { return at_.gradient_square; }    // at `point`; t is left out with a background
    const std::vector<double>& slopes() const { return at_.slopes; }  // of every row
    double slope_sum() const { return at_.slope_sum; }
    double objective() const { return at_.objective; }  // with a background, up to what does not depend on the weights
    double loss() const { return at_.loss; }            // of the rows here

private:
    // Negatives that follow one another and all have one word, the same. What they add to the loss and its derivatives
    // is computed in full vectors.
    struct Run {
        std::int64_t first_row;
        std::int64_t last_row;  // the first one after it
        std::int32_t word;
    };
    struct Evaluation {
        double objective = 0.0;
        double loss = 0.0;
        double slope_sum = 0.0;
        double gradient_square = 0.0;
        std::int64_t n_active = 0;         // rows above their margin
        std::vector<std::int32_t> active;  // those of them that are in no run: the first so many,
        std::int64_t n_alone = 0;
        std::vector<std::int32_t> moving;  // and in the same way those with a slope
        std::int64_t n_moving = 0;
        std::vector<double> slopes;
        std::vector<double> gradient;
        // What active rows of runs add to the Hessian: to the diagonal (the shift last), and to a word and the shift.
        std::vector<double> run_diagonal;
        std::vector<double> run_cross;
    };
    void evaluate(Evaluation& out) const;  // without the gradient, but for what runs add to it
    void finish(Evaluation& out);          // add the rest of the gradient
    template <bool kPositive>
    void evaluate_rows(std::int64_t begin, std::int64_t end, Evaluation& out) const;
    template <int kWords>
    void evaluate_sized(Evaluation& out) const;
    template <bool kHolds>
    void evaluate_run(const Run& run, Evaluation& out) const;
    void set_step(double tolerance);
    void set_active_rows(double own_shift);
    void set_active_pairs(std::int64_t first, std::int64_t last);
    void set_product(double shift);
    double norm_square(const std::vector<double>& v) const;

    std::vector<Run> runs_;
    Evaluation at_;
    Evaluation trial_;
    std::vector<double> other_gradient_;
    // For the products of a step: of active rows with two words the entries of the Hessian, by their smaller word, then
    // the other active rows of several words, behind one another, and what adds to the diagonal.
    struct Entry {
        std::int32_t word;
        double bend;
    };
    std::vector<std::int64_t> entry_begins_;
    std::vector<Entry> entries_;
    std::vector<std::int64_t> active_begins_;
    std::vector<std::int32_t> active_words_;
    std::vector<float> active_values_;
    std::vector<double> active_bends_;
    std::vector<double> own_diagonal_;
    std::vector<double> cross_;  // of a word and the shift
    std::vector<double> diagonal_;
    std::vector<double> step_;
    std::vector<double> residual_;
    std::vector<double> direction_;
    std::vector<double> product_;
    std::vector<double> before_;
};

}  // namespace longtail::linear
