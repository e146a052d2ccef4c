#include "decisions/shortlist.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/parallel_for.hpp"
#include "decisions/best_few.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

// Candidates come by falling score, so places among knots and bounds are found by steps from the last one.
class Places {
public:
    Places(const CurvesView& curves, const BoundsView& bounds)
        : knots_(curves.score_knots), bounds_(bounds), at_bound_(bounds.scores.size()) {}

    // The knot at or before a score, but never the last one; the first one for scores before it.
    std::size_t knot_before(double score) {
        while (at_knot_ > 0 && score < knots_[at_knot_]) --at_knot_;
        while (at_knot_ + 2 < knots_.size() && score >= knots_[at_knot_ + 1]) ++at_knot_;
        return at_knot_;
    }

    float bound_at(float score) {
        while (at_bound_ > 0 && bounds_.scores[at_bound_ - 1] >= score) --at_bound_;
        while (at_bound_ < bounds_.scores.size() && bounds_.scores[at_bound_] < score) ++at_bound_;
        return bounds_.bounds[at_bound_];
    }

private:
    std::span<const double> knots_;
    BoundsView bounds_;
    std::size_t at_knot_ = 0;
    std::size_t at_bound_;
};

}  // namespace

void check_bounds(const BoundsView& bounds) {
    if (bounds.bounds.size() != bounds.scores.size() + 1)
        throw std::invalid_argument("rank_calibrated: bounds must have one entry more than bound_scores");
}

Shortlisted rank_calibrated(const CandidatesView& candidates, const CurvesView& curves, const BoundsView& bounds,
                            std::int64_t top_k, int n_threads, Control& control) {
    Shortlisted found{Chosen(candidates.n_rows, top_k), std::vector<std::uint8_t>(candidates.n_rows, 0)};
    const bool has_bounds = !bounds.scores.empty();
    const bool is_whole = candidates.n_candidates >= static_cast<std::int64_t>(curves.curve_of_label.size());
    const auto n_wanted = static_cast<std::size_t>(top_k);
    const std::int64_t n_tasks = (candidates.n_rows + kRowsPerTask - 1) / kRowsPerTask;
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int) {
        BestFew best(top_k);
        Places places(curves, bounds);
        const std::int64_t last = std::min((task + 1) * kRowsPerTask, candidates.n_rows);
        for (std::int64_t row = task * kRowsPerTask; row < last; ++row) {
            const auto label_ids = candidates.row_labels(row);
            const auto scores = candidates.row_values(row);
            best.clear();
            // No label from this place on, candidate or not, can still get in.
            const auto is_closed = [&](std::int64_t place) {
                return has_bounds && best.found().size() == n_wanted &&
                       best.found().back().gain >= places.bound_at(scores[place]);
            };
            std::int32_t place = 0;
            for (; place < candidates.n_candidates; ++place) {
                const std::int32_t label_id = label_ids[place];
                if (label_id < 0) continue;
                if (is_closed(place)) break;
                const float score = scores[place];
                best.add(curves.value_at(curves.curve_of_label[label_id], places.knot_before(score), score), place);
            }
            const std::int64_t n_candidates = candidates.n_candidates;
            found.is_open[row] = has_bounds && !is_whole && n_candidates > 0 && place == n_candidates &&
                                 label_ids[n_candidates - 1] >= 0 && !is_closed(n_candidates - 1);
            std::int64_t at = row * top_k;
            for (const auto& [gain, chosen] : best.found()) found.chosen.set(at++, label_ids[chosen], gain, chosen);
        }
    });
    return found;
}

}  // namespace longtail
