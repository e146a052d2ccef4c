#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "decisions/affine.hpp"
#include "decisions/ascent.hpp"
#include "decisions/best_values.hpp"
#include "decisions/judge_powers.hpp"
#include "decisions/shortlist.hpp"
#include "decisions/surface.hpp"
#include "decisions/surface_pairs.hpp"
#include "decisions/value_table.hpp"

namespace longtail::bindings {
namespace {

CandidatesView as_candidates(const Array2<std::int32_t>& label_ids, const Array2<float>& values) {
    return {static_cast<std::int64_t>(label_ids.shape(0)),
            static_cast<std::int64_t>(label_ids.shape(1)),
            {label_ids.data(), label_ids.size()},
            {values.data(), values.size()}};
}

void check_top_k(std::int64_t top_k) {
    if (top_k < 1) throw std::invalid_argument("top_k must be at least 1, got " + std::to_string(top_k));
}

nb::tuple as_tuple(Chosen&& chosen, std::int64_t n_rows, std::int64_t top_k) {
    const auto rows = static_cast<std::size_t>(n_rows), columns = static_cast<std::size_t>(top_k);
    auto label_ids = to_numpy(std::move(chosen.label_ids), {rows, columns});
    auto scores = to_numpy(std::move(chosen.scores), {rows, columns});
    auto places = to_numpy(std::move(chosen.places), {rows, columns});
    return nb::make_tuple(label_ids, scores, places);
}

using RankedArrays = nb::typed<nb::tuple, NumpyArray<std::int32_t>, NumpyArray<float>, NumpyArray<std::int32_t>>;
using ShortlistArrays = nb::typed<nb::tuple, NumpyArray<std::int32_t>, NumpyArray<float>, NumpyArray<std::int32_t>,
                                  NumpyArray<std::uint8_t>>;
using AscentArrays =
    nb::typed<nb::tuple, NumpyArray<std::int32_t>, NumpyArray<float>, NumpyArray<std::int32_t>, double, int>;
using DifferenceArrays = nb::typed<nb::tuple, NumpyArray<std::int64_t>, NumpyArray<std::int64_t>, NumpyArray<double>>;
using LossArrays = nb::typed<nb::tuple, double, NumpyArray<double>, NumpyArray<double>>;
using SumArrays = nb::typed<nb::tuple, NumpyArray<double>, NumpyArray<double>>;
using CountPair = nb::typed<nb::tuple, double, double>;

Half half_of(const std::optional<bool>& odd) { return !odd ? Half::kBoth : *odd ? Half::kOdd : Half::kEven; }

}  // namespace

void bind_decisions(nb::module_& m) {
    m.def(
        "calibrated_proba",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& scores, const Array1<std::int64_t>& label_counts,
           const Array1<double>& score_knots, const Array1<double>& count_knots, const Array2<double>& log_odds,
           int n_threads, Control& control) {
            std::vector<float> proba;
            const CandidatesView candidates = as_candidates(label_ids, scores);
            {
                const nb::gil_scoped_release no_gil;
                const SurfaceView surface{
                    as_span(score_knots), as_span(count_knots), {log_odds.data(), log_odds.size()}};
                check_surface(surface);
                check_candidates(candidates, static_cast<std::int64_t>(label_counts.shape(0)));
                proba = calibrated_proba(candidates, as_span(label_counts), surface, n_threads, control);
            }
            return to_numpy(std::move(proba), {label_ids.shape(0), label_ids.shape(1)});
        },
        nb::arg("label_ids"), nb::arg("scores"), nb::arg("label_counts"), nb::arg("score_knots"),
        nb::arg("count_knots"), nb::arg("log_odds"), nb::arg("n_threads"), nb::arg("control"),
        "Map scores to probabilities by a surface over score and log(1 + training rows of the label).");

    m.def(
        "rank_affine",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& values, const Array1<float>& slopes,
           const std::optional<Array1<float>>& offsets, std::int64_t top_k, int n_threads, Control& control) {
            Chosen chosen;
            const CandidatesView candidates = as_candidates(label_ids, values);
            {
                const nb::gil_scoped_release no_gil;
                check_top_k(top_k);
                check_candidates(candidates, static_cast<std::int64_t>(slopes.shape(0)));
                if (offsets && offsets->shape(0) != slopes.shape(0))
                    throw std::invalid_argument("rank_affine: slopes and offsets must have the same length");
                chosen = rank_affine(candidates, as_span(slopes),
                                     offsets ? as_span(*offsets) : std::span<const float>(), top_k, n_threads, control);
            }
            return RankedArrays(as_tuple(std::move(chosen), candidates.n_rows, top_k));
        },
        nb::arg("label_ids"), nb::arg("values"), nb::arg("slopes"), nb::arg("offsets").none(), nb::arg("top_k"),
        nb::arg("n_threads"), nb::arg("control"),
        "Rank the candidates of each row by slope · value + offset of their labels.");

    m.def(
        "sum_affine",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& values, const Array1<float>& slopes,
           const Array1<float>& offsets, std::int64_t top_k, Control& control) {
            ChosenSums sums;
            {
                const nb::gil_scoped_release no_gil;
                const CandidatesView candidates = as_candidates(label_ids, values);
                check_top_k(top_k);
                check_candidates(candidates, static_cast<std::int64_t>(slopes.shape(0)));
                if (offsets.shape(0) != slopes.shape(0))
                    throw std::invalid_argument("sum_affine: slopes and offsets must have the same length");
                sums = sum_affine(candidates, as_span(slopes), as_span(offsets), top_k, control);
            }
            auto n_given = to_numpy(std::move(sums.n_given), {slopes.shape(0)});
            return SumArrays(nb::make_tuple(n_given, to_numpy(std::move(sums.values), {slopes.shape(0)})));
        },
        nb::arg("label_ids"), nb::arg("values"), nb::arg("slopes"), nb::arg("offsets"), nb::arg("top_k"),
        nb::arg("control"),
        "Rank as rank_affine does; return how often each label is chosen, and the sum of its values where it is.");

    m.def(
        "judge_powers",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& proba, const Array2<std::uint8_t>& hits,
           const Array1<std::int32_t>& group_of_label, const Array2<float>& slopes, const Array1<double>& weights,
           Control& control) {
            Differences found;
            const CandidatesView candidates = as_candidates(label_ids, proba);
            const std::size_t n_rules = slopes.shape(1);
            {
                const nb::gil_scoped_release no_gil;
                const GroupsView groups{as_span(group_of_label),
                                        {slopes.data(), slopes.size()},
                                        as_span(weights),
                                        static_cast<std::int64_t>(n_rules)};
                check_groups(groups);
                check_candidates(candidates, static_cast<std::int64_t>(group_of_label.shape(0)));
                if (hits.shape(0) != label_ids.shape(0) || hits.shape(1) != label_ids.shape(1))
                    throw std::invalid_argument("judge_powers: label_ids and hits must have the same shape");
                found = judge_powers(candidates, {hits.data(), hits.size()}, groups, control);
            }
            auto losses = to_numpy(std::move(found.losses), {n_rules, kNumJudgedAt});
            auto squares = to_numpy(std::move(found.squares), {n_rules, kNumJudgedAt});
            return DifferenceArrays(nb::make_tuple(losses, squares, to_numpy(std::move(found.weights), {n_rules})));
        },
        nb::arg("label_ids"), nb::arg("proba"), nb::arg("hits"), nb::arg("group_of_label"), nb::arg("slopes"),
        nb::arg("weights"), nb::arg("control"),
        "Compare rankings by probability · slope with the order of the candidates: hits lost among the first 1, 3 and "
        "5, their squares, and the weights of hits that are ranked first.");

    m.def(
        "rank_calibrated",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& scores,
           const Array1<std::int32_t>& curve_of_label, const Array1<double>& score_knots,
           const Array2<double>& log_odds, const Array1<float>& slopes, const Array1<float>& bound_scores,
           const Array1<float>& bounds, std::int64_t top_k, int n_threads, Control& control) {
            Shortlisted found;
            const CandidatesView candidates = as_candidates(label_ids, scores);
            {
                const nb::gil_scoped_release no_gil;
                check_top_k(top_k);
                const CurvesView curves{
                    as_span(curve_of_label), as_span(score_knots), {log_odds.data(), log_odds.size()}, as_span(slopes)};
                const BoundsView limits{as_span(bound_scores), as_span(bounds)};
                check_candidates(candidates, static_cast<std::int64_t>(curve_of_label.shape(0)));
                check_curves(curves);
                check_bounds(limits);
                found = rank_calibrated(candidates, curves, limits, top_k, n_threads, control);
            }
            nb::tuple ranked = as_tuple(std::move(found.chosen), candidates.n_rows, top_k);
            auto is_open = to_numpy(std::move(found.is_open), {static_cast<std::size_t>(candidates.n_rows)});
            return ShortlistArrays(nb::make_tuple(ranked[0], ranked[1], ranked[2], is_open));
        },
        nb::arg("label_ids"), nb::arg("scores"), nb::arg("curve_of_label"), nb::arg("score_knots"), nb::arg("log_odds"),
        nb::arg("slopes"), nb::arg("bound_scores"), nb::arg("bounds"), nb::arg("top_k"), nb::arg("n_threads"),
        nb::arg("control"),
        "Rank candidates by slope · probability of their scores; also return their places, and for which rows they "
        "were too few.");

    nb::class_<ValueTable>(m, "ValueTable", "What labels are worth at their scores; see cpp/decisions/value_table.hpp.")
        .def(
            "__init__",
            [](ValueTable* self, const Array1<std::int32_t>& curve_of_label, const Array1<double>& score_knots,
               const Array2<double>& log_odds, const Array1<float>& slopes) {
                const nb::gil_scoped_release no_gil;
                const CurvesView curves{
                    as_span(curve_of_label), as_span(score_knots), {log_odds.data(), log_odds.size()}, as_span(slopes)};
                check_curves(curves);
                new (self) ValueTable(curves);
            },
            nb::arg("curve_of_label"), nb::arg("score_knots"), nb::arg("log_odds"), nb::arg("slopes"));

    m.def(
        "rank_by_value",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& scores, const ValueTable& values,
           std::int64_t top_k) {
            ValuedLabels found;
            {
                const nb::gil_scoped_release no_gil;
                check_top_k(top_k);
                const CandidatesView candidates = as_candidates(label_ids, scores);
                check_candidates(candidates, values.n_labels());
                found = rank_by_value(values, candidates, top_k);
            }
            return to_python(std::move(found), top_k);
        },
        nb::arg("label_ids"), nb::arg("scores"), nb::arg("values"), nb::arg("top_k"),
        "Rank candidates by their values: label ids (-1 padded), values and scores.");

    m.def(
        "ascend",
        [](const Array2<std::int32_t>& label_ids, const Array2<float>& proba, const Array1<double>& positives,
           bool coverage, std::int64_t top_k, double mix, int max_passes, double tolerance, Control& control) {
            Ascent found;
            const CandidatesView candidates = as_candidates(label_ids, proba);
            {
                const nb::gil_scoped_release no_gil;
                check_top_k(top_k);
                check_candidates(candidates, static_cast<std::int64_t>(positives.shape(0)));
                const Goal goal{coverage ? Measure::kCoverage : Measure::kMacroF1, top_k, mix, max_passes, tolerance};
                found = ascend(candidates, as_span(positives), goal, control);
            }
            nb::tuple ranked = as_tuple(std::move(found.chosen), candidates.n_rows, top_k);
            return AscentArrays(nb::make_tuple(ranked[0], ranked[1], ranked[2], found.objective, found.n_passes));
        },
        nb::arg("label_ids"), nb::arg("proba"), nb::arg("positives"), nb::arg("coverage"), nb::arg("top_k"),
        nb::arg("mix"), nb::arg("max_passes"), nb::arg("tolerance"), nb::arg("control"),
        "Choose top_k labels per row of a whole batch for macro-F1 or coverage by block coordinate ascent. Returns "
        "label ids, gains, places among the candidates, the objective and the number of passes.");

    m.def(
        "find_hits",
        [](const Array2<std::int32_t>& label_ids, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& indices) {
            std::vector<std::uint8_t> found;
            {
                const nb::gil_scoped_release no_gil;
                const LabelsView labels = as_labels(n_labels, indptr, indices);
                check_labels(labels, "Y");
                if (labels.n_rows != static_cast<std::int64_t>(label_ids.shape(0)))
                    throw std::invalid_argument("find_hits: label_ids must have one row for each row of labels");
                found = find_hits({label_ids.data(), label_ids.size()}, static_cast<std::int64_t>(label_ids.shape(1)),
                                  labels);
            }
            return to_numpy(std::move(found), {label_ids.shape(0), label_ids.shape(1)});
        },
        nb::arg("label_ids"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"),
        "Return which of the ranked labels are labels of their rows; those of a row rise.");

    nb::class_<SurfacePairs>(m, "SurfacePairs",
                             "Pairs of row and label that a surface is fitted to; see cpp/decisions/surface_pairs.hpp.")
        .def(
            "__init__",
            [](SurfacePairs* self, const Array1<float>& scores, const Array1<double>& log_counts,
               const Array1<std::uint8_t>& hits, const Array1<float>& weights, const Array1<std::uint8_t>& is_odd,
               const Array1<double>& score_knots, const Array1<double>& count_knots) {
                const nb::gil_scoped_release no_gil;
                const PairsView pairs{as_span(scores), as_span(log_counts), as_span(hits), as_span(weights),
                                      as_span(is_odd)};
                check_pairs(pairs, as_span(score_knots), as_span(count_knots));
                new (self) SurfacePairs(pairs, as_span(score_knots), as_span(count_knots));
            },
            nb::arg("scores"), nb::arg("log_counts"), nb::arg("hits"), nb::arg("weights"), nb::arg("is_odd"),
            nb::arg("score_knots"), nb::arg("count_knots"))
        .def(
            "counts",
            [](const SurfacePairs& self, const std::optional<bool>& odd) {
                return CountPair(nb::make_tuple(self.n_pairs(half_of(odd)), self.n_hits(half_of(odd))));
            },
            nb::arg("odd").none(), "Pairs and hits of one half or of both (None), each as often as it counts.")
        .def(
            "loss",
            [](const SurfacePairs& self, const Array2<double>& log_odds, const std::optional<bool>& odd,
               Control& control) {
                SurfaceLoss found;
                const std::size_t n_nodes = log_odds.size();
                if (n_nodes != self.n_nodes())
                    throw std::invalid_argument("SurfacePairs: log_odds must have " + std::to_string(self.n_nodes()) +
                                                " nodes, got " + std::to_string(n_nodes));
                {
                    const nb::gil_scoped_release no_gil;
                    found = self.loss({log_odds.data(), n_nodes}, half_of(odd), control);
                }
                auto gradient = to_numpy(std::move(found.gradient), {n_nodes});
                auto hessian = to_numpy(std::move(found.hessian), {n_nodes, n_nodes});
                return LossArrays(nb::make_tuple(found.loss, gradient, hessian));
            },
            nb::arg("log_odds"), nb::arg("odd").none(), nb::arg("control"),
            "Return the log loss of a surface over one half or both (None), and its derivatives by the values at the "
            "nodes.");
}

}  // namespace longtail::bindings
