#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "bindings/arrays.hpp"
#include "decisions/best_values.hpp"
#include "fastxml/column_pool.hpp"
#include "fastxml/forest.hpp"
#include "fastxml/grow_tree.hpp"

namespace longtail::bindings {
namespace {

using fastxml::FeaturesView;
using fastxml::ForestView;
using fastxml::Tree;
using fastxml::TreeConfig;

using ArraysDict = nb::typed<nb::dict, nb::str, nb::object>;
using SolvedTuple = nb::typed<nb::tuple, NumpyArray<float>, double>;

template <class T>
std::span<const T> as_optional_span(const std::optional<Array1<T>>& array) {
    return array ? as_span(*array) : std::span<const T>{};
}

void check_row_weights(const Rows& x, const std::optional<Array1<float>>& row_weights) {
    if (row_weights && static_cast<std::int64_t>(row_weights->size()) != x.n_rows())
        throw std::invalid_argument("row_weights must have one number per row");
}

// All parameters are given by name. A missing one is a KeyError, so that no default is written here; names that a tree
// does not know belong to other parts of the same plan.
TreeConfig read_config(const nb::kwargs& given) {
    const auto take = [&]<class T>(const char* name, T& field) { field = nb::cast<T>(given[name]); };
    TreeConfig config;
    take("max_leaf_size", config.max_leaf_size);
    take("leaf_labels", config.leaf_labels);
    take("n_updates", config.n_updates);
    take("bias", config.bias);
    take("right_cost", config.right_cost);
    take("left_cost", config.left_cost);
    take("balanced_costs", config.balanced_costs);
    take("random_ties", config.random_ties);
    take("loss_top_k", config.ranking.top_k);
    take("ranking_cost", config.ranking.ranking_cost);
    take("normalise", config.ranking.normalise);
    take("max_newton", config.solver.max_newton);
    take("max_passes", config.solver.max_passes);
    take("tolerance", config.solver.tolerance);
    take("seed", config.seed);
    take("stream", config.stream);
    config.ranking.loss =
        nb::cast<bool>(given["precision_loss"]) ? fastxml::SplitLoss::precision : fastxml::SplitLoss::ndcg;
    return config;
}

void bind_config(nb::module_& m) {
    nb::class_<TreeConfig>(m, "TreeConfig", "How a tree is grown; all parameters by name.")
        .def(
            "__init__", [](TreeConfig* self, const nb::kwargs& given) { new (self) TreeConfig(read_config(given)); },
            nb::sig("def __init__(self, **given: object) -> None"));
}

ArraysDict tree_arrays(Tree&& grown) {
    ArraysDict out;
    out["right_child"] = to_numpy(std::move(grown.right_child));
    out["biases"] = to_numpy(std::move(grown.biases));
    out["split_indptr"] = to_numpy(std::move(grown.split_indptr));
    out["split_features"] = to_numpy(std::move(grown.split_features));
    out["split_weights"] = to_numpy(std::move(grown.split_weights));
    out["leaf_indptr"] = to_numpy(std::move(grown.leaf_indptr));
    out["leaf_labels"] = to_numpy(std::move(grown.leaf_labels));
    out["leaf_values"] = to_numpy(std::move(grown.leaf_values));
    out["root_objectives"] = to_numpy(std::move(grown.root_objectives));
    out["root_rounds"] = to_numpy(std::move(grown.root_rounds));
    std::vector<double> statistics{grown.mean_depth, grown.mean_leaf_labels, grown.train_precision};
    out["statistics"] = to_numpy(std::move(statistics));
    return out;
}

ForestView as_forest(const ArraysDict& arrays) {
    const auto ints = [&](const char* name) { return as_span(nb::cast<Array1<std::int32_t>>(arrays[name], false)); };
    const auto longs = [&](const char* name) { return as_span(nb::cast<Array1<std::int64_t>>(arrays[name], false)); };
    const auto floats = [&](const char* name) { return as_span(nb::cast<Array1<float>>(arrays[name], false)); };
    return {ints("tree_roots"),    ints("right_child"),    floats("biases"),
            longs("split_indptr"), ints("split_features"), floats("split_weights"),
            longs("leaf_indptr"),  ints("leaf_labels"),    floats("leaf_values")};
}

fastxml::TailView as_tail(const ArraysDict& arrays) {
    const auto floats = [&](const char* name) { return as_span(nb::cast<Array1<float>>(arrays[name], false)); };
    fastxml::TailView tail;
    tail.indptr = as_span(nb::cast<Array1<std::int64_t>>(arrays["indptr"], false));
    tail.indices = as_span(nb::cast<Array1<std::int32_t>>(arrays["indices"], false));
    tail.values = floats("values");
    tail.biases = floats("biases");
    tail.squared_norms = floats("squared_norms");
    tail.bias = nb::cast<float>(arrays["bias"]);
    tail.gamma = nb::cast<float>(arrays["gamma"]);
    tail.alpha = nb::cast<float>(arrays["alpha"]);
    tail.n_candidates = nb::cast<std::int32_t>(arrays["n_candidates"]);
    return tail;
}

// What feature_columns() gave, or no columns.
CsrView as_columns(const std::optional<ArraysDict>& arrays) {
    if (!arrays) return {};
    const auto indptr = as_span(nb::cast<Array1<std::int64_t>>((*arrays)["indptr"], false));
    return {static_cast<std::int64_t>(indptr.size()) - 1, 0, indptr,
            as_span(nb::cast<Array1<std::int32_t>>((*arrays)["rows"], false)),
            as_span(nb::cast<Array1<float>>((*arrays)["values"], false))};
}

struct SolvedL1 {
    std::vector<float> weights;
    double objective = 0.0;
};

SolvedL1 solve_all_rows(const FeaturesView& x, std::span<const float> signed_costs, float bias,
                        const fastxml::L1Config& config, std::uint64_t seed) {
    const auto n_rows = static_cast<std::int64_t>(signed_costs.size());
    std::vector<std::int32_t> rows(signed_costs.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
    AlignedVector<float> padded(static_cast<std::size_t>(fastxml::NodeColumns::padded(n_rows)), 0.0F);
    std::copy(signed_costs.begin(), signed_costs.end(), padded.begin());
    fastxml::NodeBuilder builder(x, bias);
    fastxml::L1Logistic solver;
    solver.scores.assign(padded.size(), 0.0F);
    SolvedL1 solved;
    solved.weights.assign(static_cast<std::size_t>(builder.bias_id()) + 1, 0.0F);
    if (builder.build(rows, padded, false)) {
        Random random(seed, 0);
        solver.solve(builder.columns(), padded, builder.starts(), config, random);
        for (std::int32_t j = 0; j < builder.columns().n_columns; ++j)
            solved.weights[builder.columns().feature_ids[j]] = solver.weights[j];
    }
    solved.objective = solver.objective(padded);
    return solved;
}

}  // namespace

void bind_fastxml(nb::module_& m) {
    bind_config(m);

    m.def(
        "feature_columns",
        [](const Rows& x) {
            fastxml::FeatureColumns columns;
            {
                const nb::gil_scoped_release no_gil;
                columns = fastxml::transpose(std::get<CsrView>(x.view));
            }
            ArraysDict out;
            out["indptr"] = to_numpy(std::move(columns.indptr));
            out["rows"] = to_numpy(std::move(columns.rows));
            out["values"] = to_numpy(std::move(columns.values));
            return out;
        },
        nb::arg("x"), "Give the entries of sparse rows by column, for grow_tree: once for all trees.");

    m.def(
        "grow_tree",
        [](const Rows& x, const std::optional<ArraysDict>& columns, std::int64_t n_labels,
           const Array1<std::int64_t>& label_indptr, const Array1<std::int32_t>& label_ids,
           const std::optional<Array1<float>>& label_weights, const std::optional<Array1<float>>& row_weights,
           const TreeConfig& config, Control& control) {
            check_row_weights(x, row_weights);
            const CsrView by_column = as_columns(columns);
            Tree grown;
            {
                const nb::gil_scoped_release no_gil;
                grown = fastxml::grow_tree(x.view, as_labels(n_labels, label_indptr, label_ids),
                                           as_optional_span(label_weights), as_optional_span(row_weights), config,
                                           control, by_column);
            }
            return tree_arrays(std::move(grown));
        },
        nb::arg("x"), nb::arg("columns").none(), nb::arg("n_labels"), nb::arg("label_indptr"), nb::arg("label_ids"),
        nb::arg("label_weights").none(), nb::arg("row_weights").none(), nb::arg("config"), nb::arg("control"),
        "Grow one FastXML tree; give its flat arrays by name.");

    m.def(
        "check_forest",
        [](const ArraysDict& arrays, std::int64_t n_features, std::int64_t n_labels) {
            const ForestView forest = as_forest(arrays);
            const nb::gil_scoped_release no_gil;
            fastxml::check_forest(forest, n_features, n_labels);
        },
        nb::arg("arrays"), nb::arg("n_features"), nb::arg("n_labels"),
        "Raise ValueError unless every walk through the forest stays inside it and ends.");

    m.def(
        "predict_forest",
        [](const Rows& x, const ArraysDict& arrays, const Array1<std::int32_t>& tree_ids,
           const std::optional<ArraysDict>& tail_arrays, std::int64_t n_labels, std::int32_t top_k,
           std::int32_t n_features_used, int n_threads, Control& control) {
            const ForestView forest = as_forest(arrays);
            const fastxml::TailView tail = tail_arrays ? as_tail(*tail_arrays) : fastxml::TailView{};
            TopLabels top;
            {
                const nb::gil_scoped_release no_gil;
                top = fastxml::predict_forest(x.view, forest, as_span(tree_ids), tail_arrays ? &tail : nullptr,
                                              {n_labels, top_k, n_features_used, n_threads}, control);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("x"), nb::arg("arrays"), nb::arg("tree_ids"), nb::arg("tail").none(), nb::arg("n_labels"),
        nb::arg("top_k"), nb::arg("n_features_used"), nb::arg("n_threads"), nb::arg("control"),
        "Rank labels by their mean share over the leaves that a row reaches.");

    m.def(
        "predict_forest_by_value",
        [](const Rows& x, const ArraysDict& arrays, const Array1<std::int32_t>& tree_ids, const ValueTable& values,
           std::int64_t n_labels, std::int32_t top_k, std::int32_t n_features_used, int n_threads, Control& control) {
            const ForestView forest = as_forest(arrays);
            ValuedLabels top;
            {
                const nb::gil_scoped_release no_gil;
                check_values(values, n_labels);
                top = fastxml::predict_forest_by_value(x.view, forest, as_span(tree_ids), values,
                                                       {n_labels, top_k, n_features_used, n_threads}, control);
            }
            return to_python(std::move(top), top_k);
        },
        nb::arg("x"), nb::arg("arrays"), nb::arg("tree_ids"), nb::arg("values"), nb::arg("n_labels"), nb::arg("top_k"),
        nb::arg("n_features_used"), nb::arg("n_threads"), nb::arg("control"),
        "Rank the labels of the leaves that a row reaches by their values: label ids, values and scores.");

    m.def(
        "learn_tail",
        [](const Rows& x, const Array1<std::int64_t>& row_indptr, const Array1<std::int32_t>& row_ids,
           const Array1<float>& propensities, const std::optional<Array1<float>>& row_weights, std::int64_t first_label,
           std::int64_t last_label, float bias, float gamma, std::int32_t max_steps, Control& control) {
            check_row_weights(x, row_weights);
            fastxml::TailConfig config;
            config.first_label = first_label;
            config.last_label = last_label;
            config.bias = bias;
            config.gamma = gamma;
            config.max_steps = max_steps;
            fastxml::TailCentres centres;
            {
                const nb::gil_scoped_release no_gil;
                centres = fastxml::learn_tail(x.view, as_labels(x.n_rows(), row_indptr, row_ids), as_span(propensities),
                                              as_optional_span(row_weights), config, control);
            }
            ArraysDict out;
            out["indptr"] = to_numpy(std::move(centres.indptr));
            out["indices"] = to_numpy(std::move(centres.indices));
            out["values"] = to_numpy(std::move(centres.values));
            out["biases"] = to_numpy(std::move(centres.biases));
            out["squared_norms"] = to_numpy(std::move(centres.squared_norms));
            return out;
        },
        nb::arg("x"), nb::arg("row_indptr"), nb::arg("row_ids"), nb::arg("propensities"), nb::arg("row_weights").none(),
        nb::arg("first_label"), nb::arg("last_label"), nb::arg("bias"), nb::arg("gamma"), nb::arg("max_steps"),
        nb::arg("control"), "Learn the tail classifiers' centres of a range of labels; max_steps 0 gives plain means.");

    m.def(
        "solve_l1_logistic",
        [](const Rows& x, const Array1<float>& signed_costs, const TreeConfig& config) {
            SolvedL1 solved;
            {
                const nb::gil_scoped_release no_gil;
                solved = solve_all_rows(x.view, as_span(signed_costs), config.bias, config.solver, config.seed);
            }
            return SolvedTuple(nb::make_tuple(to_numpy(std::move(solved.weights)), solved.objective));
        },
        nb::arg("x"), nb::arg("signed_costs"), nb::arg("config"),
        "Minimise |w|_1 + sum |a_i| log(1 + exp(-sign(a_i) w.x_i)); weights (bias last) and minimum.");
}

}  // namespace longtail::bindings
