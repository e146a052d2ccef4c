#include "decisions/value_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace longtail {
namespace {

// Each level is an eighth above the one before: few labels pass that are not worth it. With very many labels there are
// fewer levels, so that the table has at most about so many entries.
constexpr std::size_t kMaxLevels = 160;
constexpr std::size_t kLeastLevels = 16;
constexpr std::size_t kMaxEntries = 4'000'000;
constexpr double kLeastLevel = 1e-8;  // of the greatest value; below it, all labels pass
// Values are rounded to float32: a score is asked for that reaches a little less than the level.
constexpr double kRounding = 1e-6;
constexpr float kLogRounding = 1e-4F;

constexpr float kAny = std::numeric_limits<float>::lowest();  // -infinity is the score of labels that never win
constexpr float kNone = std::numeric_limits<float>::infinity();

float score_needed(const CurvesView& curves, std::size_t curve, float level) {
    const double share = (1.0 - kRounding) * level / curves.slopes[curve];
    if (!(share > 0.0)) return kAny;  // level 0
    if (share >= 1.0) return kNone;
    const double wanted = std::log(share / (1.0 - share));
    const std::size_t n_knots = curves.score_knots.size();
    const double* const z = curves.log_odds.data() + curve * n_knots;
    const auto after = static_cast<std::size_t>(std::lower_bound(z, z + n_knots, wanted) - z);
    const std::size_t left = std::clamp<std::size_t>(after, 1, n_knots - 1) - 1;
    const double rise = z[left + 1] - z[left];
    if (!(rise > 0.0)) return after == 0 ? kAny : kNone;  // flat beyond the knots
    const double first = curves.score_knots[left], next = curves.score_knots[left + 1];
    const double score = first + (wanted - z[left]) / rise * (next - first);
    return std::max(kAny, std::nextafter(static_cast<float>(score), kAny));
}

}  // namespace

void check_curves(const CurvesView& curves) {
    const std::size_t n_knots = curves.score_knots.size();
    if (n_knots < 2 || curves.log_odds.size() != curves.slopes.size() * n_knots)
        throw std::invalid_argument("curves: log_odds must have one entry for each slope and score knot");
    // Without a way out of the loop, so that the compiler can use vector instructions.
    std::int32_t least = 0, greatest = -1;
    for (const std::int32_t curve : curves.curve_of_label) {
        least = std::min(least, curve);
        greatest = std::max(greatest, curve);
    }
    if (least < 0 || greatest >= static_cast<std::int64_t>(curves.slopes.size()))
        throw std::invalid_argument("curves: curve_of_label must name one of the curves");
}

ValueTable::ValueTable(const CurvesView& curves)
    : curve_of_label_(curves.curve_of_label.begin(), curves.curve_of_label.end()),
      slopes_(curves.slopes.begin(), curves.slopes.end()),
      n_lines_(curves.score_knots.size() - 1),
      n_padded_((curve_of_label_.size() + kPadding - 1) / kPadding * kPadding) {
    inner_knots_.assign(curves.score_knots.begin() + 1, curves.score_knots.end() - 1);
    inner_knots_.resize((inner_knots_.size() + kLanes - 1) / kLanes * kLanes, kNone);
    for (std::size_t curve = 0; curve < slopes_.size(); ++curve)
        for (std::size_t left = 0; left < n_lines_; ++left) {
            const double* const z = curves.log_odds.data() + curve * (n_lines_ + 1) + left;
            const double first = curves.score_knots[left];
            const double slope = (z[1] - z[0]) / (curves.score_knots[left + 1] - first);
            lines_.push_back({z[0] - slope * first, slope});
        }
    const std::size_t n_levels =
        std::clamp(kMaxEntries / std::max<std::size_t>(n_padded_, 1), kLeastLevels, kMaxLevels);
    const double greatest = slopes_.empty() ? 1.0 : *std::max_element(slopes_.begin(), slopes_.end());
    levels_.push_back(0.0F);
    for (std::size_t i = 1; i < n_levels; ++i) {
        const double share = static_cast<double>(n_levels - 1 - i) / static_cast<double>(n_levels - 2);
        levels_.push_back(static_cast<float>(greatest * std::pow(kLeastLevel, share)));
    }
    needed_.assign(n_levels * n_padded_, kNone);
    std::vector<float> of_curve(slopes_.size());
    for (std::size_t level = 0; level < n_levels; ++level) {
        for (std::size_t curve = 0; curve < of_curve.size(); ++curve)
            of_curve[curve] = score_needed(curves, curve, levels_[level]);
        const float least = of_curve.empty() ? kAny : *std::min_element(of_curve.begin(), of_curve.end());
        least_logs_.push_back(least > 0.0F ? std::log(least) - kLogRounding : -std::numeric_limits<float>::infinity());
        float* const needed = needed_.data() + level * n_padded_;
        for (std::size_t label = 0; label < curve_of_label_.size(); ++label)
            needed[label] = of_curve[curve_of_label_[label]];
    }
}

}  // namespace longtail
