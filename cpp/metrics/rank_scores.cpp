#include "base/top_k.hpp"
#include "metrics/ranked.hpp"

namespace longtail {

std::vector<std::int32_t> rank_scores(const CsrView& scores, std::int64_t n_ranks, Control& control) {
    std::vector<std::int32_t> label_ids(scores.n_rows * n_ranks);
    std::vector<float> best_scores(n_ranks);
    std::vector<ScoredLabel> candidates;
    for (std::int64_t row = 0; row < scores.n_rows; ++row) {
        if (row % 256 == 0) control.throw_if_stopped();
        const auto row_labels = scores.row_indices(row);
        const auto row_scores = scores.row_values(row);
        candidates.clear();
        for (std::size_t i = 0; i < row_labels.size(); ++i) candidates.push_back({row_scores[i], row_labels[i]});
        select_top_k(candidates, std::span(label_ids).subspan(row * n_ranks, n_ranks), best_scores);
    }
    return label_ids;
}

}  // namespace longtail
