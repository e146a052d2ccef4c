#pragma once

// The second half of a label of short rows: its problem over the rows near or above their margin, with all their words.
// It begins where word_problem.hpp ended, which is close, and is solved by Newton steps with conjugate gradients over
// the active rows. Weights of words that no positive has are kept at or below zero, where they are at the solution:
// rows that are not here can then only move away from their margin.

#include <cstdint>
#include <vector>

#include "linear/sink.hpp"
#include "linear/word_problem.hpp"

namespace longtail::linear {

class NearRows {
public:
    WordConfig config;
    std::int64_t n_positives = 0;  // the first rows
    std::vector<std::int64_t> begins;
    std::vector<std::int32_t> words;  // local numbers; the first n_core are the positives'
    std::vector<float> values;
    std::vector<float> offsets;
    std::int64_t n_core = 0;
    std::vector<double> point;  // weights of the words, then t
    std::vector<char> is_free;  // of each word: its weight may move

    void clear();

    // Newton steps in the free words (and t, without a background) until their gradient norm, with the bias weight in
    // place of t, is at most `tolerance`; false when that fails.
    bool descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record);

    void refresh() { set_gradient(); }  // after `point` was changed from outside

    double gradient_square() const { return gradient_square_; }  // at `point`; t is left out with a background
    double fixed_square() const { return fixed_square_; }        // the same over the words that are not free
    const std::vector<double>& gradient() const { return gradient_; }
    double slope_sum() const { return slope_sum_; }
    double objective() const { return objective_; }  // with a background, up to what does not depend on the weights
    double loss() const { return loss_; }            // of the rows here

private:
    void set_gradient();
    void set_step(double tolerance);
    bool take_step(float& share);
    double norm_square(const std::vector<double>& v) const;
    double row_sum(std::int64_t row, const std::vector<double>& v) const {
        double sum = 0.0;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) sum += v[words[i]] * values[i];
        return sum;
    }
    double shift_part(const std::vector<double>& v, std::int64_t row) const {
        return config.has_background ? 0.0 : v.back() * static_cast<double>(offsets[row]);
    }

    double gradient_square_ = 0.0;
    double fixed_square_ = 0.0;
    double slope_sum_ = 0.0;
    double objective_ = 0.0;
    double loss_ = 0.0;
    std::vector<std::int32_t> active_;
    std::vector<double> sums_;   // w·x of every row
    std::vector<double> along_;  // how the step changes t·o + w·x
    std::vector<double> gradient_;
    std::vector<double> diagonal_;
    std::vector<double> step_;
    std::vector<double> residual_;
    std::vector<double> direction_;
    std::vector<double> product_;
};

}  // namespace longtail::linear
