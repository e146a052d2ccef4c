#include "decisions/surface.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/parallel_for.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

struct Place {
    std::size_t left;
    double share;  // of the way to the next knot; below 0 or above 1 outside the knots
};

Place find_place(std::span<const double> knots, double x) {
    const std::size_t left = left_knot(knots, x);
    return {left, (x - knots[left]) / (knots[left + 1] - knots[left])};
}

void check_knots(std::span<const double> knots, const char* name) {
    bool rise = knots.size() >= 2;
    for (std::size_t i = 0; rise && i < knots.size(); ++i)
        rise = std::isfinite(knots[i]) && (i == 0 || knots[i - 1] < knots[i]);
    if (!rise) throw std::invalid_argument(std::string("surface: ") + name + " must be two or more rising numbers");
}

}  // namespace

namespace {

Place place_of_count(const SurfaceView& surface, double log_count) {
    const Place n = find_place(surface.count_knots, log_count);
    return {n.left, std::clamp(n.share, 0.0, 1.0)};
}

double log_odds_at(const SurfaceView& surface, double score, const Place& n) {
    const Place s = find_place(surface.score_knots, score);
    const double* low = surface.log_odds.data() + n.left * surface.score_knots.size() + s.left;
    const double* high = low + surface.score_knots.size();
    const double at_low = low[0] + s.share * (low[1] - low[0]);
    const double at_high = high[0] + s.share * (high[1] - high[0]);
    return at_low + n.share * (at_high - at_low);
}

}  // namespace

double log_odds_at(const SurfaceView& surface, double score, double log_count) {
    return log_odds_at(surface, score, place_of_count(surface, log_count));
}

void check_surface(const SurfaceView& surface) {
    check_knots(surface.score_knots, "score_knots");
    check_knots(surface.count_knots, "count_knots");
    const std::size_t n_nodes = surface.score_knots.size() * surface.count_knots.size();
    if (surface.log_odds.size() != n_nodes)
        throw std::invalid_argument("surface: log_odds needs " + std::to_string(n_nodes) + " entries, got " +
                                    std::to_string(surface.log_odds.size()));
}

std::vector<float> calibrated_proba(const CandidatesView& candidates, std::span<const std::int64_t> label_counts,
                                    const SurfaceView& surface, int n_threads, Control& control) {
    std::vector<float> proba(candidates.label_ids.size());
    const auto place_of = [&](std::int64_t count) {
        return place_of_count(surface, std::log1p(static_cast<double>(count)));
    };
    std::vector<Place> places;  // of all labels, if they come up often enough
    if (candidates.label_ids.size() > label_counts.size())
        for (const std::int64_t count : label_counts) places.push_back(place_of(count));
    const std::int64_t n_tasks = (candidates.n_rows + kRowsPerTask - 1) / kRowsPerTask;
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int) {
        const std::int64_t first = task * kRowsPerTask * candidates.n_candidates;
        const std::int64_t last = std::min((task + 1) * kRowsPerTask, candidates.n_rows) * candidates.n_candidates;
        for (std::int64_t i = first; i < last; ++i) {
            const std::int32_t label_id = candidates.label_ids[i];
            if (label_id < 0) continue;
            const Place place = places.empty() ? place_of(label_counts[label_id]) : places[label_id];
            const double z = log_odds_at(surface, candidates.values[i], place);
            proba[i] = static_cast<float>(1.0 / (1.0 + std::exp(-z)));
        }
    });
    return proba;
}

}  // namespace longtail
