#pragma once

// The columns of X: for each feature its rows and their values, largest values first, and running sums of the values
// and their squares. Where the rows of a word have margin t + w·value, those above zero are then one range of its
// column, and what they add to a loss and its derivatives is a difference of two sums.
//
// The rows themselves are here once more in another order: those that share their most frequent word stand together, and
// among them those that share the next. The rows of a word are then in few places of the memory. And each posting has a
// copy of its row, so that to look at the rows of a word is one walk through the memory. Long rows have none: a row of n
// words would have n copies. The gap of each row in the background (background.hpp) is there too, at the row and at its
// postings.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/views.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

constexpr std::int64_t kCopyPadding = 4;

// The entries of a row.
struct WordsView {
    std::span<const std::int32_t> features;
    std::span<const float> values;
};

// Features have numbers of their own here, the most frequent ones first: what is known of them is then mostly in the
// cache.
struct PostingsView {
    std::span<const std::int32_t> places;    // of each row of X in the order; empty: not made yet
    std::span<const std::int32_t> features;  // of X, by number
    CsrView ordered;
    std::span<const std::int64_t> indptr;   // n_features + 1
    std::span<const std::int32_t> row_ids;  // places in the order
    std::span<const float> values;
    std::span<const double> sums;                 // of all values before a place; n_stored + 1
    std::span<const double> squares;              // of their squares
    std::span<const std::int64_t> copy_begins;    // n_stored + 1; a posting of a long row has no copy
    std::span<const std::int32_t> copy_features;  // and kCopyPadding zeros
    std::span<const float> copy_values;
    std::span<const float> row_gaps;
    std::span<const float> posting_gaps;  // of the row of each posting
    // The rows of each feature that hold the background, those with a gap above zero: their places in its column.
    std::span<const std::int64_t> holder_indptr;
    std::span<const std::int32_t> holder_places;

    WordsView row(std::int64_t posting) const {
        const std::int64_t begin = copy_begins[posting];
        const auto size = static_cast<std::size_t>(copy_begins[posting + 1] - begin);
        if (size == 0) return {ordered.row_indices(row_ids[posting]), ordered.row_values(row_ids[posting])};
        return {copy_features.subspan(begin, size), copy_values.subspan(begin, size)};
    }
    // How many words of a posting's row obey `is_counted`. Sizes of rows differ, and a loop whose end is not foreseen costs
    // more than its turns: so the first words are looked at in any case, even where they are those of the next posting.
    template <class IsCounted>
    int count_words(std::int64_t posting, const IsCounted& is_counted) const {
        const std::int64_t begin = copy_begins[posting];
        const std::int64_t size = copy_begins[posting + 1] - begin;
        int n = 0;
        if (size == 0) {
            for (const std::int32_t feature : row(posting).features) n += is_counted(feature) ? 1 : 0;
            return n;
        }
        for (std::int64_t i = 0; i < kCopyPadding; ++i)
            n += static_cast<int>(is_counted(copy_features[begin + i])) & static_cast<int>(i < size);
        for (std::int64_t i = kCopyPadding; i < size; ++i) n += is_counted(copy_features[begin + i]) ? 1 : 0;
        return n;
    }
    void prefetch_place(std::int64_t posting) const {
        __builtin_prefetch(copy_begins.data() + posting);
        __builtin_prefetch(row_ids.data() + posting);
        if (!posting_gaps.empty()) __builtin_prefetch(posting_gaps.data() + posting);
    }
    void prefetch(std::int64_t posting) const {
        __builtin_prefetch(copy_features.data() + copy_begins[posting]);
        __builtin_prefetch(copy_values.data() + copy_begins[posting]);
    }
};

struct Postings {
    // With the weights of the background, by features of X, and its shift; without weights there are no gaps.
    explicit Postings(const SparseRows& rows, std::span<const double> background_weights = {},
                      double background_shift = 0.0);
    PostingsView view() const {
        const auto n_rows = static_cast<std::int64_t>(places.size());
        const auto n_features = static_cast<std::int64_t>(indptr.size()) - 1;
        return {places,        features,      {n_rows, n_features, row_indptr, row_features, row_values},
                indptr,        row_ids,       values,
                sums,          squares,       copy_begins,
                copy_features, copy_values,   row_gaps,
                posting_gaps,  holder_indptr, holder_places};
    }

    std::vector<std::int32_t> places;
    std::vector<std::int32_t> features;
    std::vector<std::int64_t> row_indptr{0};
    std::vector<std::int32_t> row_features;
    std::vector<float> row_values;
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> row_ids;
    std::vector<float> values;
    std::vector<double> sums;
    std::vector<double> squares;
    std::vector<std::int64_t> copy_begins{0};
    std::vector<std::int32_t> copy_features;
    std::vector<float> copy_values;
    std::vector<float> row_gaps;
    std::vector<float> posting_gaps;
    std::vector<std::int64_t> holder_indptr;
    std::vector<std::int32_t> holder_places;

private:
    void copy_rows();
    void set_gaps(std::span<const double> weights, double shift);
};

// A set of small numbers: one bit for each, so that it stays in the cache.
class BitSet {
public:
    explicit BitSet(std::int64_t n) : words_(static_cast<std::size_t>(n / 64 + 1), 0) {}

    bool has(std::int64_t i) const { return (words_[i >> 6] >> (i & 63) & 1U) != 0; }
    // True if it was not there.
    bool add(std::int64_t i) {
        std::uint64_t& word = words_[i >> 6];
        const std::uint64_t bit = std::uint64_t{1} << (i & 63);
        const bool is_new = (word & bit) == 0;
        word |= bit;
        return is_new;
    }
    void clear() { std::fill(words_.begin(), words_.end(), 0); }
    // visit(i) for all of them in order, and remove them.
    template <class Visit>
    void take_all(const Visit& visit) {
        for (std::size_t at = 0; at < words_.size(); ++at)
            for (; words_[at] != 0; words_[at] &= words_[at] - 1)
                visit(static_cast<std::int64_t>(64 * at) + std::countr_zero(words_[at]));
    }
    // Right only when everything that was added is removed in turn: its neighbours in the word go too.
    void remove_around(std::int64_t i) { words_[i >> 6] = 0; }

private:
    std::vector<std::uint64_t> words_;
};

}  // namespace longtail::linear
