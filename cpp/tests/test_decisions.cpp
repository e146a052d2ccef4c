#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "decisions/affine.hpp"
#include "decisions/ascent.hpp"
#include "decisions/shortlist.hpp"
#include "decisions/surface.hpp"
#include "decisions/value_table.hpp"

using namespace longtail;

namespace {

struct Candidates {
    std::int64_t n_rows;
    std::int64_t n_candidates;
    std::vector<std::int32_t> label_ids;
    std::vector<float> values;
    CandidatesView view() const { return {n_rows, n_candidates, label_ids, values}; }
};

// Distinct labels in each row, some rows padded; `n_values` > 0 gives few different values, so that many are equal.
Candidates random_candidates(std::int64_t n_rows, std::int32_t n_labels, std::int64_t n_candidates,
                             std::uint32_t n_values, std::uint64_t seed) {
    Random random(seed, 0);
    Candidates out{n_rows, n_candidates, {}, {}};
    std::vector<std::int32_t> labels(n_labels);
    for (std::int32_t i = 0; i < n_labels; ++i) labels[i] = i;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int32_t i = 0; i < n_candidates; ++i)
            std::swap(labels[i], labels[i + random.below(static_cast<std::uint32_t>(n_labels - i))]);
        for (std::int64_t i = 0; i < n_candidates; ++i) {
            out.label_ids.push_back(row % 7 == 0 && i >= n_candidates - 3 ? -1 : labels[i]);
            out.values.push_back(n_values > 0 ? static_cast<float>(random.below(n_values)) / 4.0F
                                              : static_cast<float>(random.uniform()));
        }
    }
    return out;
}

// The places of the best candidates of a row; of equal ones the first.
std::vector<std::size_t> naive_best(const std::vector<double>& gains, std::span<const std::int32_t> label_ids,
                                    std::int64_t top_k) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < gains.size(); ++i)
        if (label_ids[i] >= 0) places.push_back(i);
    std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return gains[a] > gains[b]; });
    places.resize(std::min(places.size(), static_cast<std::size_t>(top_k)));
    return places;
}

const std::vector<double> kScoreKnots{-1.0, 0.0, 0.5, 2.0};
const std::vector<double> kCountKnots{0.0, 1.5, 4.0};
const std::vector<double> kLogOdds{-4.0, -3.0, -1.0, 1.0, -5.0, -2.5, -0.5, 2.0, -6.0, -2.0, 0.0, 3.0};
const SurfaceView kSurface{kScoreKnots, kCountKnots, kLogOdds};

double naive_log_odds(double score, double log_count) {
    log_count = std::clamp(log_count, kCountKnots.front(), kCountKnots.back());
    std::size_t s = 0;
    while (s + 2 < kScoreKnots.size() && score >= kScoreKnots[s + 1]) ++s;
    std::size_t n = 0;
    while (n + 2 < kCountKnots.size() && log_count >= kCountKnots[n + 1]) ++n;
    const double x = (score - kScoreKnots[s]) / (kScoreKnots[s + 1] - kScoreKnots[s]);
    const double y = (log_count - kCountKnots[n]) / (kCountKnots[n + 1] - kCountKnots[n]);
    const auto at = [&](std::size_t row, std::size_t column) { return kLogOdds[row * kScoreKnots.size() + column]; };
    return (1 - y) * ((1 - x) * at(n, s) + x * at(n, s + 1)) + y * ((1 - x) * at(n + 1, s) + x * at(n + 1, s + 1));
}

}  // namespace

TEST_CASE("an affine ranking is that of its naive twin, for any number of threads") {
    const Candidates found = random_candidates(600, 12, 8, 5, 1);
    Random random(2, 0);
    std::vector<float> slopes(12);
    std::vector<float> offsets(12);
    for (float& slope : slopes) slope = static_cast<float>(random.uniform());
    for (float& offset : offsets) offset = -static_cast<float>(random.uniform());
    Control control;
    for (const bool has_offsets : {true, false}) {
        const std::span<const float> added = has_offsets ? std::span<const float>(offsets) : std::span<const float>();
        const Chosen chosen = rank_affine(found.view(), slopes, added, 6, 1, control);
        for (std::int64_t row = 0; row < 600; ++row) {
            const auto labels = found.view().row_labels(row);
            std::vector<double> gains;
            for (std::size_t i = 0; i < labels.size(); ++i) {
                const float gain = labels[i] < 0 ? 0.0F
                                                 : slopes[labels[i]] * found.view().row_values(row)[i] +
                                                       (has_offsets ? offsets[labels[i]] : 0.0F);
                gains.push_back(gain);
            }
            const auto expected = naive_best(gains, labels, 6);
            for (std::size_t i = 0; i < 6; ++i)
                CHECK(chosen.label_ids[row * 6 + i] == (i < expected.size() ? labels[expected[i]] : -1));
        }
        const Chosen again = rank_affine(found.view(), slopes, added, 6, 4, control);
        CHECK(again.label_ids == chosen.label_ids);
        CHECK(again.scores == chosen.scores);
    }
}

TEST_CASE("probabilities on a surface are those of its naive twin, for any number of threads") {
    Candidates found = random_candidates(600, 20, 9, 0, 3);
    for (float& value : found.values) value = 5.0F * value - 2.0F;  // also beyond both ends of the scores
    std::vector<std::int64_t> counts(20);
    for (std::int64_t label = 0; label < 20; ++label) counts[label] = label * label;
    Control control;
    const std::vector<float> proba = calibrated_proba(found.view(), counts, kSurface, 1, control);
    for (std::size_t i = 0; i < proba.size(); ++i) {
        const std::int32_t label = found.label_ids[i];
        if (label < 0) {
            CHECK(proba[i] == 0.0F);
            continue;
        }
        const double z = naive_log_odds(found.values[i], std::log1p(static_cast<double>(counts[label])));
        CHECK(proba[i] == doctest::Approx(1.0 / (1.0 + std::exp(-z))).epsilon(1e-5));
    }
    CHECK(calibrated_proba(found.view(), counts, kSurface, 4, control) == proba);
}

TEST_CASE("a short list gives the ranking of all labels wherever it says that it does") {
    constexpr std::int32_t kLabels = 30;
    constexpr std::int64_t kTop = 3;
    // Three labels share a curve: the lower the curve, the greater its slope.
    constexpr std::int32_t kCurves = kLabels / 3;
    std::vector<std::int32_t> curve_of_label(kLabels);
    for (std::int32_t label = 0; label < kLabels; ++label) curve_of_label[label] = label / 3;
    std::vector<float> slopes(kCurves);
    std::vector<double> log_odds;
    for (std::int32_t curve = 0; curve < kCurves; ++curve) {
        slopes[curve] = 1.0F + 0.3F * static_cast<float>(curve);
        for (std::size_t knot = 0; knot < kScoreKnots.size(); ++knot)
            log_odds.push_back(kLogOdds[knot] - 0.2 * static_cast<double>(curve));
    }
    const CurvesView curves{curve_of_label, kScoreKnots, log_odds, slopes};
    const auto value_of = [&](std::int32_t label, double score) {
        const std::int32_t curve = curve_of_label[label];
        const double z = naive_log_odds(score, 0.0) - 0.2 * static_cast<double>(curve);
        return slopes[curve] * static_cast<float>(1.0 / (1.0 + std::exp(-z)));
    };
    // All labels of each row by falling score, and the same cut to eight.
    Candidates all = random_candidates(400, kLabels, kLabels, 0, 5);
    Candidates few{400, 8, {}, {}};
    for (std::int64_t row = 0; row < 400; ++row) {
        std::vector<std::pair<float, std::int32_t>> scored;
        for (std::int32_t label = 0; label < kLabels; ++label)
            scored.emplace_back(4.0F * all.values[row * kLabels + label] - 1.0F, label);
        std::sort(scored.begin(), scored.end(), std::greater<>());
        for (std::int32_t i = 0; i < kLabels; ++i) {
            all.label_ids[row * kLabels + i] = scored[i].second;
            all.values[row * kLabels + i] = scored[i].first;
            if (i < 8) few.label_ids.push_back(scored[i].second);
            if (i < 8) few.values.push_back(scored[i].first);
        }
    }
    // At each score the greatest value of any label, by trying all of them.
    std::vector<float> bound_scores;
    std::vector<float> bounds;
    for (float score = -1.0F; score <= 3.0F; score += 0.25F) {
        float greatest = 0.0F;
        for (std::int32_t label = 0; label < kLabels; ++label) greatest = std::max(greatest, value_of(label, score));
        bound_scores.push_back(score);
        bounds.push_back(greatest * 1.0001F);
    }
    bounds.push_back(slopes.back());
    Control control;
    const Shortlisted whole = rank_calibrated(all.view(), curves, {}, kTop, 1, control);
    const Shortlisted cut = rank_calibrated(few.view(), curves, {bound_scores, bounds}, kTop, 1, control);
    int n_open = 0;
    for (std::int64_t row = 0; row < 400; ++row) {
        CHECK(whole.is_open[row] == 0);
        std::vector<double> values;
        for (std::int64_t i = row * kLabels; i < (row + 1) * kLabels; ++i)
            values.push_back(value_of(all.label_ids[i], all.values[i]));
        const auto best = naive_best(values, all.view().row_labels(row), kTop);
        for (std::int64_t i = 0; i < kTop; ++i)
            CHECK(whole.chosen.scores[row * kTop + i] == doctest::Approx(values[best[i]]).epsilon(1e-5));
        n_open += cut.is_open[row];
        if (cut.is_open[row] == 0)
            for (std::int64_t i = row * kTop; i < (row + 1) * kTop; ++i)
                CHECK(cut.chosen.label_ids[i] == whole.chosen.label_ids[i]);
    }
    CHECK(n_open > 0);
    CHECK(n_open < 400);
    const Shortlisted again = rank_calibrated(few.view(), curves, {bound_scores, bounds}, kTop, 4, control);
    CHECK(again.chosen.label_ids == cut.chosen.label_ids);
    CHECK(again.is_open == cut.is_open);
}

TEST_CASE("the ascent chooses what its naive twin chooses") {
    constexpr std::int32_t kLabels = 9;
    constexpr std::int64_t kTop = 3;
    const Candidates found = random_candidates(25, kLabels, 6, 0, 7);
    const CandidatesView proba = found.view();
    Random random(8, 0);
    std::vector<double> positives(kLabels);
    for (double& expected : positives) expected = 0.5 + 5.0 * random.uniform();
    for (const Measure measure : {Measure::kMacroF1, Measure::kCoverage})
        for (const int n_passes : {1, 2, 4}) {
            Control control;
            const Ascent ascent = ascend(proba, positives, {measure, kTop, 1.0, n_passes, -1.0}, control);
            CHECK(ascent.n_passes == n_passes);
            // Every statistic is computed anew from all that is chosen at the moment.
            std::vector<std::vector<std::size_t>> chosen(25);
            const auto value = [&](std::int32_t label, double extra) {
                double hits = 0.0, given = 0.0, miss = 1.0;
                const auto add = [&](double p) { hits += p, given += 1.0, miss *= 1.0 - p; };
                for (std::int64_t row = 0; row < 25; ++row)
                    for (const std::size_t place : chosen[row])
                        if (proba.row_labels(row)[place] == label) add(proba.row_values(row)[place]);
                if (extra >= 0.0) add(extra);
                if (measure == Measure::kCoverage) return 1.0 - miss;
                return given > 0.0 ? 2.0 * hits / (given + positives[label]) : 0.0;
            };
            for (int pass = 0; pass < n_passes; ++pass)
                for (std::int64_t row = 0; row < 25; ++row) {
                    chosen[row].clear();
                    std::vector<double> gains(6, 0.0);
                    for (std::size_t i = 0; i < 6; ++i) {
                        const std::int32_t label = proba.row_labels(row)[i];
                        if (label >= 0) gains[i] = value(label, proba.row_values(row)[i]) - value(label, -1.0);
                    }
                    chosen[row] = naive_best(gains, proba.row_labels(row), kTop);
                }
            double total = 0.0;
            for (std::int32_t label = 0; label < kLabels; ++label) total += value(label, -1.0) / kLabels;
            CHECK(ascent.objective == doctest::Approx(total).epsilon(1e-9));
            for (std::int64_t row = 0; row < 25; ++row)
                for (std::size_t i = 0; i < static_cast<std::size_t>(kTop); ++i)
                    CHECK(ascent.chosen.label_ids[row * kTop + i] ==
                          (i < chosen[row].size() ? proba.row_labels(row)[chosen[row][i]] : -1));
        }
}

TEST_CASE("candidates and surfaces that break a rule are refused") {
    Candidates found = random_candidates(3, 5, 4, 0, 1);
    CHECK_NOTHROW(check_candidates(found.view(), 5));
    found.label_ids[2] = 5;
    CHECK_THROWS_AS(check_candidates(found.view(), 5), std::invalid_argument);
    found.label_ids[2] = 0;
    found.values[1] = std::numeric_limits<float>::infinity();
    CHECK_THROWS_AS(check_candidates(found.view(), 5), std::invalid_argument);
    CHECK_NOTHROW(check_surface(kSurface));
    const std::vector<double> falling{1.0, 0.0};
    CHECK_THROWS_AS(check_surface({falling, kCountKnots, kLogOdds}), std::invalid_argument);
    CHECK_THROWS_AS(check_surface({kScoreKnots, kCountKnots, kScoreKnots}), std::invalid_argument);
}

TEST_CASE("a value table never asks for more than a label needs to reach a level") {
    // The second curve is flat at both ends.
    const std::vector<double> log_odds{-4.0, -3.0, -1.0, 1.0, -2.0, -2.0, 0.5, 0.5};
    const std::vector<std::int32_t> curve_of_label{0, 1, 0, 1, 1};
    const std::vector<float> slopes{1.0F, 7.0F};
    const ValueTable table({curve_of_label, kScoreKnots, log_odds, slopes});
    CHECK(table.n_labels() == 5);
    for (std::int32_t label = 0; label < 5; ++label)
        for (float score = -4.0F; score < 6.0F; score += 0.01F) {
            const float value = table.value_at(label, score);
            CHECK(score >= table.scores_needed(table.level_of(value))[label]);
            CHECK(score >= table.scores_needed(0)[label]);
            // And not for much less: a fifth more is out of reach.
            const std::size_t beyond = table.level_of(1.2F * value) + 1;
            if (value > 1e-3F && value < 5.0F) CHECK(score < table.scores_needed(beyond)[label]);
        }
    CHECK(std::isinf(table.scores_needed(0)[5]));  // padding
}
