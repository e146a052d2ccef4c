#include "decisions/shortlist.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel_for.hpp"
#include "decisions/best_few.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

float bound_at(const BoundsView& bounds, float score) {
    return bounds.bounds[std::lower_bound(bounds.scores.begin(), bounds.scores.end(), score) - bounds.scores.begin()];
}

}  // namespace

Shortlisted rank_calibrated(const CandidatesView& candidates, std::span<const std::int64_t> label_counts,
                            const SurfaceView& surface, std::span<const float> slopes, const BoundsView& bounds,
                            std::int64_t top_k, int n_threads, Control& control) {
    Shortlisted found{
        {std::vector<std::int32_t>(candidates.n_rows * top_k, -1), std::vector<float>(candidates.n_rows * top_k, 0.0F)},
        std::vector<std::uint8_t>(candidates.n_rows, 0)};
    const bool has_bounds = !bounds.scores.empty();
    const bool is_whole = candidates.n_candidates >= static_cast<std::int64_t>(slopes.size());
    const auto n_wanted = static_cast<std::size_t>(top_k);
    const std::int64_t n_tasks = (candidates.n_rows + kRowsPerTask - 1) / kRowsPerTask;
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int) {
        BestFew best(top_k);
        const std::int64_t last = std::min((task + 1) * kRowsPerTask, candidates.n_rows);
        for (std::int64_t row = task * kRowsPerTask; row < last; ++row) {
            const auto label_ids = candidates.row_labels(row);
            const auto scores = candidates.row_values(row);
            best.clear();
            // No label from this place on, candidate or not, can still get in.
            const auto is_closed = [&](std::int64_t place) {
                return has_bounds && best.found().size() == n_wanted &&
                       best.found().back().gain >= bound_at(bounds, scores[place]);
            };
            std::int32_t place = 0;
            for (; place < candidates.n_candidates; ++place) {
                const std::int32_t label_id = label_ids[place];
                if (label_id < 0) continue;
                if (is_closed(place)) break;
                const double log_count = std::log1p(static_cast<double>(label_counts[label_id]));
                const double z = log_odds_at(surface, scores[place], log_count);
                best.add(slopes[label_id] * static_cast<float>(1.0 / (1.0 + std::exp(-z))), place);
            }
            const std::int64_t n_candidates = candidates.n_candidates;
            found.is_open[row] = has_bounds && !is_whole && n_candidates > 0 && place == n_candidates &&
                                 label_ids[n_candidates - 1] >= 0 && !is_closed(n_candidates - 1);
            std::int64_t at = row * top_k;
            for (const auto& [gain, chosen] : best.found()) {
                found.chosen.label_ids[at] = label_ids[chosen];
                found.chosen.scores[at++] = static_cast<float>(gain);
            }
        }
    });
    return found;
}

}  // namespace longtail
