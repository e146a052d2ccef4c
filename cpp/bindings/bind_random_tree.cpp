#include "bindings/arrays.hpp"
#include "random_tree/grow.hpp"

namespace longtail::bindings {

void bind_random_tree(nb::module_& m) {
    m.def(
        "grow_random_tree",
        [](std::int64_t n_features, const Array1<std::int64_t>& x_indptr, const Array1<std::int32_t>& x_indices,
           const Array1<float>& x_values, std::int64_t n_labels, const Array1<std::int64_t>& y_indptr,
           const Array1<std::int32_t>& y_indices, const Array1<std::int64_t>& row_ids, bool is_ndcg,
           std::int64_t n_tried, std::int32_t n_thresholds, std::int64_t max_leaf_size, std::int64_t leaf_top_k,
           std::uint64_t seed, Control& control) {
            random_tree::Tree tree;
            {
                const nb::gil_scoped_release no_gil;
                const CsrView x = as_csr(n_features, x_indptr, x_indices, x_values);
                const LabelsView y = as_labels(n_labels, y_indptr, y_indices);
                const auto criterion = is_ndcg ? random_tree::Criterion::kNdcg : random_tree::Criterion::kGini;
                tree = random_tree::grow(x, y, as_span(row_ids),
                                         {criterion, n_tried, n_thresholds, max_leaf_size, leaf_top_k, seed}, control);
            }
            return nb::make_tuple(to_numpy(std::move(tree.split_features)), to_numpy(std::move(tree.thresholds)),
                                  to_numpy(std::move(tree.left_children)), to_numpy(std::move(tree.leaf_begin)),
                                  to_numpy(std::move(tree.leaf_label_ids)), to_numpy(std::move(tree.leaf_values)),
                                  tree.mean_depth);
        },
        nb::arg("n_features"), nb::arg("x_indptr"), nb::arg("x_indices"), nb::arg("x_values"), nb::arg("n_labels"),
        nb::arg("y_indptr"), nb::arg("y_indices"), nb::arg("row_ids"), nb::arg("is_ndcg"), nb::arg("n_tried"),
        nb::arg("n_thresholds"), nb::arg("max_leaf_size"), nb::arg("leaf_top_k"), nb::arg("seed"), nb::arg("control"),
        nb::sig("def grow_random_tree(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: "
                "NDArray[numpy.int32], x_values: NDArray[numpy.float32], n_labels: int, y_indptr: "
                "NDArray[numpy.int64], y_indices: NDArray[numpy.int32], row_ids: NDArray[numpy.int64], is_ndcg: bool, "
                "n_tried: int, n_thresholds: int, max_leaf_size: int, leaf_top_k: int, seed: int, control: "
                "Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32], "
                "NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], float]"),
        "Return (split_features, thresholds, left_children, leaf_begin, leaf_label_ids, leaf_values, mean_depth).");
}

}  // namespace longtail::bindings
