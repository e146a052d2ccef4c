#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "bindings/arrays.hpp"
#include "decisions/best_values.hpp"
#include "label_tree/beam.hpp"
#include "label_tree/grow_shape.hpp"
#include "label_tree/label_vectors.hpp"
#include "label_tree/train_nodes.hpp"

namespace longtail::bindings {
namespace {

using ArraysDict = nb::typed<nb::dict, nb::str, nb::object>;
using CsrTuple = nb::typed<nb::tuple, NumpyArray<std::int64_t>, NumpyArray<std::int32_t>, NumpyArray<float>>;
using IdsTuple = nb::typed<nb::tuple, NumpyArray<std::int64_t>, NumpyArray<std::int32_t>>;

using Longs = Array1<std::int64_t>;
using Ints = Array1<std::int32_t>;
using Floats = Array1<float>;

template <class T>
std::span<const T> optional_span(const std::optional<Array1<T>>& array) {
    return array ? as_span(*array) : std::span<const T>{};
}

// Trees work on sparse rows only; Python converts dense ones.
CsrView sparse(const Rows& rows) {
    if (const CsrView* view = std::get_if<CsrView>(&rows.view)) return *view;
    throw std::invalid_argument("label trees take sparse rows");
}

label_tree::Clustering clustering_named(const std::string& name) {
    if (name == "balanced") return label_tree::Clustering::balanced;
    if (name == "k_means") return label_tree::Clustering::k_means;
    throw std::invalid_argument("clustering must be balanced or k_means, got " + name);
}

label_tree::Loss loss_named(const std::string& name) {
    if (name == "squared_hinge") return label_tree::Loss::squared_hinge;
    if (name == "logistic") return label_tree::Loss::logistic;
    throw std::invalid_argument("loss must be squared_hinge or logistic, got " + name);
}

void bind_shapes(nb::module_& m) {
    m.def(
        "label_vectors",
        [](const Rows& rows, const Longs& y_indptr, const Ints& y_row_ids, const std::optional<Floats>& row_weights,
           int n_threads, Control& control) {
            label_tree::LabelVectors out;
            {
                const nb::gil_scoped_release no_gil;
                const CsrView x = sparse(rows);
                out = label_tree::mean_rows(x, as_labels(x.n_rows, y_indptr, y_row_ids), optional_span(row_weights),
                                            n_threads, control);
            }
            return CsrTuple(nb::make_tuple(to_numpy(std::move(out.indptr)), to_numpy(std::move(out.indices)),
                                           to_numpy(std::move(out.values))));
        },
        nb::arg("x"), nb::arg("y_indptr"), nb::arg("y_row_ids"), nb::arg("row_weights").none(), nb::arg("n_threads"),
        nb::arg("control"), "The unit vector along the sum of each label's unit rows, as CSR arrays.");
    m.def(
        "grow_label_tree",
        [](const Rows& rows, const Ints& label_ids, const std::string& clustering, std::int32_t fan_out,
           std::int32_t max_leaf, std::int32_t max_depth, std::uint64_t seed, int n_threads, Control& control) {
            label_tree::Shape out;
            {
                label_tree::ShapeConfig config;
                config.clustering = clustering_named(clustering);
                config.fan_out = fan_out;
                config.max_leaf = max_leaf;
                config.max_depth = max_depth;
                const nb::gil_scoped_release no_gil;
                const CsrView vectors = sparse(rows);
                out = label_tree::grow_shape(vectors, as_span(label_ids), config, seed, n_threads, control);
            }
            return IdsTuple(nb::make_tuple(to_numpy(std::move(out.child_indptr)), to_numpy(std::move(out.child_ids))));
        },
        nb::arg("vectors"), nb::arg("label_ids"), nb::arg("clustering"), nb::arg("fan_out"), nb::arg("max_leaf"),
        nb::arg("max_depth"), nb::arg("seed"), nb::arg("n_threads"), nb::arg("control"),
        "Cluster labels into a tree: (child_indptr, child_ids); a label is ~label_id.");
}

void bind_training(nb::module_& m) {
    nb::class_<label_tree::TrainConfig>(
        m, "LabelTreeConfig", "How the edges of a label tree are trained; see cpp/label_tree/train_nodes.hpp.")
        .def(
            "__init__",
            [](label_tree::TrainConfig* self, const std::string& loss, float cost, float tolerance,
               std::int32_t max_passes, float bias, float prune_below) {
                new (self) label_tree::TrainConfig{{loss_named(loss), cost, tolerance, max_passes, bias}, prune_below};
            },
            nb::kw_only(), nb::arg("loss"), nb::arg("cost"), nb::arg("tolerance"), nb::arg("max_passes"),
            nb::arg("bias"), nb::arg("prune_below"));
    m.def(
        "train_label_tree",
        [](const Rows& rows, const Longs& y_indptr, const Ints& y_row_ids,
           const std::optional<Floats>& positive_weights, const std::optional<Floats>& row_weights,
           const Longs& child_indptr, const Ints& child_ids, const Ints& node_ids,
           const std::optional<Longs>& extra_indptr, const std::optional<Ints>& extra_row_ids,
           const label_tree::TrainConfig& config, std::uint64_t seed, int n_threads, Control& control) {
            label_tree::EdgeWeights result;
            {
                const nb::gil_scoped_release no_gil;
                label_tree::TrainData data;
                data.x = sparse(rows);
                data.rows_of_labels = as_labels(data.x.n_rows, y_indptr, y_row_ids);
                data.positive_weights = optional_span(positive_weights);
                data.row_weights = optional_span(row_weights);
                if (extra_indptr)
                    data.extra_rows = {static_cast<std::int64_t>(node_ids.shape(0)), data.x.n_rows,
                                       as_span(*extra_indptr), optional_span(extra_row_ids)};
                const label_tree::ShapeView shape{as_span(child_indptr), as_span(child_ids)};
                result = label_tree::train_nodes(data, shape, as_span(node_ids), config, seed, n_threads, control);
            }
            ArraysDict out;
            out["feature_indptr"] = to_numpy(std::move(result.feature_indptr));
            out["feature_ids"] = to_numpy(std::move(result.feature_ids));
            out["row_begins"] = to_numpy(std::move(result.row_begins));
            out["entry_begins"] = to_numpy(std::move(result.entry_begins));
            out["edges"] = to_numpy(std::move(result.edges));
            out["weights"] = to_numpy(std::move(result.weights));
            out["biases"] = to_numpy(std::move(result.biases));
            return out;
        },
        nb::arg("x"), nb::arg("y_indptr"), nb::arg("y_row_ids"), nb::arg("positive_weights").none(),
        nb::arg("row_weights").none(), nb::arg("child_indptr"), nb::arg("child_ids"), nb::arg("node_ids"),
        nb::arg("extra_indptr").none(), nb::arg("extra_row_ids").none(), nb::arg("config"), nb::arg("seed"),
        nb::arg("n_threads"), nb::arg("control"),
        "Train the edges of some nodes; the arrays of cpp/label_tree/tree.hpp.");
}

// A fitted forest as the kernels see it; keeps the arrays alive. The weights of a node are checked when it is first read.
struct LabelForest {
    label_tree::ForestView view;
    nb::object owner;
    std::unique_ptr<std::atomic<std::uint8_t>[]> is_checked;
};

void bind_prediction(nb::module_& m) {
    nb::class_<LabelForest>(m, "LabelForest", "The arrays of a fitted LabelTree; see cpp/label_tree/tree.hpp.")
        .def(
            "__init__",
            [](LabelForest* self, const Ints& roots, const Longs& child_indptr, const Ints& child_ids,
               const Longs& feature_indptr, const Ints& feature_ids, const Ints& row_begins, const Longs& entry_begins,
               const Array1<std::uint16_t>& edges, const std::optional<Floats>& weights,
               const std::optional<Array1<std::int8_t>>& codes, const std::optional<Floats>& scales,
               const Floats& biases) {
                const std::size_t n_nodes = std::max<std::size_t>(child_indptr.shape(0), 1) - 1;
                new (self) LabelForest{{{as_span(child_indptr), as_span(child_ids)},
                                        as_span(roots),
                                        as_span(feature_indptr),
                                        as_span(feature_ids),
                                        as_span(row_begins),
                                        as_span(entry_begins),
                                        as_span(edges),
                                        optional_span(weights),
                                        optional_span(codes),
                                        optional_span(scales),
                                        as_span(biases)},
                                       nb::make_tuple(roots, child_indptr, child_ids, feature_indptr, feature_ids,
                                                      row_begins, entry_begins, edges, weights, codes, scales, biases),
                                       std::make_unique<std::atomic<std::uint8_t>[]>(n_nodes)};
                self->view.is_checked = self->is_checked.get();
            },
            nb::arg("roots"), nb::arg("child_indptr"), nb::arg("child_ids"), nb::arg("feature_indptr"),
            nb::arg("feature_ids"), nb::arg("row_begins"), nb::arg("entry_begins"), nb::arg("edges"),
            nb::arg("weights").none(), nb::arg("codes").none(), nb::arg("scales").none(), nb::arg("biases"))
        .def(
            "check_trees",
            [](const LabelForest& self, std::int64_t n_features, std::int64_t n_labels) {
                const nb::gil_scoped_release no_gil;
                label_tree::check_trees(self.view, n_features, n_labels);
            },
            nb::arg("n_features"), nb::arg("n_labels"),
            "Raise ValueError unless the arrays form trees; weights are checked when prediction first reads them.")
        .def(
            "check_weights",
            [](const LabelForest& self) {
                const nb::gil_scoped_release no_gil;
                for (std::int64_t node = 0; node < self.view.shape.n_nodes(); ++node)
                    label_tree::check_once(self.view, node);
            },
            "Raise ValueError unless the weights of all nodes can be read safely; after check_trees.");
    m.def(
        "predict_label_tree",
        [](const Rows& rows, const LabelForest& forest, std::int32_t beam_width, std::int32_t power, float slope,
           float path_weight, std::int32_t top_k, int n_threads, Control& control) {
            TopLabels out;
            {
                const nb::gil_scoped_release no_gil;
                const CsrView x = sparse(rows);
                const label_tree::BeamConfig config{beam_width, {power, slope}, path_weight};
                out = label_tree::predict_beam(x, forest.view, config, top_k, n_threads, control);
            }
            return to_python(std::move(out), top_k);
        },
        nb::arg("x"), nb::arg("forest"), nb::arg("beam_width"), nb::arg("power"), nb::arg("slope"),
        nb::arg("path_weight"), nb::arg("top_k"), nb::arg("n_threads"), nb::arg("control"),
        "Beam search: (label_ids, scores), each (n_rows, top_k).");
    m.def(
        "predict_label_tree_by_value",
        [](const Rows& rows, const LabelForest& forest, std::int64_t n_labels, std::int32_t beam_width,
           std::int32_t power, float slope, float path_weight, const ValueTable& values, std::int32_t top_k,
           int n_threads, Control& control) {
            ValuedLabels out;
            {
                const nb::gil_scoped_release no_gil;
                check_values(values, n_labels);
                const CsrView x = sparse(rows);
                const label_tree::BeamConfig config{beam_width, {power, slope}, path_weight};
                out = label_tree::predict_beam_by_value(x, forest.view, config, values, top_k, n_threads, control);
            }
            return to_python(std::move(out), top_k);
        },
        nb::arg("x"), nb::arg("forest"), nb::arg("n_labels"), nb::arg("beam_width"), nb::arg("power"), nb::arg("slope"),
        nb::arg("path_weight"), nb::arg("values"), nb::arg("top_k"), nb::arg("n_threads"), nb::arg("control"),
        "Beam search, labels ranked by their values: (label_ids, values, scores), each (n_rows, top_k).");
    m.def(
        "route_label_tree",
        [](const Rows& rows, const LabelForest& forest, std::int32_t beam_width, std::int32_t power, float slope,
           int n_threads, Control& control) {
            label_tree::Routes out;
            {
                const nb::gil_scoped_release no_gil;
                const CsrView x = sparse(rows);
                out = label_tree::route_rows(x, forest.view, {beam_width, {power, slope}, 1.0F}, n_threads, control);
            }
            return IdsTuple(nb::make_tuple(to_numpy(std::move(out.indptr)), to_numpy(std::move(out.row_ids))));
        },
        nb::arg("x"), nb::arg("forest"), nb::arg("beam_width"), nb::arg("power"), nb::arg("slope"),
        nb::arg("n_threads"), nb::arg("control"),
        "The rows whose beam visits each node over labels: (indptr over nodes, row_ids).");
}

}  // namespace

void bind_label_tree(nb::module_& m) {
    bind_shapes(m);
    bind_training(m);
    bind_prediction(m);
}

}  // namespace longtail::bindings
