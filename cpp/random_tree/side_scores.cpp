#include "random_tree/side_scores.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace longtail::random_tree {

void SideScores::begin_node(std::span<const double> totals) {
    begin_side();
    totals_ = totals;
    sums_.assign(totals.size(), 0.0);
    total_ = total_squares_ = 0.0;
    for (const double t : totals) {
        total_ += t;
        total_squares_ += t * t;
    }
    rest_squares_ = total_squares_;
    if (!is_ndcg_) return;
    by_total_.resize(totals.size());
    std::iota(by_total_.begin(), by_total_.end(), 0);
    std::sort(by_total_.begin(), by_total_.end(), [&](auto a, auto b) { return totals[a] > totals[b]; });
    while (discounts_.size() < totals.size()) {
        discounts_.push_back(1.0 / std::log2(2.0 + static_cast<double>(discounts_.size())));
    }
}

void SideScores::begin_side() {
    for (const std::int32_t label : touched_) sums_[label] = 0.0;
    touched_.clear();
    side_ = side_squares_ = 0.0;
    rest_squares_ = total_squares_;
}

void SideScores::add_row(std::span<const std::int32_t> labels, double gain) {
    for (const std::int32_t label : labels) {
        const double sum = sums_[label];
        if (sum == 0.0) touched_.push_back(label);
        sums_[label] = sum + gain;
        side_ += gain;
        side_squares_ += gain * (2.0 * sum + gain);
        rest_squares_ -= gain * (2.0 * (totals_[label] - sum) - gain);
    }
}

double SideScores::score() { return is_ndcg_ ? ndcg() : gini(); }

double SideScores::gini() const {
    const double rest = total_ - side_;
    return (side_ > 0.0 ? side_squares_ / side_ : 0.0) + (rest > 0.0 ? rest_squares_ / rest : 0.0);
}

double SideScores::ndcg() { return discounted_side() + discounted_rest(); }

double SideScores::discounted_side() {
    sorted_.clear();
    for (const std::int32_t label : touched_) sorted_.push_back(sums_[label]);
    std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
    double sum = 0.0;
    for (std::size_t rank = 0; rank < sorted_.size(); ++rank) sum += sorted_[rank] * discounts_[rank];
    return sum;
}

// Labels that the side does not have keep their order by total; those that it has are sorted and merged in.
double SideScores::discounted_rest() {
    sorted_.clear();
    for (const std::int32_t label : touched_) sorted_.push_back(totals_[label] - sums_[label]);
    std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
    double sum = 0.0;
    std::size_t rank = 0;
    std::size_t next = 0;
    for (const std::int32_t label : by_total_) {
        if (sums_[label] != 0.0) continue;
        const double total = totals_[label];
        while (next < sorted_.size() && sorted_[next] > total) sum += sorted_[next++] * discounts_[rank++];
        sum += total * discounts_[rank++];
    }
    while (next < sorted_.size()) sum += sorted_[next++] * discounts_[rank++];
    return sum;
}

}  // namespace longtail::random_tree
