#include "linear/word_lists.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace longtail::linear {

namespace {
constexpr double kRowCost = 100.0;      // what a row takes that is found, in entries of lists
constexpr std::int64_t kFewShare = 8;   // lists of fewer entries than this share of the rows are read again instead
constexpr double kUnitRoundoff = 6e-8;  // of float32
}  // namespace

WordLists::WordLists(const SparseRows& rows)
    : n_rows_(rows.n_rows()),
      indptr_(static_cast<std::size_t>(rows.n_features()) + 1, 0),
      row_ids_(static_cast<std::size_t>(rows.n_stored())),
      values_(row_ids_.size()),
      levels_(static_cast<std::size_t>(rows.n_features()), kLevels) {
    for (std::int64_t row = 0; row < n_rows_; ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++indptr_[feature + 1]; });
    for (int at_level = kLevels - 1; at_level > 0; --at_level)
        for (std::int32_t feature = 0; feature < rows.n_features(); ++feature)
            if (indptr_[feature + 1] > n_rows_ >> (kFirstShift + at_level - 1))
                levels_[feature] = static_cast<std::int8_t>(at_level);
    for (std::int64_t feature = 0; feature < rows.n_features(); ++feature) indptr_[feature + 1] += indptr_[feature];
    std::vector<std::int64_t> cursor(indptr_.begin(), indptr_.end() - 1);
    for (int at_level = 1; at_level < kLevels; ++at_level)
        norms_[at_level].assign(static_cast<std::size_t>((n_rows_ + kLanes - 1) / kLanes * kLanes), 0.0F);
    double max_square = 0.0;
    for (std::int64_t row = 0; row < n_rows_; ++row) {
        double squares[kLevels + 1] = {};
        rows.for_each(row, [&](std::int32_t feature, float value) {
            const std::int64_t at = cursor[feature]++;
            row_ids_[at] = static_cast<std::int32_t>(row);
            values_[at] = value;
            squares[levels_[feature]] += static_cast<double>(value) * value;
        });
        for (int at_level = 1; at_level < kLevels; ++at_level) {
            squares[at_level] += squares[at_level - 1];
            norms_[at_level][row] = static_cast<float>(1.00001 * std::sqrt(squares[at_level]));
        }
        max_square = std::max(max_square, squares[kLevels - 1] + squares[kLevels]);
    }
    max_row_norm_ = 1.00001 * std::sqrt(max_square);
    for (int at_level = 1; at_level < kLevels; ++at_level) {
        for (std::int64_t row = 0; row < n_rows_; ++row)
            ++above_[at_level][static_cast<std::size_t>(kBins * norms_[at_level][row] / max_row_norm_)];
        for (int bin = kBins; bin > 0; --bin) above_[at_level][bin - 1] += above_[at_level][bin];
    }
}

std::int64_t WordLists::n_above(int at_level, double limit) const {
    return limit < max_row_norm_ ? above_[at_level][static_cast<std::size_t>(kBins * limit / max_row_norm_)] : 0;
}

RowFinder::RowFinder(const WordLists& lists)
    : lists_(lists), sums_(static_cast<std::size_t>((lists.n_rows() + kLanes - 1) / kLanes * kLanes), 0.0F) {}

std::int64_t RowFinder::plan(std::span<const WordWeight> words, double floor, double other_square) {
    double squares[WordLists::kLevels + 1] = {};
    std::int64_t sizes[WordLists::kLevels + 1] = {};
    double square = 0.0;
    for (const WordWeight& word : words) {
        const double own = static_cast<double>(word.weight) * word.weight;
        squares[lists_.level(word.feature)] += own;
        sizes[lists_.level(word.feature)] += lists_.size(word.feature);
        square += own;
    }
    // Small weights of other words, and the rounding of sums.
    const double rest =
        lists_.max_row_norm() *
        (std::sqrt(other_square) + kUnitRoundoff * static_cast<double>(words.size() + 4) * std::sqrt(square));
    if (rest >= floor) return -1;
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
                            kRowCost * static_cast<double>(lists_.n_above(at_level, (floor - rest) / norm));
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
    least_ = static_cast<float>(floor - rest);
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

const std::vector<FoundRow>& RowFinder::find() {
    found_.clear();
    for (const WordWeight& word : read_) lists_.add_to(word.feature, word.weight, sums_.data());
    if (level_ == 0 && kFewShare * n_read_ < lists_.n_rows()) {  // quicker than to look at all rows
        for (const WordWeight& word : read_)
            lists_.take(word.feature, sums_.data(), [&](std::int32_t row, float sum) {
                if (sum > least_) found_.push_back({row, sum});
            });
        return found_;
    }
    const auto n = static_cast<std::int64_t>(sums_.size());
    const Lanes least = Lanes{} + least_;
    const Lanes nothing{};
    const float* const norms = level_ == 0 ? sums_.data() : lists_.frequent_norms(level_).data();
    for (std::int64_t at = 0; at < n; at += kLanes) {
        Lanes sums;
        Lanes bounds;
        load(sums, sums_.data() + at);
        load(bounds, norms + at);
        bounds = sums + frequent_norm_ * bounds;
        for (std::uint32_t above = bits_greater(bounds, least); above != 0; above &= above - 1) {
            const std::int64_t row = at + std::countr_zero(above);
            found_.push_back({static_cast<std::int32_t>(row), sums_[row]});
        }
        store(nothing, sums_.data() + at);
    }
    return found_;
}

}  // namespace longtail::linear
