#include "bindings/arrays.hpp"
#include "pd_sparse/train.hpp"

namespace longtail::bindings {

void bind_pd_sparse(nb::module_& m) {
    m.def(
        "train_pd_sparse",
        [](std::int64_t n_features, const Array1<std::int64_t>& x_indptr, const Array1<std::int32_t>& x_indices,
           const Array1<float>& x_values, std::int64_t n_labels, const Array1<std::int64_t>& y_indptr,
           const Array1<std::int32_t>& y_indices, float l1, float cost, std::int32_t n_epochs, float tolerance,
           std::uint64_t seed, std::int32_t n_violators, std::int64_t n_held_out, bool post_train, Control& control) {
            pd_sparse::Weights weights;
            {
                const nb::gil_scoped_release no_gil;
                const CsrView x = as_csr(n_features, x_indptr, x_indices, x_values);
                const LabelsView y = as_labels(n_labels, y_indptr, y_indices);
                weights = pd_sparse::train(
                    x, y, {l1, cost, n_epochs, tolerance, seed, n_violators, n_held_out, post_train}, control);
            }
            return nb::make_tuple(to_numpy(std::move(weights.indptr)), to_numpy(std::move(weights.label_ids)),
                                  to_numpy(std::move(weights.values)), to_numpy(std::move(weights.objectives)),
                                  to_numpy(std::move(weights.precisions)));
        },
        nb::arg("n_features"), nb::arg("x_indptr"), nb::arg("x_indices"), nb::arg("x_values"), nb::arg("n_labels"),
        nb::arg("y_indptr"), nb::arg("y_indices"), nb::arg("l1"), nb::arg("cost"), nb::arg("n_epochs"),
        nb::arg("tolerance"), nb::arg("seed"), nb::arg("n_violators"), nb::arg("n_held_out"), nb::arg("post_train"),
        nb::arg("control"),
        nb::sig("def train_pd_sparse(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: NDArray[numpy.int32], "
                "x_values: NDArray[numpy.float32], n_labels: int, y_indptr: NDArray[numpy.int64], y_indices: "
                "NDArray[numpy.int32], l1: float, cost: float, n_epochs: int, tolerance: float, seed: int, "
                "n_violators: int, n_held_out: int, post_train: bool, control: "
                "Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], "
                "NDArray[numpy.float64], NDArray[numpy.float64]]"),
        "Return (indptr, label_ids, weights) by feature, the last one the constant 1; dual objectives and held-out "
        "precisions by epoch.");
}

}  // namespace longtail::bindings
