#pragma once

// One label of a set of short rows, seen through the words of its positives only: few weights, many rows, most of which
// have one of those words. Solved by Newton steps with an explicit Hessian.
//
// Every row has an offset o, and its gap, the amount by which it violates its margin, is
//     g = t·o + w·x   for a negative row,    2 - (t·o + w·x)   for a positive one.
// Without a background o = 1 and t is a variable: one more than the bias. Far rows, which have none of the words, all
// have gap t. With a background (background.hpp) o is the row's gap there and the scale t is given: far rows have gap
// t·o and, by the background's own optimality, cancel together with its weights out of the gradient, except for what
// the rows here would have added: so each row here takes that part off its slope.

#include <cstdint>
#include <vector>

#include "linear/sink.hpp"

namespace longtail::linear {

struct WordConfig {
    double cost{};
    double positive_cost{};
    double stiffness{};  // 1 / bias²: the regulariser of the shift is ½·stiffness·(t - 1)²
    double n_far{};
    bool has_background{};
};

// What a row's loss adds: its derivative by the margin (or the gap of a negative), less the background's part.
struct RowSlope {
    double gap;
    double slope;
    double value;
    double bend;
};
RowSlope row_slope(const WordConfig& config, bool is_positive, double t, double offset, double sum);

class WordProblem {
public:
    WordConfig config;
    // Negative rows with one word, word by word.
    std::vector<std::int64_t> single_begins;
    std::vector<float> single_values;
    std::vector<float> single_offsets;
    std::vector<std::int32_t> single_rows;
    // The positives, then negative rows with several words.
    std::int64_t n_positives = 0;
    std::vector<std::int64_t> begins;
    std::vector<std::int32_t> places;
    std::vector<float> values;
    std::vector<float> offsets;
    std::vector<std::int32_t> rows;
    // The point: weights of the words, then t.
    std::vector<double> point;

    void clear();

    // Newton steps until the gradient is at most `tolerance`; false when that fails.
    bool descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record);

    // w·x of a row of the lists, and t·o + w·x of the single row i of word f.
    double list_sum(std::int64_t row) const {
        double sum = 0.0;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) sum += point[places[i]] * values[i];
        return sum;
    }

private:
    struct Evaluation {
        double objective = 0.0;
        std::int64_t n_active = 0;
        std::vector<double> gradient;
        std::vector<double> hessian;  // lower triangle
    };
    void evaluate(Evaluation& out) const;
    void evaluate_singles(Evaluation& out) const;
    void evaluate_lists(Evaluation& out) const;
    bool set_step(const Evaluation& at);

    Evaluation at_;
    Evaluation trial_;
    std::vector<double> step_;
    std::vector<double> factor_;
};

}  // namespace longtail::linear
