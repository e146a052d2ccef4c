// How the trainer of short rows finds the rows that have several words of a label's positives.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "linear/postings.hpp"

namespace longtail::linear {

namespace {

// So many row numbers are read in the time of a look at the words of a row.
constexpr std::int64_t kWordsCost = 4;

}  // namespace

// The positives, and the rows with several of their words, as they look through those words; the others are in the
// columns of the words.
void PostingsTrainer::find_rows(std::span<const std::int32_t> positives) {
    core_.clear();
    listed_.assign(positives.size(), -1);
    core_.n_positives = static_cast<std::int64_t>(positives.size());
    for (const std::int32_t original : positives) {
        const std::int32_t row = postings_.places[original];
        core_.rows.push_back(row);
        is_listed_.add(row);
        rows_.for_each(row, [&](std::int32_t feature, float value) {
            near_words_.make_free(feature);
            is_core_.add(feature);
            core_.places.push_back(near_words_.number(feature));
            core_.values.push_back(value);
        });
        core_.begins.push_back(static_cast<std::int64_t>(core_.places.size()));
    }
    const std::vector<std::int32_t>& features = near_words_.free_features();
    n_core_ = static_cast<std::int64_t>(features.size());
    std::size_t largest = 0;
    std::int64_t n_postings = 0;
    for (std::size_t place = 0; place < features.size(); ++place) {
        const std::int64_t begin = postings_.indptr[features[place]];
        const std::int64_t size = postings_.indptr[features[place] + 1] - begin;
        core_.columns.push_back(
            {postings_.values.data() + begin, postings_.sums.data() + begin, postings_.squares.data() + begin, size});
        if (size > core_.columns[largest].size) largest = place;
        n_postings += size;
    }
    shared_.clear();
    if (n_core_ > 1) {
        const std::int64_t n_others = n_postings - core_.columns[largest].size;
        if (n_postings < kWordsCost * n_others)
            find_shared_by_rows(largest);
        else
            find_shared_by_words(largest);
        list_shared();
    }
    // Each row that is not listed is in one column.
    const std::int64_t n_found =
        n_postings - static_cast<std::int64_t>(core_.places.size()) + static_cast<std::int64_t>(core_.rows.size());
    core_.config = {config_.cost, start_.positive_cost, 1.0 / (static_cast<double>(config_.bias) * config_.bias),
                    static_cast<double>(rows_.n_rows() - n_found)};
}

// Look at the words of the rows of each column but the largest: a row with several words is in another one too.
void PostingsTrainer::find_shared_by_words(std::size_t largest) {
    const std::vector<std::int32_t>& features = near_words_.free_features();
    const auto is_core = [&](std::int32_t other) { return is_core_.has(other); };
    for (std::size_t place = 0; place < features.size(); ++place) {
        if (place == largest) continue;
        for (std::int64_t i = postings_.indptr[features[place]]; i < postings_.indptr[features[place] + 1]; ++i)
            if (postings_.count_words(i, is_core) > 1) shared_.push_back(i);
    }
}

// Note the rows of each column but the largest, which comes last, and find those that were there before.
void PostingsTrainer::find_shared_by_rows(std::size_t largest) {
    const std::vector<std::int32_t>& features = near_words_.free_features();
    for (std::size_t place = 0; place < features.size(); ++place) {
        if (place == largest) continue;
        for (std::int64_t i = postings_.indptr[features[place]]; i < postings_.indptr[features[place] + 1]; ++i)
            if (!is_seen_.add(postings_.row_ids[i])) shared_.push_back(i);
    }
    for (std::int64_t i = postings_.indptr[features[largest]]; i < postings_.indptr[features[largest] + 1]; ++i)
        if (is_seen_.has(postings_.row_ids[i])) shared_.push_back(i);
    is_seen_.clear();
}

// List the rows of shared_, each once, those with two of the words first.
void PostingsTrainer::list_shared() {
    constexpr std::size_t kFarthest = 24;  // so many rows ahead memory is fetched
    constexpr std::size_t kFar = 12;
    const auto is_core = [&](std::int32_t other) { return is_core_.has(other); };
    std::size_t n_longer = 0;
    pairs_.clear();
    pair_postings_.clear();
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (i + kFarthest < shared_.size()) postings_.prefetch_place(shared_[i + kFarthest]);
        if (i + kFar < shared_.size()) postings_.prefetch(shared_[i + kFar]);
        const std::int64_t posting = shared_[i];
        const std::int32_t row = postings_.row_ids[posting];
        if (!is_listed_.add(row)) continue;
        if (postings_.count_words(posting, is_core) != 2) {
            shared_[n_longer++] = posting;
            continue;
        }
        const auto [features, values] = postings_.row(posting);
        WordPair pair{row, {}, {}};
        int n = 0;
        for (std::size_t j = 0; j < features.size(); ++j) {
            if (!is_core_.has(features[j])) continue;
            pair.places[n] = near_words_.number(features[j]);
            pair.values[n++] = values[j];
        }
        if (pair.places[0] > pair.places[1]) {
            std::swap(pair.places[0], pair.places[1]);
            std::swap(pair.values[0], pair.values[1]);
        }
        pairs_.push_back(pair);
        pair_postings_.push_back(posting);
    }
    sort_pairs(1);
    sort_pairs(0);
    core_.add_pairs(pairs_);
    listed_.insert(listed_.end(), pair_postings_.begin(), pair_postings_.end());
    for (std::size_t i = 0; i < n_longer; ++i) list_row(shared_[i]);
}

// By their first or their second word; equal ones keep their order.
void PostingsTrainer::sort_pairs(int by) {
    pair_begins_.assign(static_cast<std::size_t>(n_core_) + 1, 0);
    for (const WordPair& pair : pairs_) ++pair_begins_[pair.places[by] + 1];
    for (std::int64_t place = 0; place < n_core_; ++place) pair_begins_[place + 1] += pair_begins_[place];
    sorted_pairs_.resize(pairs_.size());
    sorted_postings_.resize(pairs_.size());
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const std::size_t target = pair_begins_[pairs_[i].places[by]]++;
        sorted_pairs_[target] = pairs_[i];
        sorted_postings_[target] = pair_postings_[i];
    }
    pairs_.swap(sorted_pairs_);
    pair_postings_.swap(sorted_postings_);
}

void PostingsTrainer::list_row(std::int64_t posting) {
    const auto [features, values] = postings_.row(posting);
    core_.rows.push_back(postings_.row_ids[posting]);
    listed_.push_back(posting);
    for (std::size_t i = 0; i < features.size(); ++i) {
        if (!is_core_.has(features[i])) continue;
        core_.places.push_back(near_words_.number(features[i]));
        core_.values.push_back(values[i]);
    }
    core_.begins.push_back(static_cast<std::int64_t>(core_.places.size()));
}

}  // namespace longtail::linear
