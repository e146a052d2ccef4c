#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>

#include "base/control.hpp"
#include "base/views.hpp"
#include "bindings/arrays.hpp"

namespace longtail::bindings {
namespace {

// Ctrl-C is seen by whichever thread polls; only Python's main thread may run its handler, elsewhere this is a no-op.
bool signal_arrived() {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return false;
    PyErr_Clear();  // Control is cancelled and the executor raises KeyboardInterrupt again, in one place
    return true;
}

}  // namespace

void bind_base(nb::module_& m) {
    nb::exception<Cancelled>(m, "Cancelled", PyExc_RuntimeError);

    nb::class_<Control>(m, "Control", "Stops running kernels and counts what they have done.")
        .def("__init__", [](Control* self) { new (self) Control(signal_arrived); })
        .def("cancel", &Control::cancel, "Ask every kernel that holds this Control to stop.")
        .def_prop_ro("cancelled", &Control::cancelled)
        .def_prop_ro("done", &Control::done, "Units finished so far.");

    nb::class_<Rows>(m, "Rows", "X as every kernel takes it: CSR parts or a dense matrix; keeps the arrays alive.")
        .def(
            "__init__",
            [](Rows* self, std::int64_t n_cols, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& indices,
               const Array1<float>& values) {
                new (self) Rows{as_csr(n_cols, indptr, indices, values),
                                nb::make_tuple(nb::cast(indptr), nb::cast(indices), nb::cast(values))};
            },
            nb::arg("n_cols"), nb::arg("indptr"), nb::arg("indices"), nb::arg("values"))
        .def(
            "__init__",
            [](Rows* self, const Array2<float>& values) { new (self) Rows{as_dense(values), nb::cast(values)}; },
            nb::arg("values"))
        .def_prop_ro("n_rows", &Rows::n_rows);
    m.def(
        "unit_rows",
        [](const Array1<std::int64_t>& indptr, const Array1<float>& values) {
            std::vector<float> scaled(values.data(), values.data() + values.shape(0));
            {
                const nb::gil_scoped_release no_gil;
                scale_to_unit_rows(as_span(indptr), scaled);
            }
            return to_numpy(std::move(scaled));
        },
        nb::arg("indptr"), nb::arg("values"), "Return the values of a CSR matrix with its rows scaled to length one.");
    m.def(
        "check_csr",
        [](std::int64_t n_cols, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& indices,
           const Array1<float>& values, const std::string& owner) {
            const nb::gil_scoped_release no_gil;
            check_csr(as_csr(n_cols, indptr, indices, values), owner.c_str());
        },
        nb::arg("n_cols"), nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("owner"),
        "Raise ValueError unless the arrays form a CSR matrix with sorted, distinct indices and finite values.");
    m.def(
        "check_labels",
        [](std::int64_t n_labels, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& indices,
           const std::string& owner) {
            const nb::gil_scoped_release no_gil;
            check_labels(as_labels(n_labels, indptr, indices), owner.c_str());
        },
        nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"), nb::arg("owner"),
        "Raise ValueError unless the arrays form a label matrix with sorted, distinct ids.");
}

}  // namespace longtail::bindings
