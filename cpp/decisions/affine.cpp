#include "decisions/affine.hpp"

#include <algorithm>

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

}  // namespace longtail
