#pragma once

// How to find the rows above a margin through the lists of their words (word_lists.hpp).
//
// Let all values of X be at least zero. Then a row is above a margin only if its words with weights above zero lift it
// there. Some of these words are frequent, with long lists, small values and small weights: together they lift a row by
// at most the length of their weights times that of the row's part in frequent words (Cauchy and Schwarz), and this
// length is stored for each row. So the lists of the frequent words are not read, as long as few rows may be above the
// margin by that bound alone. What is frequent is chosen for each search, from a few levels.
//
// Of what the lists give, rows are left out that their two most frequent words keep below the margin: these words are
// in many rows, so that most labels have negative rows with them and give them weights below zero. Where rows without
// any word that lifts them are sought too, whole groups of rows that share their most frequent word are left out.

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "linear/word_lists.hpp"

namespace longtail::linear {

struct WordWeight {
    std::int32_t feature;
    float weight;
};

struct FoundRow {
    std::int32_t row_id;  // its place in the lists
    float value;          // a sum over the lists that were read, or a margin
};
inline bool is_above(const FoundRow& a, const FoundRow& b) {
    return a.value > b.value || (a.value == b.value && a.row_id < b.row_id);
}

class RowFinder {
public:
    explicit RowFinder(const WordLists& lists);

    // Choose the lists to read so that every row with w·x > floor (> 0) can be found; returns what that takes, in entries
    // of lists, or -1 if it cannot be done. `words` are those with weights above zero, except for some whose squares add
    // up to `other_square`.
    std::int64_t plan(std::span<const WordWeight> words, double floor, double other_square);

    // Read only lists of words that are at no level frequent, for rows that these words lift above the floor (> 0).
    std::int64_t plan_rare(std::span<const WordWeight> words, double floor);

    // Every row that may be above the floor of the plan. `weights` are those of all features, or zeros.
    const std::vector<FoundRow>& find(const float* weights);

    // Every row with w·x > floor, whatever the floor.
    const std::vector<FoundRow>& find_far(std::span<const WordWeight> words, double floor, double other_square,
                                          const float* weights);

private:
    double rest(std::span<const WordWeight> words, double other_square) const;
    void add_lists();

    const WordLists& lists_;
    AlignedVector<float> sums_;              // zero between calls,
    std::vector<std::uint16_t> is_touched_;  // by blocks of rows: 0
    std::vector<WordWeight> read_;
    std::vector<FoundRow> found_;
    int level_ = 0;
    float frequent_norm_ = 0.0F;  // of the frequent words' weights
    std::int64_t n_read_ = 0;     // entries of the lists to read
    float least_ = 0.0F;          // a row's sum, with what frequent words may add, is above this
};

}  // namespace longtail::linear
