#pragma once

// The rows near their margin as one label sees them: their words by local numbers, and which of those words are free,
// that is, have a weight that may move. NearRows solves over the free words; the weights of the others, the fixed words,
// are zero, and the gradient over them says which of them must become free.

#include <cstdint>
#include <span>
#include <vector>

#include "linear/near_rows.hpp"
#include "linear/posting_lists.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

class NearWords {
public:
    explicit NearWords(const PostingsView& postings)
        : postings_(postings),
          locals_(static_cast<std::size_t>(postings.ordered.n_cols), -1),
          is_near_(postings.ordered.n_rows) {}

    // Of a feature among all words seen so far, or -1.
    std::int32_t local(std::int32_t feature) const { return locals_[feature]; }
    // Of a feature among the free words, or -1.
    std::int32_t number(std::int32_t feature) const { return locals_[feature] < 0 ? -1 : numbers_[locals_[feature]]; }
    const std::vector<std::int32_t>& free_features() const { return free_features_; }  // by number
    void make_free(std::int32_t feature);

    bool has_row(std::int64_t row) const { return is_near_.has(row); }
    std::size_t n_rows() const { return row_ids_.size(); }
    // Rows that are not near yet become so; offsets of all rows, or none where they are 1.
    void add_rows(std::span<const std::int32_t> row_ids, std::span<const float> offsets);
    // The rows of postings; offsets of the rows of all postings, or none.
    void add_postings(std::span<const std::int64_t> postings, std::span<const float> offsets);
    void set_offsets(std::span<const float> offsets);  // of all rows
    // Of the free words after the first `n_kept`, those without a weight become fixed and leave the point.
    void keep_free(std::vector<double>& point, std::size_t n_kept);
    void make_all_free();   // every word of the rows
    void order_as_added();  // the solver's slopes are in the order in which the rows were added
    // Hand the rows to the solver: positives first, then the rows of one free word, by word, then those of two.
    void arrange(NearRows& near);

    // ‖g‖² of the gradient over the fixed words, where the rows have the solver's slopes.
    double set_fixed_gradient(std::span<const double> slopes);
    // Make the words with the largest entries of that gradient free until the square of the others is at most `goal`;
    // return how many became free.
    std::size_t free_largest(double goal);

    void forget_rows();
    void forget_words(std::size_t n_kept);  // all but the first so many, which are free; the rows must be forgotten
    void forget_all();

private:
    std::int32_t add_word(std::int32_t feature);
    void add_row(std::int32_t row, const WordsView& words, float offset);

    PostingsView postings_;
    std::vector<std::int32_t> locals_;    // of each feature, or -1
    std::vector<std::int32_t> features_;  // by local number,
    std::vector<std::int32_t> numbers_;   // among the free words, or -1,
    std::vector<double> gradient_;
    std::vector<std::int32_t> free_features_;
    double fixed_square_ = 0.0;

    BitSet is_near_;
    std::vector<std::int32_t> row_ids_;
    std::vector<float> offsets_;
    std::vector<std::int64_t> begins_{0};
    std::vector<std::int32_t> words_;  // local numbers; longer than needed, as are the values
    std::vector<float> values_;
    // The order of the solver: by class, which is the number of the only free word, or else how many there are.
    std::vector<std::int32_t> classes_;
    std::vector<std::int32_t> order_;
    std::vector<std::int64_t> class_begins_;
    // Entries of free words, in the order of the rows here.
    std::vector<std::int64_t> free_begins_;
    std::vector<std::int32_t> free_words_;
    std::vector<float> free_values_;
};

}  // namespace longtail::linear
