#include "decisions/affine.hpp"

#include <algorithm>
#include <limits>

#include "base/parallel_for.hpp"
#include "decisions/best_few.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerTask = 256;

}  // namespace

Chosen rank_affine(const CandidatesView& candidates, std::span<const float> slopes, std::span<const float> offsets,
                   std::int64_t top_k, int n_threads, Control& control) {
    Chosen chosen(candidates.n_rows, top_k);
    const std::int64_t n_tasks = (candidates.n_rows + kRowsPerTask - 1) / kRowsPerTask;
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int) {
        BestFew best(top_k);
        const std::int64_t last = std::min((task + 1) * kRowsPerTask, candidates.n_rows);
        for (std::int64_t row = task * kRowsPerTask; row < last; ++row) {
            const auto label_ids = candidates.row_labels(row);
            const auto values = candidates.row_values(row);
            best.clear();
            for (std::int32_t place = 0; place < candidates.n_candidates; ++place) {
                const std::int32_t label_id = label_ids[place];
                if (label_id < 0) continue;
                best.add(slopes[label_id] * values[place] + (offsets.empty() ? 0.0F : offsets[label_id]), place);
            }
            std::int64_t at = row * top_k;
            for (const auto& [gain, place] : best.found()) chosen.set(at++, label_ids[place], gain, place);
        }
    });
    return chosen;
}

ChosenSums sum_affine(const CandidatesView& candidates, std::span<const float> slopes, std::span<const float> offsets,
                      std::int64_t top_k, Control& control) {
    ChosenSums sums{std::vector<double>(slopes.size()), std::vector<double>(slopes.size())};
    const auto width = static_cast<std::size_t>(candidates.n_candidates);
    const std::size_t n_best = std::min(width, static_cast<std::size_t>(top_k));
    struct Best {
        float gain;
        std::int32_t place;
    };
    std::vector<Best> best(n_best);  // of a row so far, the greatest first
    for (std::int64_t row = 0; row < candidates.n_rows; ++row) {
        if (row % kRowsPerTask == 0) control.throw_if_stopped();
        const auto label_ids = candidates.row_labels(row);
        const auto values = candidates.row_values(row);
        std::fill(best.begin(), best.end(), Best{-std::numeric_limits<float>::infinity(), -1});
        for (std::size_t place = 0; place < width; ++place) {
            const std::int32_t label_id = label_ids[place];
            if (label_id < 0) continue;
            const float gain = slopes[label_id] * values[place] + offsets[label_id];
            if (!(gain > best.back().gain)) continue;
            std::size_t at = n_best - 1;
            for (; at > 0 && best[at - 1].gain < gain; --at) best[at] = best[at - 1];
            best[at] = {gain, static_cast<std::int32_t>(place)};
        }
        for (const Best& one : best) {
            if (one.place < 0) continue;
            sums.n_given[label_ids[one.place]] += 1.0;
            sums.values[label_ids[one.place]] += static_cast<double>(values[one.place]);
        }
    }
    return sums;
}

}  // namespace longtail
