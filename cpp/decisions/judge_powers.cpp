#include "decisions/judge_powers.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerLook = 4096;
constexpr int kRules = 16;  // are ranked side by side
constexpr int kRanks = 5;

// The five best candidates of one row by each of sixteen rules. Loops over rules have no branches: the compiler makes
// vector instructions of them.
struct Ranking {
    float values[kRanks][kRules];
    float hits[kRanks][kRules];
    float first_weights[kRules];

    void clear() {
        for (auto& rank : values) std::fill_n(rank, kRules, -std::numeric_limits<float>::infinity());
        for (auto& rank : hits) std::fill_n(rank, kRules, 0.0F);
        std::fill_n(first_weights, kRules, 0.0F);
    }

    void add(float value, const float* slopes, float hit, float weight) {
        // Most candidates are among the five best of no rule.
        int is_any_above = 0;
        for (int rule = 0; rule < kRules; ++rule)
            is_any_above |= static_cast<int>(slopes[rule] * value > values[kRanks - 1][rule]);
        if (is_any_above == 0) return;
        for (int rule = 0; rule < kRules; ++rule) {
            const float x = slopes[rule] * value;
            bool is_above[kRanks];
            for (int rank = 0; rank < kRanks; ++rank) is_above[rank] = x > values[rank][rule];
            for (int rank = kRanks - 1; rank > 0; --rank) {
                const float value_above = is_above[rank - 1] ? values[rank - 1][rule] : x;
                const float hit_above = is_above[rank - 1] ? hits[rank - 1][rule] : hit;
                values[rank][rule] = is_above[rank] ? value_above : values[rank][rule];
                hits[rank][rule] = is_above[rank] ? hit_above : hits[rank][rule];
            }
            values[0][rule] = is_above[0] ? x : values[0][rule];
            hits[0][rule] = is_above[0] ? hit : hits[0][rule];
            first_weights[rule] = is_above[0] ? weight : first_weights[rule];
        }
    }
};

}  // namespace

void check_groups(const GroupsView& groups) {
    const auto n_groups = static_cast<std::int64_t>(groups.weights.size());
    if (groups.n_rules < 1 || static_cast<std::int64_t>(groups.slopes.size()) != n_groups * groups.n_rules)
        throw std::invalid_argument("judge_powers: slopes must have a row for each of " + std::to_string(n_groups) +
                                    " groups");
    for (const std::int32_t group : groups.group_of_label)
        if (group < 0 || group >= n_groups)
            throw std::invalid_argument("judge_powers: groups must be in 0 .. " + std::to_string(n_groups - 1) +
                                        ", got " + std::to_string(group));
}

Differences judge_powers(const CandidatesView& candidates, std::span<const std::uint8_t> hits, const GroupsView& groups,
                         Control& control) {
    const std::int64_t n_rules = groups.n_rules, width = candidates.n_candidates;
    Differences found;
    found.losses.resize(n_rules * kNumJudgedAt);
    found.squares.resize(n_rules * kNumJudgedAt);
    found.weights.resize(n_rules);
    std::vector<float> slopes(groups.weights.size() * kRules);
    for (std::int64_t first = 0; first < n_rules; first += kRules) {
        const std::int64_t n_here = std::min<std::int64_t>(kRules, n_rules - first);
        for (std::size_t group = 0; group < groups.weights.size(); ++group)
            std::copy_n(groups.slopes.data() + group * n_rules + first, n_here, slopes.data() + group * kRules);
        for (std::int64_t row = 0; row < candidates.n_rows; ++row) {
            if (row % kRowsPerLook == 0) control.throw_if_stopped();
            const auto label_ids = candidates.row_labels(row);
            const auto values = candidates.row_values(row);
            const std::uint8_t* const is_hit = hits.data() + row * width;
            Ranking ranking;
            ranking.clear();
            for (std::int64_t i = 0; i < width; ++i) {
                if (label_ids[i] < 0) continue;
                const std::int32_t group = groups.group_of_label[label_ids[i]];
                const float hit = is_hit[i] != 0 ? 1.0F : 0.0F;
                ranking.add(values[i], slopes.data() + group * kRules, hit,
                            hit * static_cast<float>(groups.weights[group]));
            }
            for (std::int64_t cut = 0; cut < kNumJudgedAt; ++cut) {
                const auto n_before = std::count_if(is_hit, is_hit + std::min(width, kJudgedAt[cut]),
                                                    [](std::uint8_t hit) { return hit != 0; });
                for (std::int64_t rule = 0; rule < n_here; ++rule) {
                    float n_after = 0.0F;
                    for (std::int64_t rank = 0; rank < kJudgedAt[cut]; ++rank) n_after += ranking.hits[rank][rule];
                    const std::int64_t loss = n_before - static_cast<std::int64_t>(n_after);
                    found.losses[(first + rule) * kNumJudgedAt + cut] += loss;
                    found.squares[(first + rule) * kNumJudgedAt + cut] += loss * loss;
                }
            }
            for (std::int64_t rule = 0; rule < n_here; ++rule)
                found.weights[first + rule] += static_cast<double>(ranking.first_weights[rule]);
        }
    }
    return found;
}

}  // namespace longtail
