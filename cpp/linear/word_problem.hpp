#pragma once

// One label of a set of short rows, seen through the words of its positives only: few weights, many rows, most of which
// have one of those words. Solved by Newton steps with an explicit Hessian.
//
// The gap of a row, the amount by which it violates its margin, is
//     t + w·x   for a negative row,    2 - (t + w·x)   for a positive one,
// where t is one more than the bias. Far rows, which have none of the words, all have gap t. The rows of a word add
// their part through the sums of its column (posting_lists.hpp), as if it were their only word; for the others, which
// are listed, that is taken back.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "linear/sink.hpp"

namespace longtail::linear {

struct WordConfig {
    double cost{};
    double positive_cost{};
    double stiffness{};  // 1 / bias²: the regulariser of the shift is ½·stiffness·(t - 1)²
    double n_far{};
};

// A word's rows: values that decrease, and for each place what stands before it.
struct WordColumn {
    const float* values;
    const double* sums;
    const double* squares;
    std::int64_t size;

    struct Range {
        std::int64_t begin;
        std::int64_t end;
    };
    // The places where t + w·value > floor.
    Range above(double t, double w, double floor) const {
        if (w == 0.0) return {0, t > floor ? size : 0};
        const double limit = (floor - t) / w;
        if (w > 0.0)
            return {0,
                    std::partition_point(values, values + size, [&](float value) { return value > limit; }) - values};
        return {std::partition_point(values, values + size, [&](float value) { return value >= limit; }) - values,
                size};
    }
};

// A row with two of the words.
struct WordPair {
    std::int32_t row;
    std::array<std::int32_t, 2> places;
    std::array<float, 2> values;
};

class WordProblem {
public:
    WordConfig config;
    std::vector<WordColumn> columns;
    // The positives, then negative rows with two words, then those with more.
    std::int64_t n_positives = 0;
    std::int64_t n_pairs = 0;
    std::vector<std::int64_t> begins;
    std::vector<std::int32_t> places;
    std::vector<float> values;
    std::vector<std::int32_t> rows;
    // The point: weights of the words, then t.
    std::vector<double> point;

    void clear();
    void add_pairs(std::span<const WordPair> pairs);  // those of one run after another; after the positives

    // Newton steps until the gradient is at most `tolerance`; false when that fails.
    bool descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record);

    // w·x of a row of the lists.
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
    void add_columns(Evaluation& out) const;
    void add_lists(Evaluation& out) const;
    void add_pair_run(std::int64_t first, std::int64_t last, Evaluation& out) const;
    void add_list(std::int64_t row, Evaluation& out) const;

    Evaluation at_;
    Evaluation trial_;
    // The values of pairs once more, those of their first and their second words; pairs of the same two words are a run,
    // and stand together.
    std::vector<float> first_values_;
    std::vector<float> second_values_;
    std::vector<std::int64_t> run_ends_;
    std::vector<double> step_;
    std::vector<double> factor_;
};

}  // namespace longtail::linear
