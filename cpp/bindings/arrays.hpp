#pragma once

// NumPy arrays in and out. Inputs are read-only views of exactly the right dtype (no silent conversion, mapped arrays
// welcome); outputs are NumPy arrays that own what the kernel produced.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/top_k.hpp"
#include "base/views.hpp"

namespace longtail::bindings {

namespace nb = nanobind;

template <class T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Array2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T>;

template <class T>
std::span<const T> as_span(const Array1<T>& array) {
    return {array.data(), array.shape(0)};
}

template <class T>
using MutableArray1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T> as_mutable_span(const MutableArray1<T>& array) {
    return {array.data(), array.shape(0)};
}

inline CsrView as_csr(std::int64_t n_cols, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& indices,
                      const Array1<float>& values) {
    return {static_cast<std::int64_t>(indptr.shape(0)) - 1, n_cols, as_span(indptr), as_span(indices), as_span(values)};
}

inline LabelsView as_labels(std::int64_t n_labels, const Array1<std::int64_t>& indptr,
                            const Array1<std::int32_t>& indices) {
    return {static_cast<std::int64_t>(indptr.shape(0)) - 1, n_labels, as_span(indptr), as_span(indices)};
}

inline DenseView as_dense(const Array2<float>& array) {
    return {static_cast<std::int64_t>(array.shape(0)),
            static_cast<std::int64_t>(array.shape(1)),
            {array.data(), array.shape(0) * array.shape(1)}};
}

// X as Python hands it to every kernel, sparse or dense; keeps the arrays alive. Python has checked the indices.
struct Rows {
    RowsView view;
    nb::object owner;

    std::int64_t n_rows() const { return n_rows_of(view); }
};

// Hand a vector over to Python without a copy. Needs the GIL.
template <class Vector>
NumpyArray<typename Vector::value_type> to_numpy(Vector&& vector, std::initializer_list<std::size_t> shape) {
    auto owned = std::make_unique<Vector>(std::move(vector));
    auto* data = owned->data();
    nb::capsule owner(owned.release(), [](void* p) noexcept { delete static_cast<Vector*>(p); });
    return NumpyArray<typename Vector::value_type>(data, shape, owner);
}
template <class Vector>
NumpyArray<typename Vector::value_type> to_numpy(Vector&& vector) {
    const std::size_t size = vector.size();
    return to_numpy(std::move(vector), {size});
}

using TopKTuple = nb::typed<nb::tuple, NumpyArray<std::int32_t>, NumpyArray<float>>;

using ValuedTuple = nb::typed<nb::tuple, NumpyArray<std::int32_t>, NumpyArray<float>, NumpyArray<float>>;

// (label_ids, values, scores), each n_rows × top_k. Needs the GIL.
inline ValuedTuple to_python(ValuedLabels&& top, std::int64_t top_k) {
    const auto columns = static_cast<std::size_t>(top_k);
    const std::size_t n_rows = top.values.size() / columns;
    auto values = to_numpy(std::move(top.values), {n_rows, columns});
    auto scores = to_numpy(std::move(top.scores), {n_rows, columns});
    auto label_ids = to_numpy(std::move(top.label_ids), {n_rows, columns});
    return ValuedTuple(nb::make_tuple(label_ids, values, scores));
}

// (label_ids, scores), each n_rows × top_k. Needs the GIL.
inline TopKTuple to_python(TopLabels&& top, std::int64_t top_k) {
    const auto width = static_cast<std::size_t>(top_k);
    const std::size_t n_rows = top.label_ids.size() / width;
    return TopKTuple(nb::make_tuple(to_numpy(std::move(top.label_ids), {n_rows, width}),
                                    to_numpy(std::move(top.scores), {n_rows, width})));
}

}  // namespace longtail::bindings
