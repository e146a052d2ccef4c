#pragma once

// The rows of each feature, and how to find the rows above a margin through them.
//
// Let all values of X be at least zero. Then a row is above a margin only if its words with weights above zero lift it
// there. Some of these words are frequent, with long lists, small values and small weights: together they lift a row by
// at most the length of their weights times that of the row's part in frequent words (Cauchy and Schwarz), and this
// length is stored for each row. So the lists of the frequent words are not read, as long as few rows may be above the
// margin by that bound alone. What is frequent is chosen for each search, from a few levels.

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

struct WordWeight {
    std::int32_t feature;
    float weight;
};

class WordLists {
public:
    static constexpr int kLevels = 5;  // what is frequent: nothing, and then more and more words

    explicit WordLists(const SparseRows& rows);

    // Words in more rows than this are frequent at the last level.
    static std::int64_t frequent_size(std::int64_t n_rows) { return n_rows >> (kFirstShift + kLevels - 2); }

    std::int64_t n_rows() const { return n_rows_; }
    std::int64_t size(std::int32_t feature) const { return indptr_[feature + 1] - indptr_[feature]; }
    double max_row_norm() const { return max_row_norm_; }
    // The first level at which a feature is frequent, or kLevels.
    int level(std::int32_t feature) const { return levels_[feature]; }
    // Of each row, the length of its part in words that are frequent at a level above 0, padded to whole lanes.
    std::span<const float> frequent_norms(int at_level) const { return norms_[at_level]; }
    // How many of them are above a limit, or a little below it.
    std::int64_t n_above(int at_level, double limit) const;

    // sums[row] += weight · value for the rows of a feature.
    void add_to(std::int32_t feature, float weight, float* sums) const {
        const std::int64_t end = indptr_[feature + 1];
        for (std::int64_t i = indptr_[feature]; i < end; ++i) sums[row_ids_[i]] += weight * values_[i];
    }
    // visit(row, sums[row]) for the rows of a feature, and set the sums to zero.
    template <class Visit>
    void take(std::int32_t feature, float* sums, const Visit& visit) const {
        const std::int64_t end = indptr_[feature + 1];
        for (std::int64_t i = indptr_[feature]; i < end; ++i)
            visit(row_ids_[i], std::exchange(sums[row_ids_[i]], 0.0F));
    }

private:
    static constexpr int kFirstShift = 3;  // words are frequent that are in more than a row of 2^3, 2^4 and so on
    static constexpr int kBins = 64;

    std::int64_t n_rows_;
    double max_row_norm_ = 0.0;
    std::vector<std::int64_t> indptr_;
    std::vector<std::int32_t> row_ids_;
    std::vector<float> values_;
    std::vector<std::int8_t> levels_;
    std::array<AlignedVector<float>, kLevels> norms_;
    std::array<std::array<std::int64_t, kBins + 1>, kLevels> above_{};  // norms from bin b on
};

struct FoundRow {
    std::int32_t row_id;
    float value;  // a sum over the lists that were read, or a margin
};

class RowFinder {
public:
    explicit RowFinder(const WordLists& lists);

    // Choose the lists to read so that every row with w·x > floor (> 0) can be found; returns what that takes, in entries
    // of lists, or -1 if it cannot be done. `words` are those with weights above zero, except for some whose squares add
    // up to `other_square`.
    std::int64_t plan(std::span<const WordWeight> words, double floor, double other_square);

    // Read only lists of words that are at no level frequent, for rows that these words lift above the floor.
    std::int64_t plan_rare(std::span<const WordWeight> words, double floor);

    // Every row whose sum may be above the floor, rows increasing.
    const std::vector<FoundRow>& find();

private:
    const WordLists& lists_;
    AlignedVector<float> sums_;  // zero between calls
    std::vector<WordWeight> read_;
    std::vector<FoundRow> found_;
    int level_ = 0;
    float frequent_norm_ = 0.0F;  // of the frequent words' weights
    std::int64_t n_read_ = 0;     // entries of the lists to read
    float least_ = 0.0F;          // a row's sum, with what frequent words may add, is above this
};

}  // namespace longtail::linear
