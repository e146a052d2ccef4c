#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/lanes.hpp"
#include "decisions/curves.hpp"

namespace longtail {

// The values of labels, and for some levels of value the score that each label needs to reach it: scores of many labels
// are compared with these, and only the values of the few that pass are computed.
class ValueTable {
public:
    // Labels are padded to a multiple of this number with labels that reach no level.
    static constexpr std::int64_t kPadding = 64;

    // The curves are checked ones, and copied.
    explicit ValueTable(const CurvesView& curves);

    std::int64_t n_labels() const { return static_cast<std::int64_t>(curve_of_label_.size()); }

    // The value of a label at a finite score, up to rounding as CurvesView has it.
    float value_at(std::int32_t label_id, float score) const {
        std::size_t left = 0;
        for (std::size_t i = 0; i < inner_knots_.size(); i += kLanes) {
            Lanes knots;
            load(knots, inner_knots_.data() + i);
            left += kLanes - static_cast<std::size_t>(std::popcount(bits_greater(knots, Lanes{} + score)));
        }
        const auto curve = static_cast<std::size_t>(curve_of_label_[label_id]);
        const Line& line = lines_[curve * n_lines_ + left];
        return slopes_[curve] / (1.0F + std::exp(-static_cast<float>(line.at_zero + line.slope * score)));
    }

    std::size_t n_levels() const { return levels_.size(); }

    // The greatest level that is not above a value, from `level` upwards; every label reaches level 0.
    std::size_t level_of(float value, std::size_t level = 0) const {
        if (level == 0) return std::upper_bound(levels_.begin() + 1, levels_.end(), value) - levels_.begin() - 1;
        while (level + 1 < levels_.size() && levels_[level + 1] <= value) ++level;
        return level;
    }
    // For each label: with a score below this one its value is below the level. A little low, never too high.
    const float* scores_needed(std::size_t level) const { return needed_.data() + level * n_padded_; }
    // The logarithm of the least of these over all labels, a little low; -infinity if that is not above 0.
    float least_log_needed(std::size_t level) const { return least_logs_[level]; }

private:
    struct Line {
        double at_zero;
        double slope;
    };

    std::vector<std::int32_t> curve_of_label_;
    std::vector<float> slopes_;
    std::vector<float> inner_knots_;  // all but the first and the last, padded with infinity
    std::size_t n_lines_;
    std::vector<Line> lines_;    // of each curve, between each two knots: log-odds by score
    std::vector<float> levels_;  // rising from 0
    std::vector<float> needed_;  // level-major
    std::vector<float> least_logs_;
    std::size_t n_padded_ = 0;
};

}  // namespace longtail
