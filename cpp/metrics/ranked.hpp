#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"

namespace longtail {

// The best labels of each row, best first, row-major. -1 pads the end of a row.
struct RankedView {
    std::int64_t n_rows = 0;
    std::int64_t n_ranks = 0;
    std::span<const std::int32_t> label_ids;

    std::span<const std::int32_t> row(std::int64_t i) const { return label_ids.subspan(i * n_ranks, n_ranks); }
};

// Rank each row's stored scores: higher first, ties by lower label id. Returns n_rows × n_ranks label ids, -1 padded.
std::vector<std::int32_t> rank_scores(const CsrView& scores, std::int64_t n_ranks, Control& control);

}  // namespace longtail
