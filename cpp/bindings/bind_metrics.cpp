#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "metrics/hits.hpp"
#include "metrics/label_counts.hpp"

namespace longtail::bindings {
namespace {

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
        "add_label_counts",
        [](const Array2<std::int32_t>& label_ids, std::int64_t n_labels, const Array1<std::int64_t>& indptr,
           const Array1<std::int32_t>& indices, const Array1<std::int32_t>& part_of_rank,
           const MutableArray1<std::int64_t>& n_rows, const MutableArray1<std::int64_t>& n_given,
           const MutableArray1<std::int64_t>& n_hits) {
            const nb::gil_scoped_release no_gil;
            check_length("part_of_rank", part_of_rank.shape(0), static_cast<std::int64_t>(label_ids.shape(1)));
            check_length("n_rows", n_rows.shape(0), n_labels);
            const auto parts = as_span(part_of_rank);
            const std::int64_t n_parts = parts.empty() ? 0 : 1 + *std::max_element(parts.begin(), parts.end());
            check_length("n_hits", n_hits.shape(0), static_cast<std::int64_t>(n_given.shape(0)));
            if (std::any_of(parts.begin(), parts.end(), [](std::int32_t part) { return part < 0; }) ||
                static_cast<std::int64_t>(n_given.shape(0)) < n_parts * n_labels)
                throw std::invalid_argument("add_label_counts: n_given must have a row for each part of the ranks");
            add_label_counts(as_ranked(label_ids), as_labels(n_labels, indptr, indices),
                             {parts, as_mutable_span(n_rows), as_mutable_span(n_given), as_mutable_span(n_hits)});
        },
        nb::arg("label_ids"), nb::arg("n_labels"), nb::arg("indptr"), nb::arg("indices"), nb::arg("part_of_rank"),
        nb::arg("n_rows"), nb::arg("n_given"), nb::arg("n_hits"),
        "Add a batch to the counts of each label (parts × labels, flat); count_hits must have accepted the batch.");
}

}  // namespace longtail::bindings
