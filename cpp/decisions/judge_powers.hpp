#pragma once

// How rankings by probability · slope differ from the order of the candidates in what is right, for many slopes at once.
// Labels with equally many training rows have the same slopes: they form a group.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "decisions/candidates.hpp"

namespace longtail {

struct GroupsView {
    std::span<const std::int32_t> group_of_label;
    std::span<const float> slopes;    // one row of n_rules for each group
    std::span<const double> weights;  // one per group
    std::int64_t n_rules = 0;
};

// Precision is measured at these numbers of labels.
constexpr std::int64_t kJudgedAt[] = {1, 3, 5};
constexpr std::int64_t kNumJudgedAt = 3;

// Over all rows, for each rule: labels that are right among the first 1, 3 and 5 candidates less those of the ranking,
// and the squares of these differences (n_rules × 3); the weights of labels that are ranked first and right.
struct Differences {
    std::vector<std::int64_t> losses;
    std::vector<std::int64_t> squares;
    std::vector<double> weights;
};

// Throw std::invalid_argument unless the parts fit together and every label has a group.
void check_groups(const GroupsView& groups);

// Values are probabilities; `hits` says which candidates are right. Ties keep the order of the candidates.
Differences judge_powers(const CandidatesView& candidates, std::span<const std::uint8_t> hits, const GroupsView& groups,
                         Control& control);

}  // namespace longtail
