#include "fastxml/ranked_sides.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "fastxml/logistic.hpp"

namespace longtail::fastxml {
namespace {

constexpr float kUnit = 1 << 20;          // fixed point: steps of one millionth; room for 2^43 times the weight one
constexpr float kTie = 1e-6F;             // rounding in a sum of discounts must not move a row
constexpr std::size_t kFewMoved = 16;     // if fewer than 1/16 of the rows moved, rankings have hardly changed
constexpr std::int32_t kMaxRounds = 200;  // finite by theorem 1; the cap is for rounding

// Not llround, which is a call into the library; any rounding will do if it is the same everywhere.
std::int64_t fixed_point(float weight) { return static_cast<std::int64_t>(kUnit * weight + 0.5F); }

constexpr std::int64_t kLabelBits = 0xFFFFFFFF;

// Up to this many labels, counting how many keys are smaller than each is faster than sorting.
constexpr std::size_t kFewLabels = 128;

// False when it would take many moves: then keys are in any order.
bool insertion_sort(std::vector<std::int64_t>& keys) {
    std::size_t moves_left = 4 * keys.size();
    for (std::size_t k = 1; k < keys.size(); ++k) {
        const std::int64_t key = keys[k];
        std::size_t at = k;
        for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
        keys[at] = key;
        if (k - at > moves_left) return false;
        moves_left -= k - at;
    }
    return true;
}

// Sort by the upper half of the keys, which must not be negative; equal ones keep their order. Few keys are not worth
// many buckets.
template <int kBits>
void radix_sort_by(std::vector<std::int64_t>& keys, std::vector<std::int64_t>& spare) {
    constexpr int kDigits = (31 + kBits - 1) / kBits;
    constexpr std::size_t kBuckets = std::size_t{1} << kBits;
    std::uint32_t counts[kDigits][kBuckets] = {};
    for (const std::int64_t key : keys)
        for (int digit = 0; digit < kDigits; ++digit) ++counts[digit][(key >> (32 + kBits * digit)) % kBuckets];
    spare.resize(keys.size());
    for (int digit = 0; digit < kDigits; ++digit) {
        std::uint32_t next = 0;
        for (std::uint32_t& count : counts[digit]) next += std::exchange(count, next);
        for (const std::int64_t key : keys) spare[counts[digit][(key >> (32 + kBits * digit)) % kBuckets]++] = key;
        keys.swap(spare);
    }
}
void radix_sort(std::vector<std::int64_t>& keys, std::vector<std::int64_t>& spare) {
    if (keys.size() < 1024)
        radix_sort_by<8>(keys, spare);
    else
        radix_sort_by<11>(keys, spare);
}

}  // namespace

RankedSides::RankedSides(std::int64_t n_labels, const RankConfig& config)
    : config_(config), slots_(static_cast<std::size_t>(n_labels), -1) {
    if (config_.top_k == 0) config_.top_k = std::numeric_limits<std::int32_t>::max();
}

float RankedSides::discount(std::size_t rank) {
    while (discount_table_.size() <= rank) {
        const std::size_t next = discount_table_.size();
        const bool counts = next < static_cast<std::size_t>(config_.top_k);
        double value = 0.0;
        if (counts && config_.loss == SplitLoss::ndcg) value = 1.0 / std::log(2.0 + static_cast<double>(next));
        if (counts && config_.loss == SplitLoss::precision) value = 1.0 / config_.top_k;
        discount_table_.push_back(static_cast<float>(value));
    }
    return discount_table_[rank];
}

void RankedSides::load(std::span<const std::int32_t> rows, const LabelsView& y, std::span<const float> label_weights,
                       std::span<const float> row_weights) {
    for (const std::int32_t label_id : node_labels_) slots_[label_id] = -1;
    node_labels_.clear();
    blocks_.clear();
    block_begin_.assign(1, 0);
    row_sizes_.clear();
    row_gains_.clear();
    weighted_gains_.clear();
    total_weights_.clear();
    label_factors_.clear();
    n_entries_ = 0;
    for (std::size_t first = 0; first < rows.size(); first += kLanes) {
        const std::size_t last = std::min(first + kLanes, rows.size());
        std::int64_t width = 0;
        for (std::size_t i = first; i < last; ++i) width = std::max(width, y.row_size(rows[i]));
        const std::size_t begin = blocks_.size();
        blocks_.resize(begin + static_cast<std::size_t>(width) * kLanes, kNoLabel);
        block_begin_.push_back(static_cast<std::int64_t>(blocks_.size()));
        for (std::size_t i = first; i < last; ++i)
            add_row(y.row_labels(rows[i]), row_weights.empty() ? 1.0F : row_weights[rows[i]], label_weights,
                    begin + i - first);
    }
    const std::size_t n = node_labels_.size();
    right_weights_.resize(n);
    right_discounts_.resize(n);
    left_discounts_.resize(n);
    preferences_.assign(n + 1, 0.0F);
    discount(n);
}

// Number the labels of a row; place is that of its first label among blocks_.
void RankedSides::add_row(std::span<const std::int32_t> labels, float row_weight, std::span<const float> label_weights,
                          std::size_t place) {
    row_gains_.push_back(row_gain(labels.size()));
    const float gain = row_weight * row_gains_.back();
    weighted_gains_.push_back(gain);
    row_sizes_.push_back(static_cast<std::int32_t>(labels.size()));
    n_entries_ += labels.size();
    for (const std::int32_t label_id : labels) {
        std::int32_t slot = slots_[label_id];
        if (slot < 0) {
            slot = static_cast<std::int32_t>(node_labels_.size());
            slots_[label_id] = slot;
            node_labels_.push_back(label_id);
            label_factors_.push_back(label_weights.empty() ? 1.0F : label_weights[label_id]);
            total_weights_.push_back(0);
        }
        total_weights_[slot] += fixed_point(gain * label_factors_[slot]);
        blocks_[place] = slot + 1;
        place += kLanes;
    }
}

void RankedSides::shuffle_labels(Random& random) {
    const std::size_t n = node_labels_.size();
    std::vector<std::int32_t> numbers(n + 1);  // new number of each old one; those of blocks_ count from one
    std::iota(numbers.begin(), numbers.end(), 0);
    for (std::size_t l = n; l > 1; --l) std::swap(numbers[l], numbers[1 + random.below(static_cast<std::uint32_t>(l))]);
    const std::vector<std::int32_t> labels = node_labels_;
    const std::vector<float> factors = label_factors_;
    const std::vector<std::int64_t> weights = total_weights_;
    for (std::size_t l = 0; l < n; ++l) {
        const auto to = static_cast<std::size_t>(numbers[l + 1] - 1);
        node_labels_[to] = labels[l];
        slots_[labels[l]] = static_cast<std::int32_t>(to);
        label_factors_[to] = factors[l];
        total_weights_[to] = weights[l];
    }
    for (std::int32_t& label : blocks_) label = numbers[label];
}

// I_k of eq. 4, for a row with n labels.
float RankedSides::row_gain(std::size_t n) {
    if (!config_.normalise || config_.loss != SplitLoss::ndcg) return 1.0F;
    while (ideal_gains_.size() <= n) {
        double ideal = 0.0;
        for (std::size_t r = 0; r < ideal_gains_.size(); ++r) ideal += discount(r);
        ideal_gains_.push_back(ideal > 0.0 ? static_cast<float>(1.0 / ideal) : 0.0F);
    }
    return ideal_gains_[n];
}

// Rank the labels of one side by weight and note each label's discount. Labels without weight on the side are ranked too,
// behind the others: a side with few labels thereby welcomes rows whose labels the other side ranks low, which keeps trees
// balanced. (Giving them nothing costs EURLex-4K three points of P@1 with three trees.)
void RankedSides::rank_labels(bool right, bool is_nearly_ranked) {
    const std::size_t n = node_labels_.size();
    auto& keys = right ? right_keys_ : left_keys_;
    auto& discounts = right ? right_discounts_ : left_discounts_;
    // Floats that are not negative order like their bits; heavier first, then lower node label.
    const auto key_of = [&](std::size_t l) {
        const std::int64_t weight = right ? right_weights_[l] : total_weights_[l] - right_weights_[l];
        const auto bits = std::bit_cast<std::int32_t>(static_cast<float>(weight));
        return std::int64_t{std::numeric_limits<std::int32_t>::max() - bits} << 32 | static_cast<std::int64_t>(l);
    };
    keys.resize(n);
    if (n <= kFewLabels) {
        for (std::size_t l = 0; l < n; ++l) keys[l] = key_of(l);
        count_ranks(keys, discounts);
        return;
    }
    bool is_ranked = false;
    if (is_nearly_ranked) {
        for (auto& key : keys) key = key_of(static_cast<std::size_t>(key & kLabelBits));
        is_ranked = insertion_sort(keys);
    }
    if (!is_ranked) {
        for (std::size_t l = 0; l < n; ++l) keys[l] = key_of(l);
        radix_sort(keys, spare_keys_);
    }
    for (std::size_t rank = 0; rank < n; ++rank)
        discounts[static_cast<std::size_t>(keys[rank] & kLabelBits)] = discount_table_[rank];
}

// The discounts of few labels, whose keys are in the order of the labels.
void RankedSides::count_ranks(std::span<const std::int64_t> keys, std::vector<float>& discounts) const {
    constexpr std::size_t kWidth = 8;
    for (std::size_t first = 0; first < keys.size(); first += kWidth) {
        std::int64_t own[kWidth] = {};
        std::copy(keys.begin() + first, keys.begin() + std::min(first + kWidth, keys.size()), own);
        std::int64_t ranks[kWidth] = {};
        for (const std::int64_t key : keys)
            for (std::size_t k = 0; k < kWidth; ++k) ranks[k] += key < own[k] ? 1 : 0;
        for (std::size_t k = 0; k < std::min(kWidth, keys.size() - first); ++k)
            discounts[first + k] = discount_table_[ranks[k]];
    }
}

// Take the weights of row i from the left side to the right one (sign 1) or back (sign -1).
void RankedSides::move_row(std::size_t i, std::int64_t sign) {
    const std::int32_t* labels = row_begin(i);
    for (std::int32_t k = 0; k < row_sizes_[i]; ++k) {
        const std::int32_t l = labels[k * kLanes] - 1;
        right_weights_[l] += sign * fixed_point(weighted_gains_[i] * label_factors_[l]);
    }
}

std::int32_t RankedSides::alternate(std::span<std::uint8_t> sides, const SeparatorCosts& costs) {
    const std::size_t n_rows = sides.size();
    const std::size_t n_labels = node_labels_.size();
    std::fill(right_weights_.begin(), right_weights_.end(), 0);
    for (std::size_t i = 0; i < n_rows; ++i)
        if (sides[i] != 0) move_row(i, 1);

    std::int32_t round = 0;
    std::size_t n_moved = n_rows;
    while (round < kMaxRounds && n_moved > 0) {
        ++round;
        const bool is_nearly_ranked = n_moved * kFewMoved < n_rows;
        rank_labels(true, is_nearly_ranked);
        rank_labels(false, is_nearly_ranked);
        for (std::size_t l = 0; l < n_labels; ++l)
            preferences_[l + 1] = label_factors_[l] * (right_discounts_[l] - left_discounts_[l]);
        n_moved = 0;
        for (std::size_t first = 0; first < n_rows; first += kLanes)
            n_moved += choose_sides(sides.subspan(first, std::min(kLanes, n_rows - first)), first, costs);
    }
    return round;
}

// Move up to sixteen rows, from number `first` on, to the sides they prefer; returns how many changed sides.
std::size_t RankedSides::choose_sides(std::span<std::uint8_t> sides, std::size_t first, const SeparatorCosts& costs) {
    const std::int32_t* labels = blocks_.data() + block_begin_[first / kLanes];
    const std::int32_t* last = blocks_.data() + block_begin_[first / kLanes + 1];
    const float* preferences = preferences_.data();
    float sums[kLanes] = {};
    for (; labels != last; labels += kLanes)
        for (std::size_t k = 0; k < kLanes; ++k) sums[k] += preferences[labels[k]];
    if (!costs.scores.empty() || costs.right != costs.left) {  // v- minus v+ of eq. 13
        for (std::size_t k = 0; k < sides.size(); ++k) {
            const float score = costs.scores.empty() ? 0.0F : costs.scores[first + k];
            sums[k] = config_.ranking_cost * row_gains_[first + k] * sums[k] + costs.left * logistic_loss(-score) -
                      costs.right * logistic_loss(score);
        }
    }
    std::size_t n_moved = 0;
    for (std::size_t k = 0; k < sides.size(); ++k) {
        const std::uint8_t side = sums[k] > kTie ? 1 : (sums[k] < -kTie ? 0 : sides[k]);
        if (side == sides[k]) continue;
        sides[k] = side;
        move_row(first + k, side != 0 ? 1 : -1);
        ++n_moved;
    }
    return n_moved;
}

double RankedSides::gain(std::span<const std::uint8_t> sides) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < sides.size(); ++i) {
        const auto& discounts = sides[i] != 0 ? right_discounts_ : left_discounts_;
        double row = 0.0;
        for (std::int32_t k = 0; k < row_sizes_[i]; ++k) {
            const std::int32_t l = row_begin(i)[k * kLanes] - 1;
            row += static_cast<double>(label_factors_[l]) * discounts[l];
        }
        sum += weighted_gains_[i] * row;
    }
    return config_.ranking_cost * sum;
}

}  // namespace longtail::fastxml
