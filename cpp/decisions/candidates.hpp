#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/views.hpp"

namespace longtail {

// The labels that may be chosen for each row and one value of each (a score or a probability), row-major. Label -1 is
// padding and is never chosen.
struct CandidatesView {
    std::int64_t n_rows = 0;
    std::int64_t n_candidates = 0;
    std::span<const std::int32_t> label_ids;
    std::span<const float> values;

    std::span<const std::int32_t> row_labels(std::int64_t row) const {
        return label_ids.subspan(row * n_candidates, n_candidates);
    }
    std::span<const float> row_values(std::int64_t row) const {
        return values.subspan(row * n_candidates, n_candidates);
    }
};

// The chosen labels of each row, best first, and their places among the candidates; padded with -1 and score 0.
struct Chosen {
    std::vector<std::int32_t> label_ids;
    std::vector<float> scores;
    std::vector<std::int32_t> places;

    Chosen() = default;
    Chosen(std::int64_t n_rows, std::int64_t top_k)
        : label_ids(n_rows * top_k, -1), scores(n_rows * top_k, 0.0F), places(n_rows * top_k, -1) {}

    void set(std::int64_t at, std::int32_t label_id, double score, std::int32_t place) {
        label_ids[at] = label_id;
        scores[at] = static_cast<float>(score);
        places[at] = place;
    }
};

// Throw std::invalid_argument unless every label id is -1 or below n_labels and every value is finite.
void check_candidates(const CandidatesView& candidates, std::int64_t n_labels);

// Which of the n_candidates labels of each row are labels of that row, whose ids rise.
std::vector<std::uint8_t> find_hits(std::span<const std::int32_t> label_ids, std::int64_t n_candidates,
                                    const LabelsView& labels);

}  // namespace longtail
