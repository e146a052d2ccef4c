#include "linear/row_finder.hpp"

#include <bit>
#include <cmath>
#include <utility>

namespace longtail::linear {

namespace {
constexpr double kRowCost = 100.0;      // what a row takes that is found, in entries of lists
constexpr std::int64_t kFewShare = 32;  // lists of fewer entries than this share of the rows are read again instead
constexpr double kUnitRoundoff = 6e-8;  // of float32
}  // namespace

RowFinder::RowFinder(const WordLists& lists)
    : lists_(lists),
      sums_(static_cast<std::size_t>(lists.n_blocks() * WordLists::kBlockRows), 0.0F),
      is_touched_(static_cast<std::size_t>(lists.n_blocks()), 0) {}

// What small weights of other words, and the rounding of sums, may add to a row.
double RowFinder::rest(std::span<const WordWeight> words, double other_square) const {
    double square = 0.0;
    for (const WordWeight& word : words) square += static_cast<double>(word.weight) * word.weight;
    return lists_.max_row_norm() *
           (std::sqrt(other_square) + kUnitRoundoff * static_cast<double>(words.size() + 4) * std::sqrt(square));
}

std::int64_t RowFinder::plan(std::span<const WordWeight> words, double floor, double other_square) {
    double squares[WordLists::kLevels + 1] = {};
    std::int64_t sizes[WordLists::kLevels + 1] = {};
    for (const WordWeight& word : words) {
        squares[lists_.level(word.feature)] += static_cast<double>(word.weight) * word.weight;
        sizes[lists_.level(word.feature)] += lists_.size(word.feature);
    }
    const double above_sums = rest(words, other_square);
    if (above_sums >= floor) return -1;
    std::int64_t n_entries = 0;
    for (const std::int64_t size : sizes) n_entries += size;
    double least_cost = static_cast<double>(n_entries);
    level_ = 0;
    double frequent_square = 0.0;
    frequent_norm_ = 0.0F;
    for (int at_level = 1; at_level < WordLists::kLevels; ++at_level) {
        frequent_square += squares[at_level];
        n_entries -= sizes[at_level];
        const double norm = 1.00001 * std::sqrt(frequent_square);
        const double cost = static_cast<double>(n_entries) +
                            kRowCost * static_cast<double>(lists_.n_above(at_level, (floor - above_sums) / norm));
        if (cost >= least_cost) continue;
        least_cost = cost;
        level_ = at_level;
        frequent_norm_ = static_cast<float>(norm);
    }
    read_.clear();
    n_read_ = 0;
    for (const WordWeight& word : words) {
        if (level_ > 0 && lists_.level(word.feature) <= level_) continue;
        read_.push_back(word);
        n_read_ += lists_.size(word.feature);
    }
    least_ = static_cast<float>(floor - above_sums);
    return static_cast<std::int64_t>(least_cost);
}

std::int64_t RowFinder::plan_rare(std::span<const WordWeight> words, double floor) {
    read_.clear();
    n_read_ = 0;
    for (const WordWeight& word : words) {
        if (lists_.level(word.feature) < WordLists::kLevels) continue;
        read_.push_back(word);
        n_read_ += lists_.size(word.feature);
    }
    level_ = 0;
    frequent_norm_ = 0.0F;
    least_ = static_cast<float>(floor);
    return n_read_;
}

void RowFinder::add_lists() {
    float* const sums = sums_.data();
    std::uint16_t* const is_touched = is_touched_.data();
    for (const WordWeight& word : read_) {
        const float weight = word.weight;
        for (const WordEntry& entry : lists_.list(word.feature)) {
            const auto place = static_cast<std::uint32_t>(entry.id);
            sums[place] += weight * entry.value;
            is_touched[place / WordLists::kBlockRows] = 1;
        }
    }
}

const std::vector<FoundRow>& RowFinder::find(const float* weights) {
    found_.clear();
    float* const sums = sums_.data();
    if (level_ == 0 && kFewShare * n_read_ < lists_.n_rows()) {  // quicker than to look at blocks of rows
        for (const WordWeight& word : read_)
            for (const WordEntry& entry : lists_.list(word.feature)) sums[entry.id] += word.weight * entry.value;
        for (const WordWeight& word : read_)
            for (const WordEntry& entry : lists_.list(word.feature))
                if (const float sum = std::exchange(sums[entry.id], 0.0F);
                    sum > least_ && sum + lists_.lowering(entry.id, weights) > least_)
                    found_.push_back({entry.id, sum});
        return found_;
    }
    add_lists();
    const Lanes least = Lanes{} + least_;
    const Lanes nothing{};
    const float* const norms = level_ == 0 ? sums : lists_.frequent_norms(level_).data();
    const float* const block_norms = lists_.block_norms(level_).data();
    for (std::int64_t block = 0; block < lists_.n_blocks(); ++block) {
        const bool was_touched = std::exchange(is_touched_[block], 0) != 0;
        if (!was_touched && (level_ == 0 || frequent_norm_ * block_norms[block] <= least_)) continue;
        const std::int64_t end = (block + 1) * WordLists::kBlockRows;
        for (std::int64_t at = block * WordLists::kBlockRows; at < end; at += kLanes) {
            Lanes own;
            Lanes bounds;
            load(own, sums + at);
            load(bounds, norms + at);
            bounds = own + frequent_norm_ * bounds;
            for (std::uint32_t above = bits_greater(bounds, least); above != 0; above &= above - 1) {
                const std::int64_t place = at + std::countr_zero(above);
                found_.push_back({static_cast<std::int32_t>(place), sums[place]});
            }
            store(nothing, sums + at);
        }
    }
    constexpr std::size_t kAhead = 16;
    std::size_t n_kept = 0;
    for (std::size_t i = 0; i < found_.size(); ++i) {
        if (i + kAhead < found_.size()) lists_.prefetch_tops(found_[i + kAhead].row_id);
        const FoundRow& row = found_[i];
        const float bound = row.value + (level_ == 0 ? 0.0F : frequent_norm_ * norms[row.row_id]);
        if (bound + lists_.lowering(row.row_id, weights) > least_) found_[n_kept++] = row;
    }
    found_.resize(n_kept);
    return found_;
}

const std::vector<FoundRow>& RowFinder::find_far(std::span<const WordWeight> words, double floor, double other_square,
                                                 const float* weights) {
    read_.assign(words.begin(), words.end());
    const auto least = static_cast<float>(floor - rest(words, other_square));
    found_.clear();
    add_lists();
    const auto check = [&](std::int64_t place) {
        if (sums_[place] + lists_.lowering(place, weights) > least)
            found_.push_back({static_cast<std::int32_t>(place), sums_[place]});
    };
    for (const RowGroup& group : lists_.groups()) {
        if (WordLists::lowering(group, weights) > least) {
            for (std::int32_t place = group.first; place < group.last; ++place) check(place);
            continue;
        }
        for (std::int64_t block = group.first / WordLists::kBlockRows; block * WordLists::kBlockRows < group.last;
             ++block) {
            if (!is_touched_[block]) continue;
            const std::int64_t first = std::max<std::int64_t>(group.first, block * WordLists::kBlockRows);
            const std::int64_t last = std::min<std::int64_t>(group.last, (block + 1) * WordLists::kBlockRows);
            for (std::int64_t place = first; place < last; ++place)
                if (sums_[place] > least) check(place);
        }
    }
    for (std::int64_t block = 0; block < lists_.n_blocks(); ++block)
        if (std::exchange(is_touched_[block], 0) != 0)
            std::fill_n(sums_.begin() + block * WordLists::kBlockRows, WordLists::kBlockRows, 0.0F);
    return found_;
}

}  // namespace longtail::linear
