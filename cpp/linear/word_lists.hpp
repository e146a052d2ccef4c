#pragma once

// The rows of each feature, and the rows once more in an order where those that share their most frequent word stand
// together, and among them those that share the next. The rows of a word are then in few places of the memory. Rows are
// known by their place in that order.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "linear/posting_lists.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

// X in that order, and its columns: made once for all labels, and handed on as a PostingsView without sums.
struct WordListParts {
    explicit WordListParts(const SparseRows& rows);
    PostingsView view() const {
        const auto n_rows = static_cast<std::int64_t>(places.size());
        const auto n_features = static_cast<std::int64_t>(indptr.size()) - 1;
        PostingsView view;
        view.places = places;
        view.ordered = {n_rows, n_features, row_indptr, row_features, row_values};
        view.indptr = indptr;
        view.row_ids = row_ids;
        view.values = values;
        return view;
    }

    std::vector<std::int32_t> places;  // of each row of X
    std::vector<std::int64_t> row_indptr{0};
    std::vector<std::int32_t> row_features;
    std::vector<float> row_values;
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> row_ids;  // places
    std::vector<float> values;
};

struct WordEntry {
    std::int32_t id;  // of a word in a row, or of a row in the list of a word
    float value;
};

// The rows whose most frequent word is this one.
struct RowGroup {
    std::int32_t feature;
    std::int32_t first;
    std::int32_t last;
    float least_value;  // of the word in these rows
};

class WordLists {
public:
    static constexpr int kLevels = 5;  // what is frequent: nothing, and then more and more words
    static constexpr int kBlockRows = 64;

    explicit WordLists(const PostingsView& parts);

    // Words in more rows than this are frequent at the last level.
    static std::int64_t frequent_size(std::int64_t n_rows) { return n_rows >> (kFirstShift + kLevels - 2); }

    std::int64_t n_rows() const { return n_rows_; }
    std::int64_t n_blocks() const { return (n_rows_ + kBlockRows - 1) / kBlockRows; }
    std::int32_t place(std::int64_t row) const { return places_[row]; }
    double max_row_norm() const { return max_row_norm_; }

    std::span<const WordEntry> row(std::int64_t place) const {
        return {row_entries_.data() + row_begins_[place], row_entries_.data() + row_begins_[place + 1]};
    }
    float dot(std::int64_t place, const float* weights) const {
        float even = 0.0F;
        float odd = 0.0F;
        const WordEntry* at = row_entries_.data() + row_begins_[place];
        const WordEntry* const end = row_entries_.data() + row_begins_[place + 1];
        for (; at + 2 <= end; at += 2) {
            even += at[0].value * weights[at[0].id];
            odd += at[1].value * weights[at[1].id];
        }
        if (at < end) even += at->value * weights[at->id];
        return even + odd;
    }
    void prefetch_place(std::int64_t place) const { __builtin_prefetch(row_begins_.data() + place); }
    void prefetch(std::int64_t place) const {
        const WordEntry* const at = row_entries_.data() + row_begins_[place];
        __builtin_prefetch(at);
        __builtin_prefetch(at + 8);
    }

    std::span<const WordEntry> list(std::int32_t feature) const {
        return {list_entries_.data() + list_begins_[feature], list_entries_.data() + list_begins_[feature + 1]};
    }
    std::int64_t size(std::int32_t feature) const { return list_begins_[feature + 1] - list_begins_[feature]; }
    // The first level at which a feature is frequent, or kLevels.
    int level(std::int32_t feature) const { return levels_[feature]; }
    // Of each row, the length of its part in words that are frequent at a level above 0, padded to whole blocks,
    std::span<const float> frequent_norms(int at_level) const { return norms_[at_level]; }
    // and the greatest of a block.
    std::span<const float> block_norms(int at_level) const { return block_norms_[at_level]; }
    // How many of them are above a limit, or a little below it.
    std::int64_t n_above(int at_level, double limit) const;

    std::span<const RowGroup> groups() const { return groups_; }
    // What the most frequent word of a group adds to all its margins if its weight is below zero, rounded up,
    static float lowering(const RowGroup& group, const float* weights) {
        return kRoundedUp * std::min(0.0F, weights[group.feature]) * group.least_value;
    }
    void prefetch_tops(std::int64_t place) const { __builtin_prefetch(tops_.data() + place); }
    // and what the two most frequent words of a row add to its own.
    float lowering(std::int64_t place, const float* weights) const {
        const auto& [first, second] = tops_[place];
        return kRoundedUp *
               (std::min(0.0F, weights[first.id]) * first.value + std::min(0.0F, weights[second.id]) * second.value);
    }

private:
    static constexpr int kFirstShift = 3;  // words are frequent that are in more than a row of 2^3, 2^4 and so on
    static constexpr int kBins = 64;
    static constexpr float kRoundedUp = 1.0F - 1e-6F;

    void set_groups();
    void set_norms();

    std::int64_t n_rows_;
    double max_row_norm_ = 0.0;
    std::span<const std::int32_t> places_;
    std::span<const std::int64_t> row_begins_;
    std::span<const std::int64_t> list_begins_;
    std::vector<WordEntry> row_entries_;
    std::vector<WordEntry> list_entries_;
    std::vector<std::int8_t> levels_;
    std::vector<std::array<WordEntry, 2>> tops_;  // the two most frequent words of each row
    std::vector<RowGroup> groups_;
    std::array<AlignedVector<float>, kLevels> norms_;
    std::array<std::vector<float>, kLevels> block_norms_;
    std::array<std::array<std::int64_t, kBins + 1>, kLevels> above_{};  // norms from bin b on
};

}  // namespace longtail::linear
