#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>

#include "bindings/arrays.hpp"
#include "xmc_text/reader.hpp"
#include "xmc_text/writer.hpp"

namespace longtail::bindings {
namespace {

RowFormat row_format(const std::string& dialect, std::int32_t first_feature_id, std::int64_t n_features,
                     std::int64_t n_labels, std::int64_t max_line_bytes) {
    RowFormat format;
    if (dialect == "svmlight") {
        format.n_header_numbers = 0;
        format.has_comments = true;
    } else if (dialect == "matrix") {
        format.n_header_numbers = 2;
        format.has_labels = false;
    } else if (dialect != "xmc") {
        throw std::invalid_argument("dialect must be 'xmc', 'matrix' or 'svmlight', got '" + dialect + "'");
    }
    format.first_feature_id = first_feature_id;
    format.n_features = n_features;
    format.n_labels = n_labels;
    format.max_line_bytes = max_line_bytes;
    return format;
}

// scipy wants indptr in the type of the indices wherever it fits. Narrowed in place: for short rows a second array
// would be a good part of all the memory.
nb::object indptr_to_numpy(GrowingArray<std::int64_t>&& indptr, std::size_t n_entries) {
    if (n_entries > INT32_MAX) return nb::cast(to_numpy(std::move(indptr)));
    return nb::cast(to_numpy(std::move(indptr).narrowed<std::int32_t>()));
}

nb::tuple to_tuple(TextRows&& rows) {
    const std::size_t n_features = rows.feature_indices.size(), n_labels = rows.label_indices.size();
    return nb::make_tuple(
        rows.n_rows, rows.n_features, rows.n_labels, indptr_to_numpy(std::move(rows.feature_indptr), n_features),
        to_numpy(std::move(rows.feature_indices)), to_numpy(std::move(rows.feature_values)),
        indptr_to_numpy(std::move(rows.label_indptr), n_labels), to_numpy(std::move(rows.label_indices)));
}

}  // namespace

void bind_xmc_text(nb::module_& m) {
    nb::class_<TextReader>(m, "TextReader", "Reads XMC, matrix or svmlight text: a file, or a stream in pieces.")
        .def(
            "__init__",
            [](TextReader* self, const std::string& name, const std::string& dialect, std::int32_t first_feature_id,
               std::int64_t n_features, std::int64_t n_labels, std::int64_t max_line_bytes) {
                new (self)
                    TextReader(name, row_format(dialect, first_feature_id, n_features, n_labels, max_line_bytes));
            },
            nb::arg("name"), nb::arg("dialect"), nb::arg("first_feature_id") = 0, nb::arg("n_features") = -1,
            nb::arg("n_labels") = -1, nb::arg("max_line_bytes") = std::int64_t{1} << 28)
        .def(
            "read_file",
            [](TextReader& self, const std::filesystem::path& path, int n_threads, Control& control) {
                const nb::gil_scoped_release no_gil;
                self.read_file(path, n_threads, control);
            },
            nb::arg("path"), nb::arg("n_threads"), nb::arg("control"),
            // nanobind writes a bare PathLike here, which mypy's strict mode refuses
            nb::sig("def read_file(self, path: object, n_threads: int, control: Control) -> None"),
            "Parse a whole file.")
        .def(
            "feed",
            [](TextReader& self, const nb::bytes& text, int n_threads, Control& control) {
                const std::span<const char> bytes(text.c_str(), text.size());
                const nb::gil_scoped_release no_gil;
                self.feed(bytes, n_threads, control);
            },
            nb::arg("text"), nb::arg("n_threads"), nb::arg("control"),
            "Parse the next bytes of a stream, cut anywhere.")
        .def("expect_bytes", &TextReader::expect_bytes, nb::arg("n_bytes"),
             "Say how long the text may be; only a hint.")
        .def(
            "finish",
            [](TextReader& self, Control& control) {
                TextRows rows;
                {
                    const nb::gil_scoped_release no_gil;
                    rows = self.finish(control);
                }
                return to_tuple(std::move(rows));
            },
            nb::arg("control"),
            nb::sig("def finish(self, control: Control) -> tuple[int, int, int, "
                    "NDArray[numpy.int32] | NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], "
                    "NDArray[numpy.int32] | NDArray[numpy.int64], NDArray[numpy.int32]]"),
            "n_rows, n_features, n_labels, then indptr, indices and values of the features, indptr and indices of the "
            "labels; indptr is int32 where that holds all entries.");

    m.def(
        "write_rows",
        [](std::int64_t n_features, const Array1<std::int64_t>& x_indptr, const Array1<std::int32_t>& x_indices,
           const Array1<float>& x_values, std::int64_t n_labels, const Array1<std::int64_t>& y_indptr,
           const Array1<std::int32_t>& y_indices, std::int64_t first_row, std::int64_t last_row, bool has_labels,
           std::int32_t first_feature_id, int n_threads, Control& control) {
            const CsrView x = as_csr(n_features, x_indptr, x_indices, x_values);
            const LabelsView y = as_labels(n_labels, y_indptr, y_indices);
            if (first_row < 0 || last_row < first_row || last_row > x.n_rows || (has_labels && last_row > y.n_rows))
                throw std::invalid_argument("write_rows: the rows asked for are not there");
            std::vector<std::string> parts;
            {
                const nb::gil_scoped_release no_gil;
                parts = write_rows(x, y, {has_labels, first_feature_id}, first_row, last_row, n_threads, control);
            }
            nb::list text;
            for (const auto& part : parts) text.append(nb::bytes(part.data(), part.size()));
            return text;
        },
        nb::arg("n_features"), nb::arg("x_indptr"), nb::arg("x_indices"), nb::arg("x_values"), nb::arg("n_labels"),
        nb::arg("y_indptr"), nb::arg("y_indices"), nb::arg("first_row"), nb::arg("last_row"), nb::arg("has_labels"),
        nb::arg("first_feature_id"), nb::arg("n_threads"), nb::arg("control"),
        nb::sig(
            "def write_rows(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: NDArray[numpy.int32], "
            "x_values: NDArray[numpy.float32], n_labels: int, y_indptr: NDArray[numpy.int64], "
            "y_indices: NDArray[numpy.int32], first_row: int, last_row: int, has_labels: bool, first_feature_id: int, "
            "n_threads: int, control: Control) -> list[bytes]"),
        "Lines of text for the rows [first_row, last_row), in parts. The views are not checked.");
}

}  // namespace longtail::bindings
