#include "gbdt/row_scores.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel_for.hpp"

namespace longtail::gbdt {
namespace {

// old + leaf, both sorted by label id.
void merge_row(std::span<const RowEntry> row, const LeafView& leaf, std::vector<RowEntry>& out) {
    std::size_t i = 0;
    for (std::size_t j = 0; j < leaf.label_ids.size(); ++j) {
        const std::int32_t label_id = leaf.label_ids[j];
        while (i < row.size() && row[i].label_id() < label_id) out.push_back(row[i++]);
        if (i < row.size() && row[i].label_id() == label_id) {
            out.push_back({row[i].key, row[i].score + leaf.values[j]});
            ++i;
        } else {
            out.push_back({label_id, leaf.values[j]});
        }
    }
    out.insert(out.end(), row.begin() + static_cast<std::ptrdiff_t>(i), row.end());
}

// What a part of the rows has of a label; once all are counted, `n_entries` becomes the place of the next entry.
struct LabelCount {
    std::int64_t n_entries = 0;
    double total = 0.0;
    double magnitude = 0.0;
};

}  // namespace

RowScores::RowScores(const LabelsView& y, Loss loss, std::span<const float> row_weights)
    : n_rows_(y.n_rows), n_labels_(y.n_labels), loss_(loss), row_weights_(row_weights.begin(), row_weights.end()) {
    chunks_.resize((y.n_rows + kChunkRows - 1) / kChunkRows);
    for (std::int64_t row = 0; row < y.n_rows; ++row) {
        Chunk& chunk = chunks_[row / kChunkRows];
        for (const std::int32_t label_id : y.row_labels(row)) chunk.entries.push_back({~label_id, 0.0F});
        chunk.begin.push_back(static_cast<std::int64_t>(chunk.entries.size()));
    }
}

std::span<const RowEntry> RowScores::row(std::int64_t row) const {
    const Chunk& chunk = chunks_[row / kChunkRows];
    const std::int64_t local = row % kChunkRows;
    return std::span(chunk.entries).subspan(chunk.begin[local], chunk.begin[local + 1] - chunk.begin[local]);
}

std::int64_t RowScores::n_entries(std::int64_t row_id) const { return static_cast<std::int64_t>(row(row_id).size()); }

NodeGradients RowScores::root_gradients(std::span<const std::int32_t> rows, GradientStore& store, int n_threads,
                                        Control& control) const {
    // A counting sort by label. Rows are cut into a fixed number of parts, whose counts are kept apart, so that parts
    // may be filled in any order with the same result.
    const auto n_rows = static_cast<std::int64_t>(rows.size());
    const std::int64_t n_parts = std::clamp<std::int64_t>(n_rows / 4096, 1, 8);
    const auto part_begin = [&](std::int64_t part) { return n_rows * part / n_parts; };
    std::vector<std::vector<LabelCount>> counts(n_parts);
    parallel_for(n_parts, n_threads, control, [&](std::int64_t part, int) {
        counts[part].resize(n_labels_);
        for (std::int64_t i = part_begin(part); i < part_begin(part + 1); ++i)
            for (const RowEntry& entry : row(rows[i])) {
                const float value = weight(rows[i]) * residual(loss_, entry);
                LabelCount& count = counts[part][entry.label_id()];
                count.n_entries += value != 0.0F ? 1 : 0;
                count.total += static_cast<double>(value);
                count.magnitude += static_cast<double>(std::abs(value));
            }
        control.throw_if_stopped();
    });

    constexpr std::int64_t kBlockLabels = 1 << 14;
    std::vector<std::vector<LabelGradients>> blocks((n_labels_ + kBlockLabels - 1) / kBlockLabels);
    parallel_for(static_cast<std::int64_t>(blocks.size()), n_threads, control, [&](std::int64_t block, int) {
        const std::int64_t last = std::min((block + 1) * kBlockLabels, n_labels_);
        for (std::int64_t label_id = block * kBlockLabels; label_id < last; ++label_id) {
            LabelGradients label;
            label.label_id = static_cast<std::int32_t>(label_id);
            for (std::int64_t part = 0; part < n_parts; ++part) {
                const LabelCount& count = counts[part][label_id];
                label.n_entries += static_cast<std::int32_t>(count.n_entries);
                label.total += count.total;
                label.magnitude += count.magnitude;
            }
            if (label.n_entries > 0) blocks[block].push_back(label);
        }
    });
    NodeGradients out;
    for (const std::vector<LabelGradients>& block : blocks)
        for (LabelGradients label : block) {
            label.begin = out.n_entries;
            out.n_entries += label.n_entries;
            out.labels.push_back(label);
        }
    store.reserve(out.n_entries);
    out.rows = store.rows();
    out.values = store.values();

    // Where each part's entries of a label begin.
    parallel_for((out.n_labels() + kBlockLabels - 1) / kBlockLabels, n_threads, control, [&](std::int64_t block, int) {
        const std::int64_t last = std::min((block + 1) * kBlockLabels, out.n_labels());
        for (std::int64_t i = block * kBlockLabels; i < last; ++i) {
            std::int64_t begin = out.labels[i].begin;
            for (std::int64_t part = 0; part < n_parts; ++part) {
                std::int64_t& place = counts[part][out.labels[i].label_id].n_entries;
                begin += std::exchange(place, begin);
            }
        }
    });
    parallel_for(n_parts, n_threads, control, [&](std::int64_t part, int) {
        for (std::int64_t i = part_begin(part); i < part_begin(part + 1); ++i)
            for (const RowEntry& entry : row(rows[i])) {
                const float value = weight(rows[i]) * residual(loss_, entry);
                if (value == 0.0F) continue;
                const std::int64_t place = counts[part][entry.label_id()].n_entries++;
                store.rows()[place] = static_cast<std::int32_t>(i);
                store.values()[place] = value;
            }
    });
    return out;
}

void RowScores::add(std::span<const std::int32_t> leaf_of_row, std::span<const LeafView> leaves, int n_threads,
                    Control& control) {
    parallel_for(static_cast<std::int64_t>(chunks_.size()), n_threads, control, [&](std::int64_t chunk_id, int) {
        const Chunk& old = chunks_[chunk_id];
        const std::int64_t first_row = chunk_id * kChunkRows;
        const std::int64_t n_rows = static_cast<std::int64_t>(old.begin.size()) - 1;
        std::size_t n_most = old.entries.size();
        for (std::int64_t i = 0; i < n_rows; ++i) n_most += leaves[leaf_of_row[first_row + i]].label_ids.size();
        Chunk grown;
        grown.begin.reserve(old.begin.size());
        grown.entries.reserve(n_most);
        for (std::int64_t i = 0; i < n_rows; ++i) {
            merge_row(row(first_row + i), leaves[leaf_of_row[first_row + i]], grown.entries);
            grown.begin.push_back(static_cast<std::int64_t>(grown.entries.size()));
        }
        grown.entries.shrink_to_fit();
        chunks_[chunk_id] = std::move(grown);
    });
}

double RowScores::loss(int n_threads, Control& control) const {
    std::vector<double> losses(chunks_.size(), 0.0);
    parallel_for(static_cast<std::int64_t>(chunks_.size()), n_threads, control, [&](std::int64_t chunk_id, int) {
        const Chunk& chunk = chunks_[chunk_id];
        double sum = 0.0;
        for (std::size_t i = 0; i + 1 < chunk.begin.size(); ++i) {
            double row_sum = row_weights_.empty() ? sum : 0.0;
            for (std::int64_t at = chunk.begin[i]; at < chunk.begin[i + 1]; ++at) {
                const auto value = static_cast<double>(residual(loss_, chunk.entries[at]));
                row_sum += value * value;
            }
            sum = row_weights_.empty()
                      ? row_sum
                      : sum + row_sum * row_weights_[chunk_id * kChunkRows + static_cast<std::int64_t>(i)];
        }
        losses[chunk_id] = sum;
    });
    double sum = 0.0;
    for (const double loss : losses) sum += loss;
    return sum;
}

}  // namespace longtail::gbdt
