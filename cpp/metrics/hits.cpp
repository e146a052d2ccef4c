#include "metrics/hits.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "base/parallel_for.hpp"

namespace longtail {
namespace {

// Rows are cut into parts by their number only, never by the number of threads: sums of weights are then added in the
// same order for any n_threads.
constexpr std::int64_t kMaxParts = 16;
constexpr std::int64_t kMinRowsPerPart = 4096;
constexpr std::int64_t kRowsBetweenPolls = 1024;

[[noreturn]] void refuse_row(std::int64_t row, const std::string& rule) {
    throw std::invalid_argument("top: row " + std::to_string(row) + " " + rule);
}

// The table of one part of the rows, with groups in the order in which they turn up.
class TableBuilder {
public:
    TableBuilder(std::int64_t n_ranks, bool weighted) : weighted_(weighted) {
        table_.n_ranks = n_ranks;
        table_.first_hits.resize(n_ranks);
        table_.predicted.resize(n_ranks);
    }

    std::size_t group_of(std::int64_t n_observed, std::int64_t n_relevant) {
        const std::uint64_t key = static_cast<std::uint64_t>(n_observed) << 32 | static_cast<std::uint64_t>(n_relevant);
        const auto [found, is_new] = groups_.try_emplace(key, table_.n_groups());
        if (is_new) {
            table_.n_observed.push_back(n_observed);
            table_.n_relevant.push_back(n_relevant);
            table_.n_rows.push_back(0);
            table_.hits.resize(table_.hits.size() + table_.n_ranks);
            if (weighted_) {
                table_.gains.resize(table_.hits.size());
                table_.ideal_gains.resize(table_.hits.size());
                table_.weight_sums.push_back(0.0);
            }
        }
        return found->second;
    }

    HitTable& table() { return table_; }

    void add(const HitTable& part) {
        const auto add_all = [](auto& to, const auto& from, std::size_t to_first, std::size_t from_first,
                                std::size_t count) {
            for (std::size_t i = 0; i < count; ++i) to[to_first + i] += from[from_first + i];
        };
        const auto n_ranks = static_cast<std::size_t>(table_.n_ranks);
        for (std::size_t group = 0; group < part.n_groups(); ++group) {
            const std::size_t mine = group_of(part.n_observed[group], part.n_relevant[group]);
            table_.n_rows[mine] += part.n_rows[group];
            add_all(table_.hits, part.hits, mine * n_ranks, group * n_ranks, n_ranks);
            if (!weighted_) continue;
            add_all(table_.gains, part.gains, mine * n_ranks, group * n_ranks, n_ranks);
            add_all(table_.ideal_gains, part.ideal_gains, mine * n_ranks, group * n_ranks, n_ranks);
            table_.weight_sums[mine] += part.weight_sums[group];
        }
        add_all(table_.first_hits, part.first_hits, 0, 0, n_ranks);
        add_all(table_.predicted, part.predicted, 0, 0, n_ranks);
    }

private:
    bool weighted_;
    HitTable table_;
    std::unordered_map<std::uint64_t, std::size_t> groups_;
};

class RowCounter {
public:
    RowCounter(const RankedView& ranked, const LabelsView& labels, const Weights& weights,
               std::span<const std::int32_t> n_relevant)
        : ranked_(ranked),
          labels_(labels),
          weights_(weights),
          n_relevant_(n_relevant),
          builder_(ranked.n_ranks, weights.given()) {}

    void count(std::int64_t row) {
        const std::int64_t n_observed = labels_.row_size(row);
        const std::int64_t n_relevant = n_relevant_.empty() ? n_observed : n_relevant_[row];
        if (n_relevant < n_observed || n_relevant > labels_.n_labels)
            throw std::invalid_argument("n_relevant: row " + std::to_string(row) + " must be between its " +
                                        std::to_string(n_observed) + " labels in Y and all " +
                                        std::to_string(labels_.n_labels) + ", got " + std::to_string(n_relevant));
        sort_predicted(row);
        const std::size_t group = builder_.group_of(n_observed, n_relevant);
        first_slot_ = group * static_cast<std::size_t>(ranked_.n_ranks);
        HitTable& table = builder_.table();
        ++table.n_rows[group];
        add_hits(row);
        if (weights_.given()) table.weight_sums[group] += add_ideal(row);
    }

    const HitTable& table() { return builder_.table(); }

private:
    // The row's label ids in increasing order, each with its rank in the low half: ready to merge with the row of Y.
    void sort_predicted(std::int64_t row) {
        predicted_.clear();
        const auto label_ids = ranked_.row(row);
        for (std::size_t rank = 0; rank < label_ids.size(); ++rank) {
            const std::int32_t label_id = label_ids[rank];
            if (label_id == -1) continue;
            if (label_id < 0 || label_id >= labels_.n_labels)
                refuse_row(row, "predicts label " + std::to_string(label_id) + ", but Y has labels 0 .. " +
                                    std::to_string(labels_.n_labels - 1) + " (-1 pads)");
            if (predicted_.size() != rank) refuse_row(row, "has a label after the padding -1, which must come last");
            predicted_.push_back(static_cast<std::uint64_t>(label_id) << 32 | rank);
            ++builder_.table().predicted[rank];
        }
        std::sort(predicted_.begin(), predicted_.end());
        for (std::size_t i = 1; i < predicted_.size(); ++i)
            if (predicted_[i] >> 32 == predicted_[i - 1] >> 32)
                refuse_row(row, "predicts label " + std::to_string(predicted_[i] >> 32) + " twice");
    }

    double weight(std::int64_t entry) const {
        return weights_.values[weights_.per == Weights::Per::kLabel ? labels_.indices[entry] : entry];
    }

    void add_hits(std::int64_t row) {
        HitTable& table = builder_.table();
        std::int64_t entry = labels_.indptr[row];
        const std::int64_t end = labels_.indptr[row + 1];
        std::uint32_t first_hit = UINT32_MAX;
        for (const std::uint64_t label_and_rank : predicted_) {
            const auto label_id = static_cast<std::int32_t>(label_and_rank >> 32);
            const auto rank = static_cast<std::uint32_t>(label_and_rank);
            while (entry < end && labels_.indices[entry] < label_id) ++entry;
            if (entry == end) break;
            if (labels_.indices[entry] != label_id) continue;
            ++table.hits[first_slot_ + rank];
            first_hit = std::min(first_hit, rank);
            if (weights_.given()) table.gains[first_slot_ + rank] += weight(entry);
        }
        if (first_hit != UINT32_MAX) ++table.first_hits[first_hit];
    }

    // The ideal ranking puts the rarest labels, those of the greatest weight, first. Returns the sum over all labels.
    double add_ideal(std::int64_t row) {
        row_weights_.clear();
        double sum = 0.0;
        for (std::int64_t entry = labels_.indptr[row]; entry < labels_.indptr[row + 1]; ++entry) {
            row_weights_.push_back(weight(entry));
            sum += row_weights_.back();
        }
        const std::int64_t n_best = std::min<std::int64_t>(ranked_.n_ranks, labels_.row_size(row));
        std::partial_sort(row_weights_.begin(), row_weights_.begin() + n_best, row_weights_.end(), std::greater<>());
        double* ideal_gains = builder_.table().ideal_gains.data() + first_slot_;
        for (std::int64_t rank = 0; rank < n_best; ++rank) ideal_gains[rank] += row_weights_[rank];
        return sum;
    }

    const RankedView& ranked_;
    const LabelsView& labels_;
    const Weights& weights_;
    std::span<const std::int32_t> n_relevant_;
    TableBuilder builder_;
    std::size_t first_slot_ = 0;
    std::vector<std::uint64_t> predicted_;
    std::vector<double> row_weights_;
};

}  // namespace

HitTable count_hits(const RankedView& ranked, const LabelsView& labels, const Weights& weights,
                    std::span<const std::int32_t> n_relevant, int n_threads, Control& control) {
    const std::int64_t n_parts = std::clamp<std::int64_t>(ranked.n_rows / kMinRowsPerPart, 1, kMaxParts);
    std::vector<HitTable> parts(n_parts);
    parallel_for(n_parts, n_threads, control, [&](std::int64_t part, int) {
        RowCounter counter(ranked, labels, weights, n_relevant);
        const std::int64_t end = ranked.n_rows * (part + 1) / n_parts;
        for (std::int64_t row = ranked.n_rows * part / n_parts; row < end; ++row) {
            if (row % kRowsBetweenPolls == 0) control.throw_if_stopped();
            counter.count(row);
        }
        parts[part] = counter.table();
    });
    TableBuilder total(ranked.n_ranks, weights.given());
    for (const HitTable& part : parts) total.add(part);
    return std::move(total.table());
}

}  // namespace longtail
