#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "metrics/coverage.hpp"
#include "metrics/hits.hpp"

namespace longtail::bindings {
namespace {

template <class T>
using MutableArray1 = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T> as_mutable_span(const MutableArray1<T>& array) {
    return {array.data(), array.shape(0)};
}

RankedView as_ranked(const Array2<std::int32_t>& label_ids) {
    return {static_cast<std::int64_t>(label_ids.shape(0)),
            static_cast<std::int64_t>(label_ids.shape(1)),
            {label_ids.data(), label_ids.size()}};
}

void check_length(const char* owner, std::size_t length, std::int64_t wanted) {
    if (static_cast<std::int64_t>(length) != wanted)
        throw std::invalid_argument(std::string(owner) + ": needs " + std::to_string(wanted) + " entries, got " +
                                    std::to_string(length));
}

Weights as_weights(const std::optional<Array1<double>>& per_label, const std::optional<Array1<double>>& per_entry) {
    if (per_label) return {Weights::Per::kLabel, as_span(*per_label)};
    if (per_entry) return {Weights::Per::kEntry, as_span(*per_entry)};
    return {};
}

HitTable count_hits_checked(const RankedView& ranked, const LabelsView& labels, const Weights& weights,
                            std::span<const std::int32_t> n_relevant, int n_threads, Control& control) {
    check_labels(labels, "Y");
    check_length("top", ranked.n_rows, labels.n_rows);
    if (weights.per == Weights::Per::kLabel) check_length("label_weights", weights.values.size(), labels.n_labels);
    if (weights.per == Weights::Per::kEntry)
        check_length("entry_weights", weights.values.size(), labels.indptr[labels.n_rows]);
    if (!n_relevant.empty()) check_length("n_relevant", n_relevant.size(), labels.n_rows);
    return count_hits(ranked, labels, weights, n_relevant, n_threads, control);
}

}  // namespace

void bind_metrics(nb::module_& m) {
    m.def(
        "rank_scores",
        [](std::int64_t n_labels, const Array1<std::int64_t>& indptr, const Array1<std::int32_t>& indices,
           const Array1<float>& values, std::int64_t n_ranks, Control& control) {
            std::vector<std::int32_t> label_ids;
            const CsrView scores = as_csr(n_labels, indptr, indices, values);
            {
                const nb::gil_scoped_release no_gil;
                check_csr(scores, "top");
                label_ids = rank_scores(scores, n_ranks, control);
            }
            return to_numpy(std::move(label_ids),
                            {static_cast<std::size_t>(scores.n_rows), static_cast<std::size_t>(n_ranks)});
        },
        nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("n_ranks"),
        nb::arg("control"), "The n_ranks best labels of each row of a sparse score matrix, -1 padded.");

    m.def(
        "count_hits",
        [](const Array2<std::int32_t>& label_ids, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& indices, const std::optional<Array1<double>>& label_weights,
           const std::optional<Array1<double>>& entry_weights, const std::optional<Array1<std::int32_t>>& n_relevant,
           int n_threads, Control& control) {
            HitTable table;
            {
                const nb::gil_scoped_release no_gil;
                table = count_hits_checked(as_ranked(label_ids), as_labels(n_labels, indptr, indices),
                                           as_weights(label_weights, entry_weights),
                                           n_relevant ? as_span(*n_relevant) : std::span<const std::int32_t>(),
                                           n_threads, control);
            }
            const std::size_t n_groups = table.n_groups();
            const auto n_ranks = static_cast<std::size_t>(table.n_ranks);
            const std::size_t n_weighted = table.weight_sums.size();
            nb::typed<nb::dict, nb::str, nb::object> result;
            result["n_observed"] = to_numpy(std::move(table.n_observed));
            result["n_relevant"] = to_numpy(std::move(table.n_relevant));
            result["n_rows"] = to_numpy(std::move(table.n_rows));
            result["hits"] = to_numpy(std::move(table.hits), {n_groups, n_ranks});
            result["first_hits"] = to_numpy(std::move(table.first_hits));
            result["predicted"] = to_numpy(std::move(table.predicted));
            result["gains"] = to_numpy(std::move(table.gains), {n_weighted, n_ranks});
            result["ideal_gains"] = to_numpy(std::move(table.ideal_gains), {n_weighted, n_ranks});
            result["weight_sums"] = to_numpy(std::move(table.weight_sums));
            return result;
        },
        nb::arg("label_ids"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"),
        nb::arg("label_weights").none(), nb::arg("entry_weights").none(), nb::arg("n_relevant").none(),
        nb::arg("n_threads"), nb::arg("control"),
        "Count hits and gains by row size and rank: what every ranking metric is made of. Returns the fields of "
        "HitTable (cpp/metrics/hits.hpp).");

    m.def(
        "add_coverage",
        [](const Array2<std::int32_t>& label_ids, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& indices, const MutableArray1<std::uint8_t>& occurs,
           const MutableArray1<std::int32_t>& first_ranks, const MutableArray1<std::int32_t>& first_hit_ranks) {
            const nb::gil_scoped_release no_gil;
            check_length("occurs", occurs.shape(0), n_labels);
            check_length("first_ranks", first_ranks.shape(0), n_labels);
            check_length("first_hit_ranks", first_hit_ranks.shape(0), n_labels);
            add_coverage(as_ranked(label_ids), as_labels(n_labels, indptr, indices),
                         {as_mutable_span(occurs), as_mutable_span(first_ranks), as_mutable_span(first_hit_ranks)});
        },
        nb::arg("label_ids"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"), nb::arg("occurs"),
        nb::arg("first_ranks"), nb::arg("first_hit_ranks"),
        "Note in the three per-label arrays which labels a batch covers; count_hits must have accepted the batch.");
}

}  // namespace longtail::bindings
