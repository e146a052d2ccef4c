#include "fastxml/ranked_sides.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fastxml/logistic.hpp"

namespace longtail::fastxml {
namespace {

constexpr float kUnit = 1 << 20;  // fixed point: steps of one millionth; room for 2^43 times the weight one
constexpr float kTie = 1e-6F;  // rounding in a sum of discounts must not move a row
constexpr std::size_t kFewMoved = 16;  // fewer rows than one in so many: rankings have hardly changed
constexpr std::int32_t kMaxRounds = 200;  // finite by theorem 1; the cap is for rounding

// Not llround, which is a call into the library; any rounding will do if it is the same everywhere.
std::int64_t fixed_point(float weight) { return static_cast<std::int64_t>(kUnit * weight + 0.5F); }

constexpr std::uint64_t kLabelBits = 0xFFFFFFFFU;
constexpr std::uint64_t kAbsent = kLabelBits << 32;  // keys from here on have no weight

// False when it would take many moves: then keys are in any order.
bool insertion_sort(std::vector<std::uint64_t>& keys) {
    std::size_t moves_left = 4 * keys.size();
    for (std::size_t k = 1; k < keys.size(); ++k) {
        const std::uint64_t key = keys[k];
        std::size_t at = k;
        for (; at > 0 && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
        keys[at] = key;
        if (k - at > moves_left) return false;
        moves_left -= k - at;
    }
    return true;
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

void RankedSides::load(std::span<const std::int32_t> rows, const LabelsView& y,
                       std::span<const float> label_weights) {
    for (const std::int32_t label_id : node_labels_) slots_[label_id] = -1;
    node_labels_.clear();
    entries_.clear();
    entry_begin_.assign(1, 0);
    row_gains_.clear();
    row_units_.clear();
    total_weights_.clear();
    label_factors_.clear();
    for (const std::int32_t row : rows) {
        const auto labels = y.row_labels(row);
        float gain = 1.0F;
        if (config_.normalise && config_.loss == SplitLoss::ndcg) {
            while (ideal_gains_.size() <= labels.size()) {
                double ideal = 0.0;
                for (std::size_t r = 0; r < ideal_gains_.size(); ++r) ideal += discount(r);
                ideal_gains_.push_back(ideal > 0.0 ? static_cast<float>(1.0 / ideal) : 0.0F);
            }
            gain = ideal_gains_[labels.size()];
        }
        row_gains_.push_back(gain);
        for (const std::int32_t label_id : labels) {
            std::int32_t slot = slots_[label_id];
            if (slot < 0) {
                slot = static_cast<std::int32_t>(node_labels_.size());
                slots_[label_id] = slot;
                node_labels_.push_back(label_id);
                label_factors_.push_back(label_weights.empty() ? 1.0F : label_weights[label_id]);
                total_weights_.push_back(0);
            }
            entries_.push_back(slot);
            total_weights_[slot] += fixed_point(gain * label_factors_[slot]);
        }
        entry_begin_.push_back(static_cast<std::int64_t>(entries_.size()));
    }
    const std::size_t n = node_labels_.size();
    right_weights_.resize(n);
    right_discounts_.resize(n);
    left_discounts_.resize(n);
    preferences_.resize(n);
    discount(n);
}

// Rank the labels of one side by weight and note each label's discount. Labels without weight on the side are ranked too,
// behind the others: a side with few labels thereby welcomes rows whose labels the other side ranks low, which keeps trees
// balanced. (Giving them nothing costs EURLex-4K three points of P@1 with three trees.)
void RankedSides::rank_labels(bool right, bool is_nearly_ranked) {
    const std::size_t n = node_labels_.size();
    auto& keys = right ? right_keys_ : left_keys_;
    // Floats that are not negative order like their bits; heavier first, then lower node label.
    const auto key_of = [&](std::size_t l) {
        const std::int64_t weight = right ? right_weights_[l] : total_weights_[l] - right_weights_[l];
        return std::uint64_t{~std::bit_cast<std::uint32_t>(static_cast<float>(weight))} << 32 | l;
    };
    if (is_nearly_ranked) {
        for (auto& key : keys) key = key_of(key & kLabelBits);
        if (!insertion_sort(keys)) std::sort(keys.begin(), keys.end());
    } else {
        keys.resize(n);
        std::size_t n_present = 0;
        std::size_t first_absent = n;  // absent labels are gathered from the end, and turned round
        for (std::size_t l = 0; l < n; ++l) {
            const std::uint64_t key = key_of(l);
            if (key < kAbsent) keys[n_present++] = key;
            else keys[--first_absent] = key;
        }
        std::sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n_present));
        std::reverse(keys.begin() + static_cast<std::ptrdiff_t>(n_present), keys.end());
    }
    auto& discounts = right ? right_discounts_ : left_discounts_;
    for (std::size_t rank = 0; rank < n; ++rank) discounts[keys[rank] & kLabelBits] = discount_table_[rank];
}

std::int32_t RankedSides::alternate(std::span<std::uint8_t> sides, const SeparatorCosts& costs) {
    const std::size_t n_rows = sides.size();
    const std::size_t n_labels = node_labels_.size();
    const bool same_costs = costs.scores.empty() && costs.right == costs.left;
    const auto move_row = [&](std::size_t i, std::int64_t sign) {
        for (std::int64_t k = entry_begin_[i]; k < entry_begin_[i + 1]; ++k) {
            const std::int32_t l = entries_[k];
            right_weights_[l] += sign * fixed_point(row_gains_[i] * label_factors_[l]);
        }
    };
    std::fill(right_weights_.begin(), right_weights_.end(), 0);
    for (std::size_t i = 0; i < n_rows; ++i)
        if (sides[i] != 0) move_row(i, 1);

    std::int32_t round = 0;
    std::size_t n_moved = n_rows;
    while (round < kMaxRounds) {
        ++round;
        const bool is_nearly_ranked = n_moved * kFewMoved < n_rows;
        rank_labels(true, is_nearly_ranked);
        rank_labels(false, is_nearly_ranked);
        for (std::size_t l = 0; l < n_labels; ++l)
            preferences_[l] = label_factors_[l] * (right_discounts_[l] - left_discounts_[l]);
        n_moved = 0;
        for (std::size_t i = 0; i < n_rows; ++i) {
            float preference = 0.0F;
            for (std::int64_t k = entry_begin_[i]; k < entry_begin_[i + 1]; ++k) preference += preferences_[entries_[k]];
            if (!same_costs) {  // v- minus v+ of eq. 13
                const float score = costs.scores.empty() ? 0.0F : costs.scores[i];
                preference = config_.ranking_cost * row_gains_[i] * preference + costs.left * logistic_loss(-score) -
                             costs.right * logistic_loss(score);
            }
            const std::uint8_t side = preference > kTie ? 1 : (preference < -kTie ? 0 : sides[i]);
            if (side == sides[i]) continue;
            sides[i] = side;
            move_row(i, side != 0 ? 1 : -1);
            ++n_moved;
        }
        if (n_moved == 0) break;
    }
    return round;
}

double RankedSides::gain(std::span<const std::uint8_t> sides) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < sides.size(); ++i) {
        const auto& discounts = sides[i] != 0 ? right_discounts_ : left_discounts_;
        double row = 0.0;
        for (std::int64_t k = entry_begin_[i]; k < entry_begin_[i + 1]; ++k)
            row += static_cast<double>(label_factors_[entries_[k]]) * discounts[entries_[k]];
        sum += row_gains_[i] * row;
    }
    return config_.ranking_cost * sum;
}

}  // namespace longtail::fastxml
