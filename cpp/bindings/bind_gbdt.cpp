#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include "bindings/arrays.hpp"
#include "gbdt/booster.hpp"
#include "gbdt/forest.hpp"
#include "gbdt/multiply.hpp"

namespace longtail::bindings {
namespace {

using gbdt::Booster;
using gbdt::BoostParams;
using gbdt::ForestView;

using ParamsDict = nb::typed<nb::dict, nb::str, nb::object>;
using TreeDict = nb::typed<nb::dict, nb::str, nb::object>;
using SplitsDict = nb::typed<nb::dict, nb::str, nb::object>;

BoostParams read_params(const ParamsDict& from) {
    BoostParams params;
    params.loss = nb::cast<std::string>(from["loss"]) == "squared" ? gbdt::Loss::kSquared : gbdt::Loss::kSquaredHinge;
    params.leaf_top_k = nb::cast<std::int32_t>(from["leaf_top_k"]);
    params.split_labels = nb::cast<std::int32_t>(from["split_labels"]);
    params.l2 = nb::cast<double>(from["l2"]);
    params.max_depth = nb::cast<std::int32_t>(from["max_depth"]);
    params.min_leaf_size = nb::cast<std::int64_t>(from["min_leaf_size"]);
    params.threshold_step = nb::cast<double>(from["threshold_step"]);
    params.shrinkage = nb::cast<double>(from["shrinkage"]);
    params.row_share = nb::cast<double>(from["row_share"]);
    params.feature_share = nb::cast<double>(from["feature_share"]);
    params.seed = nb::cast<std::uint64_t>(from["seed"]);
    return params;
}

TreeDict tree_to_dict(gbdt::Tree&& tree) {
    TreeDict out;
    out["split_features"] = to_numpy(std::move(tree.split_features));
    out["thresholds"] = to_numpy(std::move(tree.thresholds));
    out["left_children"] = to_numpy(std::move(tree.left_children));
    out["gains"] = to_numpy(std::move(tree.gains));
    out["leaf_begin"] = to_numpy(std::move(tree.leaf_begin));
    out["leaf_label_ids"] = to_numpy(std::move(tree.leaf_label_ids));
    out["leaf_values"] = to_numpy(std::move(tree.leaf_values));
    return out;
}

gbdt::ColumnBlock checked_block(std::size_t n_columns, std::int32_t first_feature, std::int32_t n_features) {
    if (first_feature < 0 || (n_features != 0 && first_feature + static_cast<std::int64_t>(n_columns) > n_features) ||
        (n_features == 0 && first_feature != 0))
        throw std::invalid_argument("Booster: a block must lie within the n_features features");
    return {first_feature, n_features};
}

// One array a field, one entry an open node.
SplitsDict splits_to_dict(const std::vector<gbdt::SplitChoice>& choices) {
    std::vector<double> reductions;
    std::vector<std::int32_t> features;
    std::vector<float> thresholds;
    std::vector<std::int32_t> bins;
    for (const gbdt::SplitChoice& choice : choices) {
        reductions.push_back(choice.reduction);
        features.push_back(choice.feature);
        thresholds.push_back(choice.threshold);
        bins.push_back(choice.bin);
    }
    SplitsDict out;
    out["reductions"] = to_numpy(std::move(reductions));
    out["features"] = to_numpy(std::move(features));
    out["thresholds"] = to_numpy(std::move(thresholds));
    out["bins"] = to_numpy(std::move(bins));
    return out;
}

std::vector<gbdt::SplitChoice> read_splits(const Array1<double>& reductions, const Array1<std::int32_t>& features,
                                           const Array1<float>& thresholds, const Array1<std::int32_t>& bins) {
    const std::size_t n = features.shape(0);
    if (reductions.shape(0) != n || thresholds.shape(0) != n || bins.shape(0) != n)
        throw std::invalid_argument("Booster: reductions, features, thresholds and bins must be equally long");
    std::vector<gbdt::SplitChoice> choices(n);
    for (std::size_t i = 0; i < n; ++i) {
        choices[i].reduction = as_span(reductions)[i];
        choices[i].feature = as_span(features)[i];
        choices[i].threshold = as_span(thresholds)[i];
        choices[i].bin = static_cast<std::uint8_t>(as_span(bins)[i]);
    }
    return choices;
}

ForestView as_forest(std::int64_t n_labels, const Array1<std::int64_t>& tree_begin,
                     const Array1<std::int32_t>& split_features, const Array1<float>& thresholds,
                     const Array1<std::int32_t>& left_children, const Array1<std::int64_t>& leaf_begin,
                     const Array1<std::int32_t>& leaf_label_ids, const Array1<float>& leaf_values) {
    return {n_labels,
            as_span(tree_begin),
            as_span(split_features),
            as_span(thresholds),
            as_span(left_children),
            as_span(leaf_begin),
            as_span(leaf_label_ids),
            as_span(leaf_values)};
}

}  // namespace

void bind_gbdt(nb::module_& m) {
    // Python keeps X and Y alive: GBDTSparse holds them for the length of the run, keep_alive makes sure.
    nb::class_<Booster>(m, "Booster", "A boosting run of GBDT-SPARSE over one training set.")
        .def(
            "__init__",
            [](Booster* self, const Rows& x, std::int64_t n_labels, const Array1<std::int64_t>& y_indptr,
               const Array1<std::int32_t>& y_indices, const ParamsDict& params, std::int32_t first_feature,
               std::int32_t n_features, const std::optional<Array1<float>>& row_weights) {
                if (row_weights && static_cast<std::int64_t>(row_weights->size()) != x.n_rows())
                    throw std::invalid_argument("Booster: row_weights must have one number per row");
                const BoostParams read = read_params(params);
                const auto n_columns = static_cast<std::size_t>(n_cols_of(x.view));
                const gbdt::ColumnBlock block = checked_block(n_columns, first_feature, n_features);
                const std::span<const float> weights = row_weights ? as_span(*row_weights) : std::span<const float>{};
                const nb::gil_scoped_release no_gil;
                std::visit(
                    [&](const auto& view) {
                        new (self) Booster(view, as_labels(n_labels, y_indptr, y_indices), read, block, weights);
                    },
                    x.view);
            },
            nb::keep_alive<1, 2>(), nb::arg("x"), nb::arg("n_labels"), nb::arg("y_indptr"), nb::arg("y_indices"),
            nb::arg("params"), nb::arg("first_feature") = 0, nb::arg("n_features") = 0,
            nb::arg("row_weights") = nb::none())
        .def(
            "grow",
            [](Booster& self, std::int64_t tree_id, int n_threads, Control& control) {
                gbdt::Tree tree;
                {
                    const nb::gil_scoped_release no_gil;
                    tree = self.grow(tree_id, n_threads, control);
                }
                return tree_to_dict(std::move(tree));
            },
            nb::arg("tree_id"), nb::arg("n_threads"), nb::arg("control"),
            "Grow the next tree on the current gradients, add it to the scores, and return its arrays.")
        .def(
            "add",
            [](Booster& self, const Array1<std::int32_t>& split_features, const Array1<float>& thresholds,
               const Array1<std::int32_t>& left_children, const Array1<std::int64_t>& leaf_begin,
               const Array1<std::int32_t>& leaf_label_ids, const Array1<float>& leaf_values, int n_threads,
               Control& control) {
                const nb::gil_scoped_release no_gil;
                self.add({as_span(split_features), as_span(thresholds), as_span(left_children), as_span(leaf_begin),
                          as_span(leaf_label_ids), as_span(leaf_values)},
                         n_threads, control);
            },
            nb::arg("split_features"), nb::arg("thresholds"), nb::arg("left_children"), nb::arg("leaf_begin"),
            nb::arg("leaf_label_ids"), nb::arg("leaf_values"), nb::arg("n_threads"), nb::arg("control"),
            "Add a tree that was grown earlier to the scores.")
        .def(
            "begin_tree",
            [](Booster& self, std::int64_t tree_id, int n_threads, Control& control) {
                const nb::gil_scoped_release no_gil;
                self.begin_tree(tree_id, n_threads, control);
            },
            nb::arg("tree_id"), nb::arg("n_threads"), nb::arg("control"),
            "Open the root of tree number tree_id on the current gradients.")
        .def_prop_ro("is_growing", &Booster::is_growing, "Whether the tree that was begun has open nodes.")
        .def_prop_ro("n_sides", &Booster::n_sides, "Rows of all open nodes together.")
        .def(
            "find_splits",
            [](Booster& self, int n_threads, Control& control) {
                std::vector<gbdt::SplitChoice> choices;
                {
                    const nb::gil_scoped_release no_gil;
                    choices = self.find_splits(n_threads, control);
                }
                return splits_to_dict(choices);
            },
            nb::arg("n_threads"), nb::arg("control"),
            "Return the best split of every open node among this booster's columns; feature -1 where there is none.")
        .def(
            "find_sides",
            [](const Booster& self, const Array1<double>& reductions, const Array1<std::int32_t>& features,
               const Array1<float>& thresholds, const Array1<std::int32_t>& bins, int n_threads, Control& control) {
                const auto choices = read_splits(reductions, features, thresholds, bins);
                std::vector<std::uint8_t> sides;
                {
                    const nb::gil_scoped_release no_gil;
                    sides = self.find_sides(choices, n_threads, control);
                }
                return to_numpy(std::move(sides));
            },
            nb::arg("reductions"), nb::arg("features"), nb::arg("thresholds"), nb::arg("bins"), nb::arg("n_threads"),
            nb::arg("control"),
            "Return 1 for rows of open nodes that go left by a split on one of this booster's columns, else 0.")
        .def(
            "apply_splits",
            [](Booster& self, const Array1<double>& reductions, const Array1<std::int32_t>& features,
               const Array1<float>& thresholds, const Array1<std::int32_t>& bins, const Array1<std::uint8_t>& sides,
               int n_threads, Control& control) {
                const auto choices = read_splits(reductions, features, thresholds, bins);
                const nb::gil_scoped_release no_gil;
                self.apply_splits(choices, as_span(sides), n_threads, control);
            },
            nb::arg("reductions"), nb::arg("features"), nb::arg("thresholds"), nb::arg("bins"), nb::arg("sides"),
            nb::arg("n_threads"), nb::arg("control"), "Cut the open nodes that gain by their split; close the others.")
        .def(
            "finish_tree",
            [](Booster& self, int n_threads, Control& control) {
                gbdt::Tree tree;
                {
                    const nb::gil_scoped_release no_gil;
                    tree = self.finish_tree(n_threads, control);
                }
                return tree_to_dict(std::move(tree));
            },
            nb::arg("n_threads"), nb::arg("control"),
            "Add the tree that has no open nodes left to the scores and return its arrays.")
        .def(
            "find_leaves",
            [](const Booster& self, const Array1<std::int32_t>& split_features, const Array1<float>& thresholds,
               const Array1<std::int32_t>& left_children, int n_threads, Control& control) {
                std::vector<std::int32_t> leaf_of_row;
                {
                    const nb::gil_scoped_release no_gil;
                    leaf_of_row = self.find_leaves(
                        {as_span(split_features), as_span(thresholds), as_span(left_children), {}, {}, {}}, n_threads,
                        control);
                }
                return to_numpy(std::move(leaf_of_row));
            },
            nb::arg("split_features"), nb::arg("thresholds"), nb::arg("left_children"), nb::arg("n_threads"),
            nb::arg("control"), "Return the leaf of a tree that each row falls into.")
        .def(
            "add_leaves",
            [](Booster& self, const Array1<std::int32_t>& split_features, const Array1<float>& thresholds,
               const Array1<std::int32_t>& left_children, const Array1<std::int64_t>& leaf_begin,
               const Array1<std::int32_t>& leaf_label_ids, const Array1<float>& leaf_values,
               const Array1<std::int32_t>& leaf_of_row, int n_threads, Control& control) {
                const nb::gil_scoped_release no_gil;
                self.add_leaves({as_span(split_features), as_span(thresholds), as_span(left_children),
                                 as_span(leaf_begin), as_span(leaf_label_ids), as_span(leaf_values)},
                                as_span(leaf_of_row), n_threads, control);
            },
            nb::arg("split_features"), nb::arg("thresholds"), nb::arg("left_children"), nb::arg("leaf_begin"),
            nb::arg("leaf_label_ids"), nb::arg("leaf_values"), nb::arg("leaf_of_row"), nb::arg("n_threads"),
            nb::arg("control"), "Add a tree that was grown earlier, when the leaf of every row is known.")
        .def(
            "loss",
            [](const Booster& self, int n_threads, Control& control) {
                const nb::gil_scoped_release no_gil;
                return self.loss(n_threads, control);
            },
            nb::arg("n_threads"), nb::arg("control"), "Return the loss summed over all rows and labels.")
        .def(
            "gradient_sizes", [](const Booster& self) { return to_numpy(self.gradient_sizes()); },
            "Return how many labels each row keeps a score for.");

    using Indptr = Array1<std::int64_t>;
    using Ids = Array1<std::int32_t>;
    using Values = Array1<float>;
    m.def(
        "gbdt_top_k",
        [](const Rows& x, std::int64_t n_labels, const Indptr& tree_begin, const Ids& split_features,
           const Values& thresholds, const Ids& left_children, const Indptr& leaf_begin, const Ids& leaf_label_ids,
           const Values& leaf_values, std::int64_t top_k, int n_threads, Control& control) {
            const ForestView forest = as_forest(n_labels, tree_begin, split_features, thresholds, left_children,
                                                leaf_begin, leaf_label_ids, leaf_values);
            TopLabels top;
            {
                const nb::gil_scoped_release no_gil;
                top = std::visit(
                    [&](const auto& view) { return gbdt::predict_top_k(view, forest, top_k, n_threads, control); },
                    x.view);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("x"), nb::arg("n_labels"), nb::arg("tree_begin"), nb::arg("split_features"), nb::arg("thresholds"),
        nb::arg("left_children"), nb::arg("leaf_begin"), nb::arg("leaf_label_ids"), nb::arg("leaf_values"),
        nb::arg("top_k"), nb::arg("n_threads"), nb::arg("control"),
        "Return (label_ids, scores) of the top_k labels of every row.");
    m.def(
        "multiply",
        [](const Rows& x, const Array2<float>& w, int n_threads, Control& control) {
            std::vector<float> out;
            {
                const nb::gil_scoped_release no_gil;
                out = std::visit(
                    [&](const auto& view) { return gbdt::multiply(view, as_dense(w), n_threads, control); }, x.view);
            }
            return to_numpy(std::move(out), {static_cast<std::size_t>(x.n_rows()), w.shape(1)});
        },
        nb::arg("x"), nb::arg("w"), nb::arg("n_threads"), nb::arg("control"),
        "Return x times w; each row of the product is independent of the others.");
    m.def(
        "dense_product_top_k",
        [](const Array2<float>& x, const Array2<float>& w, std::int64_t top_k, int n_threads, Control& control) {
            TopLabels top;
            {
                const nb::gil_scoped_release no_gil;
                top = gbdt::multiply_top_k(as_dense(x), as_dense(w), top_k, n_threads, control);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("x"), nb::arg("w"), nb::arg("top_k"), nb::arg("n_threads"), nb::arg("control"),
        "Return (column ids, scores) of the top_k columns of every row of x times w.");
}

}  // namespace longtail::bindings
