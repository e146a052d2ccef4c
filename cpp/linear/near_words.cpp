#include "linear/near_words.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

namespace longtail::linear {

std::int32_t NearWords::add_word(std::int32_t feature) {
    const auto local = static_cast<std::int32_t>(features_.size());
    locals_[feature] = local;
    features_.push_back(feature);
    numbers_.push_back(-1);
    return local;
}

void NearWords::make_free(std::int32_t feature) {
    const std::int32_t local = locals_[feature] < 0 ? add_word(feature) : locals_[feature];
    if (numbers_[local] >= 0) return;
    numbers_[local] = static_cast<std::int32_t>(free_features_.size());
    free_features_.push_back(feature);
}

void NearWords::add_rows(std::span<const std::int32_t> row_ids, std::span<const float> offsets) {
    for (const std::int32_t row : row_ids)
        if (is_near_.add(row))
            add_row(row, {postings_.ordered.row_indices(row), postings_.ordered.row_values(row)},
                    offsets.empty() ? 1.0F : offsets[row]);
}

void NearWords::add_postings(std::span<const std::int64_t> postings, std::span<const float> offsets) {
    // Where the row is, the row, and what is known of its words are fetched so many rows ahead.
    constexpr std::size_t kFarthest = 32;
    constexpr std::size_t kFar = 16;
    constexpr std::size_t kNear = 6;
    for (std::size_t i = 0; i < postings.size(); ++i) {
        if (i + kFarthest < postings.size()) postings_.prefetch_place(postings[i + kFarthest]);
        if (i + kFar < postings.size()) postings_.prefetch(postings[i + kFar]);
        if (i + kNear < postings.size())
            for (const std::int32_t feature : postings_.row(postings[i + kNear]).features)
                __builtin_prefetch(locals_.data() + feature);
        const std::int32_t row = postings_.row_ids[postings[i]];
        if (is_near_.add(row)) add_row(row, postings_.row(postings[i]), offsets.empty() ? 1.0F : offsets[postings[i]]);
    }
}

void NearWords::add_row(std::int32_t row, const WordsView& words, float offset) {
    const auto begin = static_cast<std::size_t>(begins_.back());
    const std::size_t end = begin + words.features.size();
    if (end > words_.size()) {
        words_.resize(2 * end);
        values_.resize(2 * end);
    }
    for (std::size_t i = 0; i < words.features.size(); ++i) {
        const std::int32_t local = locals_[words.features[i]];
        words_[begin + i] = local < 0 ? add_word(words.features[i]) : local;
        values_[begin + i] = words.values[i];
    }
    row_ids_.push_back(row);
    offsets_.push_back(offset);
    begins_.push_back(static_cast<std::int64_t>(end));
}

void NearWords::set_offsets(std::span<const float> offsets) {
    for (std::size_t i = 0; i < row_ids_.size(); ++i) offsets_[i] = offsets[row_ids_[i]];
}

void NearWords::keep_free(std::vector<double>& point, std::size_t n_kept) {
    const std::size_t n_free = free_features_.size();
    std::size_t at = n_kept;
    for (std::size_t i = n_kept; i < n_free; ++i) {
        const std::int32_t feature = free_features_[i];
        numbers_[locals_[feature]] = point[i] == 0.0 ? -1 : static_cast<std::int32_t>(at);
        if (point[i] == 0.0) continue;
        free_features_[at] = feature;
        point[at++] = point[i];
    }
    point[at] = point[n_free];
    point.resize(at + 1);
    free_features_.resize(at);
}

void NearWords::make_all_free() {
    for (std::int64_t i = 0; i < begins_.back(); ++i) make_free(features_[words_[i]]);
}

void NearWords::order_as_added() {
    order_.resize(row_ids_.size());
    std::iota(order_.begin(), order_.end(), 0);
}

void NearWords::arrange(NearRows& near) {
    const std::size_t n_rows = row_ids_.size();
    const std::size_t n_positives = static_cast<std::size_t>(near.n_positives);
    const std::size_t n_free = free_features_.size();
    free_begins_.resize(n_rows + 1);
    const auto n_entries = static_cast<std::size_t>(begins_.back());
    free_words_.resize(n_entries + 1);  // entries that are not kept are written too, and then written over
    free_values_.resize(n_entries + 1);
    classes_.resize(n_rows);
    class_begins_.assign(n_free + NearRows::kSizes + 2, 0);
    std::size_t n_kept = 0;
    for (std::size_t row = 0; row < n_rows; ++row) {
        const std::size_t begin = n_kept;
        free_begins_[row] = static_cast<std::int64_t>(begin);
        for (std::int64_t i = begins_[row]; i < begins_[row + 1]; ++i) {
            const std::int32_t number = numbers_[words_[i]];
            free_words_[n_kept] = number;
            free_values_[n_kept] = values_[i];
            n_kept += number >= 0 ? 1 : 0;
        }
        if (row < n_positives) continue;
        const std::size_t n_own = n_kept - begin;
        const std::size_t size_class = std::min<std::size_t>(n_own - NearRows::kFirstSize, NearRows::kSizes);
        classes_[row] = n_own == 1 ? free_words_[begin] : static_cast<std::int32_t>(n_free + size_class);
        ++class_begins_[classes_[row] + 1];
    }
    free_begins_[n_rows] = static_cast<std::int64_t>(n_kept);
    class_begins_[0] = near.n_positives;
    for (std::size_t i = 1; i < class_begins_.size(); ++i) class_begins_[i] += class_begins_[i - 1];
    near.clear_rows();
    for (std::size_t word = 0; word < n_free; ++word)
        near.add_run(class_begins_[word], class_begins_[word + 1], static_cast<std::int32_t>(word));
    std::copy_n(class_begins_.begin() + static_cast<std::int64_t>(n_free), near.size_begins.size(),
                near.size_begins.begin());
    // Rows of up to four words have known places for their entries; the others follow in the order they have here.
    const std::int64_t first_entry = free_begins_[n_positives];
    std::array<std::int64_t, NearRows::kSizes + 1> size_entries;
    size_entries[0] = first_entry + near.size_begins[0] - near.n_positives;
    for (int i = 0; i < NearRows::kSizes; ++i)
        size_entries[i + 1] =
            size_entries[i] + (NearRows::kFirstSize + i) * (near.size_begins[i + 1] - near.size_begins[i]);
    order_.resize(n_rows);
    near.offsets.resize(n_rows);
    near.begins.resize(n_rows + 1);
    near.words.resize(n_kept);
    near.values.resize(n_kept);
    std::iota(order_.begin(), order_.begin() + near.n_positives, 0);
    std::copy_n(offsets_.begin(), n_positives, near.offsets.begin());
    std::copy_n(free_begins_.begin(), n_positives, near.begins.begin());
    std::copy_n(free_words_.begin(), first_entry, near.words.begin());
    std::copy_n(free_values_.begin(), first_entry, near.values.begin());
    for (std::int64_t row = near.n_positives; row < near.size_begins[0]; ++row)
        near.begins[row] = first_entry + row - near.n_positives;
    for (int i = 0; i < NearRows::kSizes; ++i)
        for (std::int64_t row = near.size_begins[i]; row < near.size_begins[i + 1]; ++row)
            near.begins[row] = size_entries[i] + (NearRows::kFirstSize + i) * (row - near.size_begins[i]);
    std::int64_t at = size_entries[NearRows::kSizes];
    for (std::size_t row = n_positives; row < n_rows; ++row) {
        const auto own_class = static_cast<std::size_t>(classes_[row]);
        const std::int64_t place = class_begins_[own_class]++;
        const std::int64_t begin = free_begins_[row];
        order_[place] = static_cast<std::int32_t>(row);
        near.offsets[place] = offsets_[row];
        if (own_class < n_free) {
            const std::int64_t entry = first_entry + place - near.n_positives;
            near.words[entry] = free_words_[begin];
            near.values[entry] = free_values_[begin];
        } else {
            const bool is_sized = own_class < n_free + NearRows::kSizes;
            if (!is_sized) near.begins[place] = at;
            std::int64_t entry = near.begins[place];
            for (std::int64_t i = begin; i < free_begins_[row + 1]; ++i, ++entry) {
                near.words[entry] = free_words_[i];
                near.values[entry] = free_values_[i];
            }
            if (!is_sized) at = entry;
        }
    }
    near.begins[n_rows] = at;
    near.resize_point(n_free);
}

double NearWords::set_fixed_gradient(std::span<const double> slopes) {
    gradient_.assign(features_.size(), 0.0);
    for (std::size_t place = 0; place < order_.size(); ++place) {
        const double slope = slopes[place];
        if (slope == 0.0) continue;
        const std::int32_t row = order_[place];
        for (std::int64_t i = begins_[row]; i < begins_[row + 1]; ++i) gradient_[words_[i]] += slope * values_[i];
    }
    fixed_square_ = 0.0;
    for (std::size_t word = 0; word < gradient_.size(); ++word)
        fixed_square_ += numbers_[word] < 0 ? gradient_[word] * gradient_[word] : 0.0;
    return fixed_square_;
}

std::size_t NearWords::free_largest(double goal) {
    constexpr int kLevels = 64;  // squares of entries by powers of two below the whole
    if (fixed_square_ <= goal) return 0;
    const auto exponent = [](double square) { return static_cast<int>(std::bit_cast<std::uint64_t>(square) >> 52U); };
    const int top = exponent(fixed_square_);
    const auto level = [&](std::size_t word) {
        return std::clamp(top - exponent(gradient_[word] * gradient_[word]), 0, kLevels - 1);
    };
    double squares[kLevels] = {};
    for (std::size_t word = 0; word < gradient_.size(); ++word)
        if (numbers_[word] < 0) squares[level(word)] += gradient_[word] * gradient_[word];
    int last = kLevels - 1;
    for (double left = squares[last]; last > 0 && left <= goal; left += squares[--last]) {}
    const std::size_t before = free_features_.size();
    for (std::size_t word = 0; word < gradient_.size(); ++word)
        if (numbers_[word] < 0 && gradient_[word] != 0.0 && level(word) <= last) make_free(features_[word]);
    return free_features_.size() - before;
}

void NearWords::forget_rows() {
    for (const std::int32_t row : row_ids_) is_near_.remove_around(row);
    row_ids_.clear();
    offsets_.clear();
    begins_.assign(1, 0);
    order_.clear();
}

void NearWords::forget_words(std::size_t n_kept) {
    for (std::size_t i = n_kept; i < features_.size(); ++i) locals_[features_[i]] = -1;
    features_.resize(n_kept);
    numbers_.resize(n_kept);
    free_features_.resize(n_kept);
}

void NearWords::forget_all() {
    forget_rows();
    forget_words(0);
}

}  // namespace longtail::linear
