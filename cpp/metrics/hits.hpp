#pragma once

// One pass over a batch of rankings gathers the counts from which every ranking metric follows, for any k up to the
// number of ranks and any F-score's beta. The rows are grouped by their number of labels, because that is all that the
// metrics which normalise by row need to know of a row:
//
//   recall@k  =  1/n · sum over groups of  (hits of the group at ranks < k) / (labels a row of the group has)
//
// Hits are whole numbers, so the plain metrics do not depend on the order of rows, batches or threads at all.

#include <cstdint>
#include <span>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "metrics/ranked.hpp"

namespace longtail {

// What a correct label is worth: 1/p, with one value per label or one per entry of the label matrix. Without them the
// table has no gains.
struct Weights {
    enum class Per { kNothing, kLabel, kEntry };
    Per per = Per::kNothing;
    std::span<const double> values;

    bool given() const { return per != Per::kNothing; }
};

// Tables of groups × ranks are row-major.
struct HitTable {
    std::int64_t n_ranks = 0;
    std::vector<std::int64_t> n_observed;  // per group: labels a row has in the label matrix (1ᵀy) ...
    std::vector<std::int64_t> n_relevant;  // ... and in the complete truth (1ᵀy*), where that is known
    std::vector<std::int64_t> n_rows;      // per group
    std::vector<std::int64_t> hits;        // group × rank: rows with a correct label at this rank
    std::vector<std::int64_t> first_hits;  // per rank: rows whose first correct label has this rank
    std::vector<std::int64_t> predicted;   // per rank: rows that predict any label at this rank
    std::vector<double> gains;             // group × rank: weights of the hits
    std::vector<double> ideal_gains;       // group × rank: weights, were each row's rarest labels ranked first
    std::vector<double> weight_sums;       // per group: weights of all labels

    std::size_t n_groups() const { return n_observed.size(); }
};

// `n_relevant` holds the number of labels of each row in the complete truth, or is empty: then 1ᵀy stands for 1ᵀy*.
// Refuses (std::invalid_argument) label ids out of range, padding before a label, a label predicted twice in a row, and
// more labels in a row than its n_relevant.
HitTable count_hits(const RankedView& ranked, const LabelsView& labels, const Weights& weights,
                    std::span<const std::int32_t> n_relevant, int n_threads, Control& control);

}  // namespace longtail
