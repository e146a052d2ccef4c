#include "gbdt/split_search.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "gbdt/lanes.hpp"
#include "gbdt/radix_sort.hpp"
#include "gbdt/slot_finder.hpp"

namespace longtail::gbdt {
namespace {

// Sums of a tile lie group by group, sixteen features wide:
//
//   offset = group base + slot * 16 + lane        slot s holds the bins between thresholds s - 1 and s
//
// so that prefix sums over slots, squares and the lists of the k best are plain loops over sixteen lanes.
constexpr int kBlockLabels = 16;
constexpr int kTileOffsets =
    80 * kLanes;  // four groups of twenty slots; the sums of one group fit the first-level cache
constexpr std::int64_t kChunkRows = 512;  // wide rows and offsets of a chunk fit the second-level cache
constexpr double kDenseShare = 0.09;      // above it, adding sixteen labels of a row at once beats adding single ones

struct Group {
    std::int32_t first = 0;  // candidate features
    std::int32_t n_features = 0;
    std::int32_t n_slots = 0;
    std::int32_t base = 0;
};

void prefetch(const void* address) {
#if defined(__GNUC__)
    __builtin_prefetch(address);
#else
    (void)address;
#endif
}

void transpose_16(const float* __restrict from, std::int64_t from_stride, float* __restrict to,
                  std::int64_t to_stride) {
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) to[j * to_stride + i] = from[i * from_stride + j];
}

class TileSearch {
public:
    TileSearch(const Bins& bins, const NodeView& node, const Tile& tile, const BoostParams& params,
               SearchScratch& scratch, Control& control)
        : bins_(bins), node_(node), tile_(tile), params_(params), scratch_(scratch), control_(control) {
        n_rows_ = static_cast<std::int64_t>(node.rows.size());
        top_k_ = params.leaf_top_k;
        keeps_all_ = top_k_ == 0 || static_cast<std::int64_t>(node.label_order.size()) <= top_k_;
        lay_out();
    }

    SplitChoice run() {
        if (bins_.is_dense)
            list_dense_rows();
        else
            list_sparse_rows();
        reset_best();
        const NodeGradients& gradients = *node_.gradients;
        const auto n_labels = static_cast<std::int64_t>(node_.label_order.size());
        for (std::int64_t first = 0; first < n_labels; first += kBlockLabels) {
            control_.throw_if_stopped();
            const auto n_block = static_cast<int>(std::min<std::int64_t>(kBlockLabels, n_labels - first));
            if (!keeps_all_ && node_.label_bounds[first] * node_.label_bounds[first] <= weakest_best()) break;
            const auto labels = node_.label_order.subspan(first, n_block);
            std::int64_t n_entries = 0;
            for (const std::int32_t label : labels) n_entries += gradients.labels[label].n_entries;
            if (static_cast<double>(n_entries) >= kDenseShare * kBlockLabels * static_cast<double>(n_rows_))
                sum_wide(labels);
            else
                sum_narrow(labels);
            if (!bins_.is_dense) add_zero_bins(labels);
            for (const Group& group : groups_) keep_block(group, labels);
        }
        return choose();
    }

private:
    void lay_out() {
        const Candidates& candidates = *node_.candidates;
        for (std::int32_t first = tile_.first; first < tile_.last; first += kLanes) {
            Group group{first, std::min(kLanes, tile_.last - first), 0, n_offsets_};
            for (std::int32_t i = first; i < first + group.n_features; ++i)
                group.n_slots = std::max(group.n_slots, candidates.begin[i + 1] - candidates.begin[i] + 1);
            n_offsets_ += group.n_slots * kLanes;
            groups_.push_back(group);
        }
        scratch_.block_sums.resize(static_cast<std::size_t>(n_offsets_) * kBlockLabels);
        scratch_.wide_sums.resize(static_cast<std::size_t>(n_offsets_) * kBlockLabels);
    }

    // Where each bin of each feature is summed.
    void list_bins() {
        const Candidates& candidates = *node_.candidates;
        scratch_.offset_of_bin.resize(static_cast<std::size_t>(tile_.last - tile_.first) * kMaxBins);
        for (const Group& group : groups_)
            for (std::int32_t lane = 0; lane < group.n_features; ++lane) {
                const std::int32_t i = group.first + lane;
                std::uint16_t* table = scratch_.offset_of_bin.data() + (i - tile_.first) * kMaxBins;
                // A slot's bins follow one another: from its predecessor's threshold to its own, the last to the end.
                const std::int32_t n_thresholds = candidates.begin[i + 1] - candidates.begin[i];
                int bin = 0;
                for (std::int32_t slot = 0; slot <= n_thresholds; ++slot) {
                    const int last = slot < n_thresholds ? candidates.bins[candidates.begin[i] + slot] + 1 : kMaxBins;
                    std::fill(table + bin, table + last, static_cast<std::uint16_t>(group.base + slot * kLanes + lane));
                    bin = last;
                }
            }
    }

    void list_dense_rows() {
        const std::int32_t n_features = tile_.last - tile_.first;
        const std::span features(node_.candidates->features.data() + tile_.first, static_cast<std::size_t>(n_features));
        // Rows are written one after another, each in whole vectors: the next row writes over what is too much.
        scratch_.offsets.resize(static_cast<std::size_t>(n_rows_) * n_features + SlotFinder::kSlack);
        std::int32_t most_slots = 0;
        for (const Group& group : groups_) most_slots = std::max(most_slots, group.n_slots);
        if (most_slots <= SlotFinder::kMostSlots) {
            SlotFinder finder(*node_.candidates, tile_.first, tile_.last, most_slots, scratch_);
            for (const Group& group : groups_)
                for (std::int32_t lane = 0; lane < group.n_features; ++lane)
                    finder.set_base(group.first + lane - tile_.first, group.base + lane);
            std::uint16_t* out = scratch_.offsets.data();
            for (const std::int32_t row : node_.rows) {
                finder.find(bins_.dense_row(row), out);
                out += n_features;
            }
            return;
        }
        list_bins();
        std::uint16_t* out = scratch_.offsets.data();
        for (const std::int32_t row : node_.rows) {
            const std::uint8_t* row_bins = bins_.dense_row(row);
            const std::uint16_t* table = scratch_.offset_of_bin.data();
            for (std::int32_t i = 0; i < n_features; ++i, table += kMaxBins) *out++ = table[row_bins[features[i]]];
        }
    }

    // Only bins that are summed elsewhere than zero's slot; zero's slot is what the label's total leaves over.
    void list_sparse_rows() {
        list_bins();
        scratch_.feature_places.assign(bins_.n_features, -1);
        zero_offsets_.resize(tile_.last - tile_.first);
        for (std::int32_t i = tile_.first; i < tile_.last; ++i) {
            const std::int32_t feature = node_.candidates->features[i];
            scratch_.feature_places[feature] = i - tile_.first;
            zero_offsets_[i - tile_.first] =
                scratch_.offset_of_bin[(i - tile_.first) * kMaxBins + bins_.zero_bins[feature]];
        }
        scratch_.offsets.clear();
        scratch_.offset_begin.assign(1, 0);
        for (const std::int32_t row : node_.rows) {
            for (std::int64_t i = bins_.row_begin[row]; i < bins_.row_begin[row + 1]; ++i) {
                const std::int32_t place = scratch_.feature_places[bins_.feature_ids[i]];
                if (place < 0) continue;
                const std::uint16_t offset = scratch_.offset_of_bin[place * kMaxBins + bins_.bins[i]];
                if (offset != zero_offsets_[place]) scratch_.offsets.push_back(offset);
            }
            scratch_.offset_begin.push_back(static_cast<std::int64_t>(scratch_.offsets.size()));
        }
    }

    std::span<const std::uint16_t> row_offsets(std::int64_t row) const {
        if (bins_.is_dense) {
            const std::size_t n_features = tile_.last - tile_.first;
            return {scratch_.offsets.data() + row * n_features, n_features};
        }
        return {scratch_.offsets.data() + scratch_.offset_begin[row],
                scratch_.offsets.data() + scratch_.offset_begin[row + 1]};
    }

    // Label by label, entry by entry: for labels that few rows of the node have.
    void sum_narrow(std::span<const std::int32_t> labels) {
        const NodeGradients& gradients = *node_.gradients;
        constexpr std::int64_t kAhead = 8;
        for (std::size_t l = 0; l < labels.size(); ++l) {
            float* __restrict sums = scratch_.block_sums.data() + l * n_offsets_;
            std::fill_n(sums, n_offsets_, 0.0F);
            const std::int64_t last = gradients.labels[labels[l]].end();
            for (std::int64_t i = gradients.labels[labels[l]].begin; i < last; ++i) {
                if (i + kAhead < last) prefetch(row_offsets(gradients.rows[i + kAhead]).data());
                const float value = gradients.values[i];
                for (const std::uint16_t offset : row_offsets(gradients.rows[i])) sums[offset] += value;
            }
        }
    }

    // Sixteen labels at once: rows of the node become dense vectors of sixteen gradients, a chunk of rows at a time.
    void sum_wide(std::span<const std::int32_t> labels) {
        const NodeGradients& gradients = *node_.gradients;
        scratch_.wide_rows.resize(kChunkRows * kBlockLabels);
        std::int64_t next[kBlockLabels] = {};
        for (std::size_t l = 0; l < labels.size(); ++l) next[l] = gradients.labels[labels[l]].begin;
        float* wide_sums = scratch_.wide_sums.data();
        float* wide_rows = scratch_.wide_rows.data();
        std::fill_n(wide_sums, n_offsets_ * kBlockLabels, 0.0F);
        for (std::int64_t first = 0; first < n_rows_; first += kChunkRows) {
            const std::int64_t last = std::min(first + kChunkRows, n_rows_);
            std::fill_n(wide_rows, (last - first) * kBlockLabels, 0.0F);
            for (std::size_t l = 0; l < labels.size(); ++l) {
                const std::int64_t end = gradients.labels[labels[l]].end();
                for (; next[l] < end && gradients.rows[next[l]] < last; ++next[l])
                    wide_rows[(gradients.rows[next[l]] - first) * kBlockLabels + static_cast<std::int64_t>(l)] =
                        gradients.values[next[l]];
            }
            if (bins_.is_dense)
                for (const Group& group : groups_) add_wide_rows(group, first, last);
            else
                for (std::int64_t row = first; row < last; ++row)
                    for (const std::uint16_t offset : row_offsets(row))
                        add_wide(offset, wide_rows + (row - first) * kBlockLabels);
        }
        for (std::int32_t offset = 0; offset < n_offsets_; offset += kLanes)
            transpose_16(wide_sums + offset * kBlockLabels, kBlockLabels, scratch_.block_sums.data() + offset,
                         n_offsets_);
    }

    void add_wide(std::uint16_t offset, const float* values) {
        float* sums = scratch_.wide_sums.data() + static_cast<std::int64_t>(offset) * kBlockLabels;
        (Lanes::load(sums) + Lanes::load(values)).store(sums);
    }

    void add_wide_rows(const Group& group, std::int64_t first, std::int64_t last) {
        const std::int64_t n_features = tile_.last - tile_.first;
        const std::uint16_t* offsets = scratch_.offsets.data() + first * n_features + (group.first - tile_.first);
        const float* wide_row = scratch_.wide_rows.data();
        float* wide_sums = scratch_.wide_sums.data();
        const auto add_rows = [&](auto n_lanes) {
            for (std::int64_t row = first; row < last; ++row, offsets += n_features, wide_row += kBlockLabels) {
                const Lanes values = Lanes::load(wide_row);
                for (std::int32_t i = 0; i < n_lanes; ++i) {
                    float* sums = wide_sums + static_cast<std::int64_t>(offsets[i]) * kBlockLabels;
                    (Lanes::load(sums) + values).store(sums);
                }
            }
        };
        if (group.n_features == kLanes)
            add_rows(std::integral_constant<std::int32_t, kLanes>());
        else
            add_rows(group.n_features);
    }

    void add_zero_bins(std::span<const std::int32_t> labels) {
        for (std::size_t l = 0; l < labels.size(); ++l) {
            float* block = scratch_.block_sums.data() + l * n_offsets_;
            const auto total = static_cast<float>(node_.gradients->labels[labels[l]].total);
            for (const Group& group : groups_) {
                Lanes over = Lanes::all(total);
                for (std::int32_t slot = 0; slot < group.n_slots; ++slot)
                    over = over - Lanes::load(block + group.base + slot * kLanes);
                alignas(64) float rest[kLanes];
                over.store(rest);
                for (std::int32_t lane = 0; lane < group.n_features; ++lane)
                    block[zero_offsets_[group.first + lane - tile_.first]] += rest[lane];
            }
        }
    }

    // A list of the k best squares for every (slot, side, lane). Lanes without a threshold there hold infinity, so
    // that nothing enters them and they never are the weakest.
    std::int64_t list_of(const Group& group, std::int32_t slot, int side) const {
        return (group.base / kLanes + slot) * 2 + side;
    }
    bool has_threshold(const Group& group, std::int32_t slot, std::int32_t lane) const {
        const Candidates& candidates = *node_.candidates;
        const std::int32_t i = group.first + lane;
        return lane < group.n_features && slot < candidates.begin[i + 1] - candidates.begin[i];
    }
    void reset_best() {
        const std::size_t n_lists = static_cast<std::size_t>(n_offsets_) / kLanes * 2;
        if (keeps_all_) {
            scratch_.all.assign(n_lists * kLanes, 0.0);
            return;
        }
        scratch_.best.assign(n_lists * top_k_ * kLanes, 0.0F);
        scratch_.n_best.assign(n_lists, 0);
        for (const Group& group : groups_)
            for (std::int32_t slot = 0; slot < group.n_slots; ++slot)
                for (std::int32_t lane = 0; lane < kLanes; ++lane)
                    if (!has_threshold(group, slot, lane))
                        for (int side = 0; side < 2; ++side)
                            for (std::int32_t j = 0; j < top_k_; ++j)
                                scratch_.best[(list_of(group, slot, side) * top_k_ + j) * kLanes + lane] =
                                    std::numeric_limits<float>::infinity();
    }
    float weakest_best() const {
        Lanes weakest = Lanes::all(std::numeric_limits<float>::infinity());
        const auto n_lists = static_cast<std::int64_t>(scratch_.n_best.size());
        for (std::int64_t list = 0; list < n_lists; ++list)
            weakest = smaller(weakest, Lanes::load(scratch_.best.data() + (list * top_k_ + top_k_ - 1) * kLanes));
        alignas(64) float lanes[kLanes];
        weakest.store(lanes);
        return *std::min_element(lanes, lanes + kLanes);
    }

    void keep_block(const Group& group, std::span<const std::int32_t> labels) {
        alignas(64) float left_sums[kBlockLabels][kLanes] = {};
        float totals[kBlockLabels];
        for (std::size_t l = 0; l < labels.size(); ++l)
            totals[l] = static_cast<float>(node_.gradients->labels[labels[l]].total);
        for (std::int32_t slot = 0; slot + 1 < group.n_slots; ++slot)
            for (std::size_t l = 0; l < labels.size(); ++l) {
                const Lanes left = Lanes::load(left_sums[l]) + Lanes::load(scratch_.block_sums.data() + l * n_offsets_ +
                                                                           group.base + slot * kLanes);
                left.store(left_sums[l]);
                const Lanes right = Lanes::all(totals[l]) - left;
                if (keeps_all_) {
                    add_all(list_of(group, slot, 0), left * left);
                    add_all(list_of(group, slot, 1), right * right);
                } else {
                    insert(list_of(group, slot, 0), left * left);
                    insert(list_of(group, slot, 1), right * right);
                }
            }
    }

    void add_all(std::int64_t list, const Lanes& squares) {
        alignas(64) float lanes[kLanes];
        squares.store(lanes);
        double* sums = scratch_.all.data() + list * kLanes;
        for (int lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(lanes[lane]);
    }

    // Sorted insertion in sixteen lanes at once, from the end of the list; most squares stop at the first comparison.
    void insert(std::int64_t list, const Lanes& squares) {
        float* best = scratch_.best.data() + list * top_k_ * kLanes;
        if (!any_greater(squares, Lanes::load(best + (top_k_ - 1) * kLanes))) return;
        std::int32_t& n_best = scratch_.n_best[list];
        std::int32_t j = std::min(n_best, top_k_ - 1);
        n_best = std::min(n_best + 1, top_k_);
        for (float* here = best + j * kLanes; j > 0; --j, here -= kLanes) {
            const Lanes above = Lanes::load(here - kLanes);
            larger(Lanes::load(here), smaller(squares, above)).store(here);
            if (!any_greater(squares, above)) return;
        }
        larger(Lanes::load(best), squares).store(best);
    }

    // The sums of a list's sixteen lanes.
    void sum_list(std::int64_t list, double* __restrict sums) const {
        if (keeps_all_) {
            std::copy_n(scratch_.all.data() + list * kLanes, kLanes, sums);
            return;
        }
        std::fill_n(sums, kLanes, 0.0);
        const float* best = scratch_.best.data() + list * top_k_ * kLanes;
        for (std::int32_t j = 0; j < top_k_; ++j, best += kLanes)
            for (int lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(best[lane]);
    }

    SplitChoice choose() const {
        const Candidates& candidates = *node_.candidates;
        SplitChoice best;
        alignas(64) double left[kLanes];
        alignas(64) double right[kLanes];
        for (const Group& group : groups_)
            for (std::int32_t slot = 0; slot + 1 < group.n_slots; ++slot) {
                sum_list(list_of(group, slot, 0), left);
                sum_list(list_of(group, slot, 1), right);
                for (std::int32_t lane = 0; lane < group.n_features; ++lane) {
                    if (!has_threshold(group, slot, lane)) continue;
                    const std::int32_t i = candidates.begin[group.first + lane] + slot;
                    SplitChoice choice;
                    choice.n_left = candidates.n_left[i];
                    const double weight =
                        candidates.weight_left.empty() ? static_cast<double>(choice.n_left) : candidates.weight_left[i];
                    choice.reduction =
                        left[lane] / (weight + params_.l2) + right[lane] / (node_.weight - weight + params_.l2);
                    choice.feature = candidates.features[group.first + lane];
                    choice.bin = candidates.bins[i];
                    choice.threshold = bins_.cut(choice.feature, choice.bin);
                    if (choice.better_than(best)) best = choice;
                }
            }
        return best;
    }

    const Bins& bins_;
    const NodeView& node_;
    const Tile& tile_;
    const BoostParams& params_;
    SearchScratch& scratch_;
    Control& control_;
    std::int64_t n_rows_ = 0;
    std::int32_t top_k_ = 0;
    bool keeps_all_ = false;
    std::int32_t n_offsets_ = 0;
    std::vector<Group> groups_;
    std::vector<std::uint16_t> zero_offsets_;
};

}  // namespace

void order_labels(const NodeGradients& gradients, std::int64_t n_wanted, std::vector<std::int32_t>& order,
                  std::vector<float>& bounds) {
    // Bounds are not negative, so that their bits, turned round, rise as they fall; the place breaks ties.
    std::vector<std::uint64_t> keys(gradients.labels.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        // (|Σ| + Σ|.|) / 2 is the larger of the positive and the negative part; the margin covers float rounding.
        const double larger = (std::abs(gradients.labels[i].total) + gradients.labels[i].magnitude) * 0.5;
        const std::uint32_t bits = ~std::bit_cast<std::uint32_t>(static_cast<float>(larger * 1.0001));
        keys[i] = static_cast<std::uint64_t>(bits) << 32 | i;
    }
    if (n_wanted > 0 && static_cast<std::size_t>(n_wanted) < keys.size()) {
        std::nth_element(keys.begin(), keys.begin() + n_wanted, keys.end());
        keys.resize(n_wanted);
    }
    constexpr std::size_t kMany = 1024;
    if (keys.size() > kMany) {
        std::vector<std::uint64_t> scratch;
        radix_sort(keys, scratch, 32);
    } else {
        std::sort(keys.begin(), keys.end());
    }
    order.resize(keys.size());
    bounds.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        order[i] = static_cast<std::int32_t>(keys[i] & 0xFFFFFFFF);
        bounds[i] = std::bit_cast<float>(~static_cast<std::uint32_t>(keys[i] >> 32));
    }
}

std::vector<Tile> cut_tiles(const Candidates& candidates) {
    std::vector<Tile> tiles;
    Tile tile;
    std::int32_t n_offsets = 0;
    for (std::int32_t first = 0; first < candidates.n_features(); first += kLanes) {
        const std::int32_t last = std::min(first + kLanes, candidates.n_features());
        std::int32_t n_slots = 0;
        for (std::int32_t i = first; i < last; ++i)
            n_slots = std::max(n_slots, candidates.begin[i + 1] - candidates.begin[i] + 1);
        if (first > tile.first && n_offsets + n_slots * kLanes > kTileOffsets) {
            tiles.push_back(tile);
            tile.first = first;
            n_offsets = 0;
        }
        tile.last = last;
        n_offsets += n_slots * kLanes;
    }
    if (tile.last > tile.first) tiles.push_back(tile);
    return tiles;
}

SplitChoice search_tile(const Bins& bins, const NodeView& node, const Tile& tile, const BoostParams& params,
                        SearchScratch& scratch, Control& control) {
    return TileSearch(bins, node, tile, params, scratch, control).run();
}

}  // namespace longtail::gbdt
