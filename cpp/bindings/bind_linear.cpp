#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "bindings/arrays.hpp"
#include "linear/coarse_rows.hpp"
#include "linear/list_trainer.hpp"
#include "linear/logistic_samples.hpp"
#include "linear/postings.hpp"
#include "linear/predict_ova.hpp"
#include "linear/problem.hpp"
#include "linear/row_blocks.hpp"
#include "linear/train_ova.hpp"
#include "linear/weight_index.hpp"
#include "linear/working_set.hpp"

namespace longtail::bindings {
namespace {

using linear::DenseRows;
using linear::OvaConfig;
using linear::OvaStart;
using linear::SparseRows;

// X as the solvers see it, sparse or dense; keeps the arrays alive.
struct LinearRows {
    std::variant<SparseRows, DenseRows> rows;
    nb::object owner;
};

// The inverted index of short rows as the arrays of a plan: the parts of linear::Postings by name.
struct PostingsArrays {
    Array1<std::int32_t> places;
    Array1<std::int32_t> features;
    Array1<std::int64_t> row_indptr;
    Array1<std::int32_t> row_features;
    Array1<float> row_values;
    Array1<std::int64_t> indptr;
    Array1<std::int32_t> row_ids;
    Array1<float> values;
    Array1<double> sums;
    Array1<double> squares;
    Array1<std::int64_t> copy_begins;
    Array1<std::int32_t> copy_features;
    Array1<float> copy_values;
    Array1<float> row_gaps;
    Array1<float> posting_gaps;
    Array1<std::int64_t> holder_indptr;
    Array1<std::int32_t> holder_places;

    explicit PostingsArrays(const nb::dict& parts)
        : places(nb::cast<Array1<std::int32_t>>(parts["places"])),
          features(nb::cast<Array1<std::int32_t>>(parts["features"])),
          row_indptr(nb::cast<Array1<std::int64_t>>(parts["row_indptr"])),
          row_features(nb::cast<Array1<std::int32_t>>(parts["row_features"])),
          row_values(nb::cast<Array1<float>>(parts["row_values"])),
          indptr(nb::cast<Array1<std::int64_t>>(parts["indptr"])),
          row_ids(nb::cast<Array1<std::int32_t>>(parts["row_ids"])),
          values(nb::cast<Array1<float>>(parts["values"])),
          sums(nb::cast<Array1<double>>(parts["sums"])),
          squares(nb::cast<Array1<double>>(parts["squares"])),
          copy_begins(nb::cast<Array1<std::int64_t>>(parts["copy_begins"])),
          copy_features(nb::cast<Array1<std::int32_t>>(parts["copy_features"])),
          copy_values(nb::cast<Array1<float>>(parts["copy_values"])),
          row_gaps(nb::cast<Array1<float>>(parts["row_gaps"])),
          posting_gaps(nb::cast<Array1<float>>(parts["posting_gaps"])),
          holder_indptr(nb::cast<Array1<std::int64_t>>(parts["holder_indptr"])),
          holder_places(nb::cast<Array1<std::int32_t>>(parts["holder_places"])) {}

    linear::PostingsView view() const {
        const CsrView ordered{std::ssize(as_span(places)), std::ssize(as_span(indptr)) - 1, as_span(row_indptr),
                              as_span(row_features), as_span(row_values)};
        return {as_span(places),        as_span(features),      ordered,
                as_span(indptr),        as_span(row_ids),       as_span(values),
                as_span(sums),          as_span(squares),       as_span(copy_begins),
                as_span(copy_features), as_span(copy_values),   as_span(row_gaps),
                as_span(posting_gaps),  as_span(holder_indptr), as_span(holder_places)};
    }
};

nb::dict as_dict(linear::Postings&& postings) {
    nb::dict out;
    out["places"] = to_numpy(std::move(postings.places));
    out["features"] = to_numpy(std::move(postings.features));
    out["row_indptr"] = to_numpy(std::move(postings.row_indptr));
    out["row_features"] = to_numpy(std::move(postings.row_features));
    out["row_values"] = to_numpy(std::move(postings.row_values));
    out["indptr"] = to_numpy(std::move(postings.indptr));
    out["row_ids"] = to_numpy(std::move(postings.row_ids));
    out["values"] = to_numpy(std::move(postings.values));
    out["sums"] = to_numpy(std::move(postings.sums));
    out["squares"] = to_numpy(std::move(postings.squares));
    out["copy_begins"] = to_numpy(std::move(postings.copy_begins));
    out["copy_features"] = to_numpy(std::move(postings.copy_features));
    out["copy_values"] = to_numpy(std::move(postings.copy_values));
    out["row_gaps"] = to_numpy(std::move(postings.row_gaps));
    out["posting_gaps"] = to_numpy(std::move(postings.posting_gaps));
    out["holder_indptr"] = to_numpy(std::move(postings.holder_indptr));
    out["holder_places"] = to_numpy(std::move(postings.holder_places));
    return out;
}

// Named as the parts of postings, of which some are empty.
nb::dict as_dict(linear::WordListParts&& parts) {
    nb::dict out;
    out["places"] = to_numpy(std::move(parts.places));
    out["row_indptr"] = to_numpy(std::move(parts.row_indptr));
    out["row_features"] = to_numpy(std::move(parts.row_features));
    out["row_values"] = to_numpy(std::move(parts.row_values));
    out["indptr"] = to_numpy(std::move(parts.indptr));
    out["row_ids"] = to_numpy(std::move(parts.row_ids));
    out["values"] = to_numpy(std::move(parts.values));
    out["sums"] = to_numpy(std::vector<double>{});
    out["squares"] = to_numpy(std::vector<double>{});
    for (const char* name : {"features", "copy_features", "holder_places"})
        out[name] = to_numpy(std::vector<std::int32_t>{});
    for (const char* name : {"copy_begins", "holder_indptr"}) out[name] = to_numpy(std::vector<std::int64_t>{});
    for (const char* name : {"copy_values", "row_gaps", "posting_gaps"}) out[name] = to_numpy(std::vector<float>{});
    return out;
}

template <class T>
std::span<const T> optional_span(const std::optional<Array1<T>>& array) {
    return array ? as_span(*array) : std::span<const T>{};
}

linear::Loss loss_named(const std::string& name) {
    if (name == "squared_hinge") return linear::Loss::squared_hinge;
    if (name == "logistic") return linear::Loss::logistic;
    throw std::invalid_argument("loss must be squared_hinge or logistic, got " + name);
}

linear::StartKind start_named(const std::string& name) {
    if (name == "zero") return linear::StartKind::zero;
    if (name == "bias") return linear::StartKind::bias;
    if (name == "shared") return linear::StartKind::shared;
    if (name == "msi") return linear::StartKind::mean_separating;
    if (name == "own") return linear::StartKind::own;
    throw std::invalid_argument("start must be zero, bias, shared, msi or own, got " + name);
}

nb::dict as_dict(linear::OvaResult&& result) {
    nb::dict out;
    auto& statistics = result.statistics;
    out["indptr"] = to_numpy(std::move(result.indptr));
    out["feature_ids"] = to_numpy(std::move(result.feature_ids));
    out["weights"] = to_numpy(std::move(result.weights));
    out["biases"] = to_numpy(std::move(result.biases));
    out["iterations"] = to_numpy(std::move(statistics.iterations));
    out["cg_steps"] = to_numpy(std::move(statistics.cg_steps));
    out["converged"] = to_numpy(std::move(statistics.converged));
    out["seconds"] = to_numpy(std::move(statistics.seconds));
    out["first_objective"] = to_numpy(std::move(statistics.first_objective));
    out["last_objective"] = to_numpy(std::move(statistics.last_objective));
    out["gradient_ratio"] = to_numpy(std::move(statistics.gradient_ratio));
    out["distance"] = to_numpy(std::move(statistics.distance));
    out["history_indptr"] = to_numpy(std::move(statistics.history_indptr));
    out["objectives"] = to_numpy(std::move(statistics.objectives));
    out["active_rows"] = to_numpy(std::move(statistics.active_rows));
    out["step_sizes"] = to_numpy(std::move(statistics.step_sizes));
    out["step_seconds"] = to_numpy(std::move(statistics.step_seconds));
    out["step_cg_steps"] = to_numpy(std::move(statistics.step_cg_steps));
    return out;
}

// The exact weights of a coded index: indptr by feature, label ids, weights divided by the labels' scales.
using ExactWeights = std::tuple<Array1<std::int64_t>, Array1<std::int32_t>, Array1<float>>;

// The parts of linear::RowBlocksView, in order.
using RowBlockArrays =
    std::tuple<Array1<std::int32_t>, Array1<std::int32_t>, Array1<std::int64_t>, Array1<std::uint16_t>, Array1<float>>;

linear::OvaIndex as_index(std::int64_t n_labels, const Array1<std::int64_t>& indptr,
                          const Array1<std::int32_t>& label_ids, const std::optional<Array1<float>>& weights,
                          const std::optional<Array1<std::int8_t>>& codes, const std::optional<Array1<float>>& scales,
                          const std::optional<ExactWeights>& exact, const Array1<float>& biases,
                          const Array1<std::int64_t>& counts) {
    linear::OvaIndex index{n_labels,
                           as_span(indptr),
                           as_span(label_ids),
                           optional_span(weights),
                           optional_span(codes),
                           optional_span(scales),
                           as_span(biases),
                           as_span(counts)};
    if (exact) {
        index.exact_indptr = as_span(std::get<0>(*exact));
        index.exact_label_ids = as_span(std::get<1>(*exact));
        index.exact_weights = as_span(std::get<2>(*exact));
    }
    return index;
}

void bind_training(nb::module_& m) {
    nb::class_<OvaConfig>(m, "OvaConfig", "How one-vs-all labels are trained; see cpp/linear/problem.hpp.")
        .def(
            "__init__",
            [](OvaConfig* self, const std::string& loss, double cost, double tolerance, float bias,
               bool regularize_bias, float prune_below, bool working_sets, int max_iterations,
               const std::string& cg_rule, double cg_tolerance, bool train_empty, bool keep_history) {
                new (self) OvaConfig{loss_named(loss),
                                     cost,
                                     tolerance,
                                     bias,
                                     regularize_bias,
                                     prune_below,
                                     working_sets,
                                     max_iterations,
                                     cg_rule == "quadratic" ? linear::CgRule::quadratic : linear::CgRule::residual,
                                     cg_tolerance,
                                     train_empty,
                                     keep_history};
            },
            nb::kw_only(), nb::arg("loss"), nb::arg("cost"), nb::arg("tolerance"), nb::arg("bias"),
            nb::arg("regularize_bias"), nb::arg("prune_below"), nb::arg("working_sets"), nb::arg("max_iterations"),
            nb::arg("cg_rule"), nb::arg("cg_tolerance"), nb::arg("train_empty") = false,
            nb::arg("keep_history") = false);
    m.def(
        "ova_background",
        [](const LinearRows& rows, const Array1<float>& mean, const OvaConfig& config,
           Control& control) -> std::optional<nb::object> {
            const auto* sparse = std::get_if<SparseRows>(&rows.rows);
            std::vector<double> flat;
            {
                const nb::gil_scoped_release no_gil;
                if (sparse == nullptr || !linear::PostingsTrainer::suits(*sparse, config)) sparse = nullptr;
                if (sparse != nullptr)
                    flat = linear::solve_background(*sparse, {as_span(mean), {}, {}}, config, control).flattened();
            }
            if (sparse == nullptr) return std::nullopt;
            return nb::cast(to_numpy(std::move(flat)));
        },
        nb::arg("rows"), nb::arg("mean"), nb::arg("config"), nb::arg("control"),
        nb::sig("def ova_background(rows: LinearRows, mean: NDArray[numpy.float32], config: OvaConfig, "
                "control: Control) -> NDArray[numpy.float64] | None"),
        "Solve what all labels of a set of short rows share (cpp/linear/background.hpp); None for other rows.");
    m.def(
        "ova_postings",
        [](const LinearRows& rows, const Array1<double>& background) {
            const auto* sparse = std::get_if<SparseRows>(&rows.rows);
            if (sparse == nullptr) throw std::invalid_argument("ova_postings: rows must be sparse, got dense rows");
            std::optional<linear::Postings> postings;
            {
                const nb::gil_scoped_release no_gil;
                const linear::Background solved(as_span(background));
                if (std::ssize(solved.weights) != sparse->n_features())
                    throw std::invalid_argument("ova_postings: background must have a weight for each feature");
                postings.emplace(*sparse, solved.weights, solved.shift);
            }
            return as_dict(std::move(*postings));
        },
        nb::arg("rows"), nb::arg("background"),
        nb::sig("def ova_postings(rows: LinearRows, background: NDArray[numpy.float64]) -> "
                "dict[str, NDArray[typing.Any]]"),
        "Make the inverted index of short rows (cpp/linear/posting_lists.hpp), part by part.");
    m.def(
        "ova_coarse_rows",
        [](const LinearRows& rows, const OvaConfig& config) -> std::optional<nb::tuple> {
            const auto* sparse = std::get_if<SparseRows>(&rows.rows);
            std::optional<linear::CoarseRows> coarse;
            {
                const nb::gil_scoped_release no_gil;
                if (sparse != nullptr && linear::WorkingSetTrainer<SparseRows>::suits_rough_solutions(config) &&
                    !linear::PostingsTrainer::suits(*sparse, config) && !linear::ListTrainer::suits(*sparse, config))
                    coarse = linear::make_coarse_rows(*sparse);
            }
            if (!coarse) return std::nullopt;
            return nb::make_tuple(to_numpy(std::move(coarse->indptr)), to_numpy(std::move(coarse->indices)),
                                  to_numpy(std::move(coarse->values)));
        },
        nb::arg("rows"), nb::arg("config"),
        nb::sig("def ova_coarse_rows(rows: LinearRows, config: OvaConfig) -> tuple[NDArray[numpy.int64], "
                "NDArray[numpy.int32], NDArray[numpy.float32]] | None"),
        "Leave out the small entries of rows (cpp/linear/coarse_rows.hpp): indptr, indices and values, or None where "
        "training does not use them.");
    m.def(
        "ova_row_blocks",
        [](const LinearRows& rows, const OvaConfig& config) -> std::optional<nb::tuple> {
            const auto* sparse = std::get_if<SparseRows>(&rows.rows);
            std::optional<linear::RowBlockParts> parts;
            {
                const nb::gil_scoped_release no_gil;
                if (sparse != nullptr && linear::LogisticSampleTrainer::knows(config) &&
                    linear::RowBlocks::suits(*sparse))
                    parts.emplace(*sparse);
            }
            if (!parts) return std::nullopt;
            return nb::make_tuple(to_numpy(std::move(parts->features)), to_numpy(std::move(parts->sizes)),
                                  to_numpy(std::move(parts->begins)), to_numpy(std::move(parts->places)),
                                  to_numpy(std::move(parts->values)));
        },
        nb::arg("rows"), nb::arg("config"),
        nb::sig("def ova_row_blocks(rows: LinearRows, config: OvaConfig) -> tuple[NDArray[numpy.int32], "
                "NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.uint16], NDArray[numpy.float32]] | None"),
        "Put X into blocks of rows, feature by feature (cpp/linear/row_blocks.hpp); None where training does not use "
        "them.");
    m.def(
        "ova_word_lists",
        [](const LinearRows& rows, const Array1<float>& mean, const OvaConfig& config,
           Control& control) -> std::optional<nb::tuple> {
            const auto* sparse = std::get_if<SparseRows>(&rows.rows);
            std::optional<linear::WordListParts> parts;
            std::vector<double> background;
            {
                const nb::gil_scoped_release no_gil;
                if (sparse != nullptr && linear::ListTrainer::suits(*sparse, config)) {
                    parts.emplace(*sparse);
                    if (linear::ListTrainer::uses_background(config))
                        background =
                            linear::solve_background(*sparse, {as_span(mean), {}, {}}, config, control).flattened();
                }
            }
            if (!parts) return std::nullopt;
            return nb::make_tuple(as_dict(std::move(*parts)), to_numpy(std::move(background)));
        },
        nb::arg("rows"), nb::arg("mean"), nb::arg("config"), nb::arg("control"),
        nb::sig("def ova_word_lists(rows: LinearRows, mean: NDArray[numpy.float32], config: OvaConfig, "
                "control: Control) -> tuple[dict[str, NDArray[typing.Any]], NDArray[numpy.float64]] | None"),
        "Make what labels that are trained through lists of words share: the lists (cpp/linear/word_lists.hpp), part "
        "by part, and the background (empty if it is not used); None if rows or configuration do not suit.");
    m.def(
        "train_ova",
        [](const LinearRows& rows, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& row_ids,
           const std::optional<Array1<float>>& positive_weights, const std::optional<Array1<float>>& row_weights,
           const Array1<float>& mean, const Array1<float>& mean_margins,
           const std::optional<Array1<double>>& background, const std::optional<nb::dict>& postings,
           const LinearRows* coarse, const std::optional<RowBlockArrays>& blocks, const OvaConfig& config,
           const std::string& start_kind, double positive_margin, double negative_margin, double bias_weight,
           const std::optional<Array1<float>>& shared, const std::optional<Array1<float>>& shared_margins,
           const std::optional<Array1<std::int64_t>>& own_indptr,
           const std::optional<Array1<std::int32_t>>& own_feature_ids, const std::optional<Array1<float>>& own_weights,
           const std::optional<Array1<float>>& own_biases, const std::optional<Array1<std::int32_t>>& parents,
           Control& control) {
            linear::OvaResult result;
            OvaStart start;
            start.kind = start_named(start_kind);
            start.positive_margin = positive_margin;
            start.negative_margin = negative_margin;
            start.bias_weight = bias_weight;
            start.shared = optional_span(shared);
            start.shared_margins = optional_span(shared_margins);
            start.own_biases = optional_span(own_biases);
            start.parents = optional_span(parents);
            std::optional<PostingsArrays> index;
            if (postings) index.emplace(*postings);
            linear::OvaMoments moments{as_span(mean), as_span(mean_margins), optional_span(background),
                                       index ? index->view() : linear::PostingsView{}};
            if (coarse != nullptr) moments.coarse = std::get<SparseRows>(coarse->rows).view();
            if (blocks)
                moments.blocks =
                    std::apply([](const auto&... parts) { return linear::RowBlocksView{as_span(parts)...}; }, *blocks);
            {
                const nb::gil_scoped_release no_gil;
                std::visit(
                    [&](const auto& given) {
                        const linear::OvaLabels labels{as_labels(given.n_rows(), indptr, row_ids),
                                                       optional_span(positive_weights), optional_span(row_weights)};
                        if (own_indptr)
                            start.own_weights = {labels.positives.n_rows, given.n_features(), as_span(*own_indptr),
                                                 optional_span(own_feature_ids), optional_span(own_weights)};
                        result = linear::train_ova(given, labels, moments, start, config, control);
                    },
                    rows.rows);
            }
            return as_dict(std::move(result));
        },
        nb::arg("rows"), nb::arg("indptr"), nb::arg("row_ids"), nb::arg("positive_weights").none(),
        nb::arg("row_weights").none(), nb::arg("mean"), nb::arg("mean_margins"), nb::arg("background").none(),
        nb::arg("postings").none(), nb::arg("coarse").none(), nb::arg("blocks").none(), nb::arg("config"),
        nb::arg("start"), nb::arg("positive_margin"), nb::arg("negative_margin"), nb::arg("bias_weight"),
        nb::arg("shared").none(), nb::arg("shared_margins").none(), nb::arg("own_indptr").none(),
        nb::arg("own_feature_ids").none(), nb::arg("own_weights").none(), nb::arg("own_biases").none(),
        nb::arg("parents").none(), nb::arg("control"),
        nb::sig("def train_ova(rows: LinearRows, indptr: NDArray[numpy.int64], row_ids: NDArray[numpy.int32], "
                "positive_weights: NDArray[numpy.float32] | None, row_weights: NDArray[numpy.float32] | None, "
                "mean: NDArray[numpy.float32], mean_margins: NDArray[numpy.float32], background: "
                "NDArray[numpy.float64] | None, postings: dict[str, NDArray[typing.Any]] | None, coarse: LinearRows | "
                "None, "
                "blocks: tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int64], "
                "NDArray[numpy.uint16], NDArray[numpy.float32]] | None, "
                "config: OvaConfig, "
                "start: str, positive_margin: float, "
                "negative_margin: float, bias_weight: float, shared: NDArray[numpy.float32] | None, "
                "shared_margins: NDArray[numpy.float32] | None, own_indptr: NDArray[numpy.int64] | None, "
                "own_feature_ids: NDArray[numpy.int32] | None, own_weights: NDArray[numpy.float32] | None, "
                "own_biases: NDArray[numpy.float32] | None, parents: NDArray[numpy.int32] | None, "
                "control: Control) -> dict[str, NDArray[typing.Any]]"),
        "Train the labels whose positive rows are given label-major; returns the fields of OvaResult.");
}

void bind_rows(nb::module_& m) {
    nb::class_<LinearRows>(m, "LinearRows", "X as the linear solvers see it; keeps the arrays alive.")
        .def(
            "__init__",
            [](LinearRows* self, nb::handle_t<Rows> x) {
                const Rows& rows = nb::cast<const Rows&>(x);
                nb::object owner = nb::borrow(x);
                if (const auto* csr = std::get_if<CsrView>(&rows.view))
                    new (self) LinearRows{SparseRows(*csr), std::move(owner)};
                else
                    new (self) LinearRows{DenseRows(std::get<DenseView>(rows.view)), std::move(owner)};
            },
            nb::arg("x"));
    m.def(
        "mean_row",
        [](const LinearRows& rows, float bias) {
            std::vector<float> mean;
            {
                const nb::gil_scoped_release no_gil;
                mean = std::visit([&](const auto& given) { return linear::mean_row(given, bias); }, rows.rows);
            }
            return to_numpy(std::move(mean));
        },
        nb::arg("rows"), nb::arg("bias"), "The mean row, with the bias feature behind.");
    m.def(
        "row_margins",
        [](const LinearRows& rows, const Array1<float>& weights, float bias) {
            std::vector<float> margins;
            {
                const nb::gil_scoped_release no_gil;
                margins = std::visit(
                    [&](const auto& given) { return linear::row_margins(given, as_span(weights), bias); }, rows.rows);
            }
            return to_numpy(std::move(margins));
        },
        nb::arg("rows"), nb::arg("weights"), nb::arg("bias"), "Every row times weights (the bias weight last).");
}

template <class Weight>
void bind_place_weights(nb::module_& m) {
    m.def(
        "place_weights",
        [](const Array1<std::int32_t>& feature_ids, const Array1<std::int32_t>& label_ids,
           const Array1<Weight>& weights, const MutableArray1<std::int64_t>& cursor,
           const MutableArray1<std::int32_t>& index_labels, const MutableArray1<Weight>& index_weights, int n_threads,
           Control& control) {
            const nb::gil_scoped_release no_gil;
            linear::place_weights(as_span(feature_ids), as_span(label_ids), as_span(weights), as_mutable_span(cursor),
                                  as_mutable_span(index_labels), as_mutable_span(index_weights), n_threads, control);
        },
        nb::arg("feature_ids"), nb::arg("label_ids"), nb::arg("weights"), nb::arg("cursor"), nb::arg("index_labels"),
        nb::arg("index_weights"), nb::arg("n_threads"), nb::arg("control"),
        "Put label-major weights into the lists of their features, and move the cursors.");
}

void bind_prediction(nb::module_& m) {
    m.def(
        "predict_ova",
        [](const Rows& rows, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& label_ids, const std::optional<Array1<float>>& weights,
           const std::optional<Array1<std::int8_t>>& codes, const std::optional<Array1<float>>& scales,
           const std::optional<ExactWeights>& exact, const Array1<float>& biases, const Array1<std::int64_t>& counts,
           const std::optional<std::pair<Array1<std::int32_t>, Array1<std::uint16_t>>>& masks, std::int64_t top_k,
           int n_threads, Control& control) {
            TopLabels top;
            auto index = as_index(n_labels, indptr, label_ids, weights, codes, scales, exact, biases, counts);
            if (masks) index.masks = {as_span(masks->first), as_span(masks->second)};
            {
                const nb::gil_scoped_release no_gil;
                top = std::visit(
                    [&](const auto& view) { return linear::predict_ova(index, view, top_k, n_threads, control); },
                    rows.view);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("rows"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("label_ids"), nb::arg("weights").none(),
        nb::arg("codes").none(), nb::arg("scales").none(), nb::arg("exact").none(), nb::arg("biases"),
        nb::arg("counts"), nb::arg("masks").none(), nb::arg("top_k"), nb::arg("n_threads"), nb::arg("control"),
        "The exact top_k labels of every row: label ids (-1 padded) and scores.");
    m.def(
        "predict_ova_by_value",
        [](const Rows& rows, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& label_ids, const std::optional<Array1<float>>& weights,
           const std::optional<Array1<std::int8_t>>& codes, const std::optional<Array1<float>>& scales,
           const std::optional<ExactWeights>& exact, const Array1<float>& biases, const Array1<std::int64_t>& counts,
           const std::optional<std::pair<Array1<std::int32_t>, Array1<std::uint16_t>>>& masks, const ValueTable& values,
           std::int64_t top_k, int n_threads, Control& control) {
            ValuedLabels top;
            auto index = as_index(n_labels, indptr, label_ids, weights, codes, scales, exact, biases, counts);
            if (masks) index.masks = {as_span(masks->first), as_span(masks->second)};
            {
                const nb::gil_scoped_release no_gil;
                top = std::visit(
                    [&](const auto& view) {
                        return linear::predict_ova_by_value(index, view, values, top_k, n_threads, control);
                    },
                    rows.view);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("rows"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("label_ids"), nb::arg("weights").none(),
        nb::arg("codes").none(), nb::arg("scales").none(), nb::arg("exact").none(), nb::arg("biases"),
        nb::arg("counts"), nb::arg("masks").none(), nb::arg("values"), nb::arg("top_k"), nb::arg("n_threads"),
        nb::arg("control"),
        "The top_k labels of every row with the greatest values: label ids (-1 padded), values and scores.");
    m.def(
        "label_masks",
        [](const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& label_ids, std::int64_t n_labels) {
            linear::LabelMasks masks;
            {
                const nb::gil_scoped_release no_gil;
                masks = linear::make_label_masks(as_span(indptr), as_span(label_ids), n_labels);
            }
            return std::make_pair(to_numpy(std::move(masks.places)), to_numpy(std::move(masks.masks)));
        },
        nb::arg("indptr"), nb::arg("label_ids"), nb::arg("n_labels"),
        "Bits of the labels of each frequent feature, which make predict_ova faster for few rows.");
    m.def(
        "check_ova_index",
        [](std::int64_t n_features, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& label_ids, const std::optional<Array1<float>>& weights,
           const std::optional<Array1<std::int8_t>>& codes, const std::optional<Array1<float>>& scales,
           const std::optional<ExactWeights>& exact, const Array1<float>& biases, const Array1<std::int64_t>& counts) {
            const auto index = as_index(n_labels, indptr, label_ids, weights, codes, scales, exact, biases, counts);
            const nb::gil_scoped_release no_gil;
            linear::check_index(index, n_features);
        },
        nb::arg("n_features"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("label_ids"), nb::arg("weights").none(),
        nb::arg("codes").none(), nb::arg("scales").none(), nb::arg("exact").none(), nb::arg("biases"),
        nb::arg("counts"), "Raise ValueError unless the arrays form a feature-major index of label weights.");
}

}  // namespace

void bind_linear(nb::module_& m) {
    bind_rows(m);
    bind_place_weights<float>(m);
    bind_place_weights<std::int8_t>(m);
    bind_training(m);
    bind_prediction(m);
}

}  // namespace longtail::bindings
