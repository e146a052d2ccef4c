#pragma once

// Choose k labels per row of a whole batch to maximise an expected measure over labels: Block
// coordinate ascent of Schultheis, Wydmuch, Kotłowski, Babbar and Dembczyński (NeurIPS 2023). A pass visits the rows in
// order; each row gives up its labels and takes the k with the greatest gains, all other rows staying as they are.
//
//   macro-F1   mean over labels of  2·hits / (given + positives),   hits: sum of the probabilities of what is given
//   coverage   share of labels given correctly at least once,       1 − product of (1 − probability) over what is given
//
// With n rows and L labels that occur, a mix of m is  m · measure + (1 − m) · precision@k.

#include <cstdint>
#include <span>

#include "base/control.hpp"
#include "decisions/candidates.hpp"

namespace longtail {

enum class Measure { kMacroF1, kCoverage };

struct Goal {
    Measure measure{};
    std::int64_t top_k{};
    double mix{};
    int max_passes{};
    double tolerance{};  // stop when a pass adds less than this share of the objective
};

struct Ascent {
    Chosen chosen;
    double objective = 0.0;
    int n_passes = 0;
};

// `positives` holds the expected rows of each label in the batch, for macro-F1.
Ascent ascend(const CandidatesView& proba, std::span<const double> positives, const Goal& goal, Control& control);

}  // namespace longtail
