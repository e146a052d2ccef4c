#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/views.hpp"

namespace longtail::fastxml {

enum class SplitLoss : std::int32_t { ndcg = 0, precision = 1 };

struct RankConfig {
    SplitLoss loss{};
    std::int32_t top_k{};  // ranks that count; 0 means all (nDCG@L)
    float ranking_cost{};  // C_r
    bool normalise{};      // divide a row's DCG by its ideal (I_k of eq. 4); PfastXML does not
};

// What rows cost on the two sides of a given separator: C_delta(+1), C_delta(-1) and w.x_i. Without scores w is zero.
struct SeparatorCosts {
    float right = 1.0F;
    float left = 1.0F;
    std::span<const float> scores;
};

// The ranking half of a split (FastXML section 4.1, 4.2): given sides, rank each side's labels by their weight there;
// given rankings, send each row to the side that ranks its labels better. Labels are renumbered to those of the node, in
// order of first appearance, which also breaks ties. Weights are summed in fixed point, so that moving a row from one
// side to the other is exact and rounds cost only the rows that changed.
class RankedSides {
public:
    RankedSides(std::int64_t n_labels, const RankConfig& config);

    // Take over the rows of a node. label_weights is empty (all one) or one weight per label: 1/p of PfastXML.
    // row_weights is empty (all one) or says how much each row of y counts; their mean should be about one.
    void load(std::span<const std::int32_t> rows, const LabelsView& y, std::span<const float> label_weights,
              std::span<const float> row_weights = {});

    // Give the labels of the node new numbers in random order, and with them the order of equal weights.
    void shuffle_labels(Random& random);

    // Whether all loaded rows have the same labels: then any leaf below this node would be like the node itself.
    bool is_pure() const { return n_entries_ == node_labels_.size() * row_gains_.size(); }

    // Alternate rankings and sides until no row changes sides; sides[i] is 1 for right (+1), 0 for left (-1).
    // Returns the number of rounds.
    std::int32_t alternate(std::span<std::uint8_t> sides, const SeparatorCosts& costs);

    // C_r times the gain of the loaded rows under the latest rankings (the last two terms of eq. 5, negated).
    double gain(std::span<const std::uint8_t> sides) const;

    std::span<const std::int32_t> node_labels() const { return node_labels_; }
    // The latest discounts by node label: 1 / log(1 + rank), zero beyond top_k.
    std::span<const float> discounts(bool right) const { return right ? right_discounts_ : left_discounts_; }

private:
    static constexpr std::size_t kLanes = 16;
    static constexpr std::int32_t kNoLabel = 0;

    void add_row(std::span<const std::int32_t> labels, float row_weight, std::span<const float> label_weights,
                 std::size_t place);
    float row_gain(std::size_t n_labels);
    void rank_labels(bool right, bool is_nearly_ranked);
    void count_ranks(std::span<const std::int64_t> keys, std::vector<float>& discounts) const;
    void move_row(std::size_t row, std::int64_t sign);
    std::size_t choose_sides(std::span<std::uint8_t> sides, std::size_t first, const SeparatorCosts& costs);
    float discount(std::size_t rank);
    // The first label of a row; the next ones follow at distance kLanes.
    const std::int32_t* row_begin(std::size_t row) const {
        return blocks_.data() + block_begin_[row / kLanes] + row % kLanes;
    }

    RankConfig config_;
    std::vector<std::int32_t> slots_;  // label id -> node label, -1 outside the node
    std::vector<std::int32_t> node_labels_;
    // Node labels, plus one, of sixteen rows at a time: the first label of each row, then the second one of each, and so
    // on to the longest row; shorter ones have kNoLabel.
    std::vector<std::int32_t> blocks_;
    std::vector<std::int64_t> block_begin_;
    std::vector<std::int32_t> row_sizes_;
    std::size_t n_entries_ = 0;
    std::vector<float> row_gains_;             // I_k(y_i)
    std::vector<float> weighted_gains_;        // times the weight of the row
    std::vector<float> label_factors_;         // 1/p by node label
    std::vector<std::int64_t> total_weights_;  // by node label, in fixed point
    std::vector<std::int64_t> right_weights_;
    std::vector<float> right_discounts_;
    std::vector<float> left_discounts_;
    std::vector<float> preferences_;        // what a row gains on the right over the left, by node label plus one
    std::vector<std::int64_t> right_keys_;  // (weight, node label), in the order of the ranking if they are many
    std::vector<std::int64_t> left_keys_;
    std::vector<std::int64_t> spare_keys_;
    std::vector<float> discount_table_;
    std::vector<float> ideal_gains_;  // I_k by number of labels
};

}  // namespace longtail::fastxml
