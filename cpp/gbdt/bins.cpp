#include "gbdt/bins.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/parallel_for.hpp"
#include "gbdt/radix_sort.hpp"

namespace longtail::gbdt {
namespace {

// Cuts of one feature from its sorted values, of which `n_zeros` zeros are not listed.
std::vector<float> choose_cuts(std::span<const float> sorted, std::int64_t n_zeros) {
    struct Run {
        float value;
        std::int64_t n_rows;
    };
    std::vector<Run> runs;
    bool zeros_placed = n_zeros == 0;
    const auto add = [&](float value, std::int64_t n_rows) {
        if (!runs.empty() && runs.back().value == value)
            runs.back().n_rows += n_rows;
        else
            runs.push_back({value, n_rows});
    };
    for (const float value : sorted) {
        if (!zeros_placed && value >= 0.0F) {
            add(0.0F, n_zeros);
            zeros_placed = true;
        }
        add(value == 0.0F ? 0.0F : value, 1);  // -0 and 0 are one value
    }
    if (!zeros_placed) add(0.0F, n_zeros);

    std::vector<float> cuts;
    if (runs.size() <= kMaxBins) {
        for (std::size_t i = 1; i < runs.size(); ++i) cuts.push_back(cut_between(runs[i - 1].value, runs[i].value));
        return cuts;
    }
    // Close a bin as soon as it reaches its share of what is left: long runs of one value do not starve the rest.
    std::int64_t n_left = 0;
    for (const Run& run : runs) n_left += run.n_rows;
    std::int64_t in_bin = 0;
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
        in_bin += runs[i].n_rows;
        const auto n_bins_left = static_cast<std::int64_t>(kMaxBins - cuts.size());
        if (n_bins_left > 1 && in_bin * n_bins_left >= n_left) {
            cuts.push_back(cut_between(runs[i].value, runs[i + 1].value));
            n_left -= in_bin;
            in_bin = 0;
        }
    }
    return cuts;
}

// How many cuts are less than the value. Halving without branches: none of them could be predicted.
std::uint8_t find_bin(std::span<const float> cuts, float value) {
    const float* first = cuts.data();
    std::size_t n_left = cuts.size();
    while (n_left > 1) {
        const std::size_t half = n_left / 2;
        first += first[half - 1] < value ? half : 0;
        n_left -= half;
    }
    const std::ptrdiff_t n_less = first - cuts.data() + (n_left == 1 && *first < value ? 1 : 0);
    return static_cast<std::uint8_t>(n_less);
}

// Floats as integers of the same order.
std::uint32_t key_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return bits ^ (bits >> 31 != 0 ? 0xFFFFFFFFU : 0x80000000U);
}
float value_of(std::uint32_t key) { return std::bit_cast<float>(key ^ (key >> 31 != 0 ? 0x80000000U : 0xFFFFFFFFU)); }

// Memory of sort_values, reused from column to column.
struct SortScratch {
    std::vector<std::uint32_t> keys, moved;
};

void sort_values(std::span<float> values, SortScratch& scratch) {
    constexpr std::size_t kMany = 1024;
    if (values.size() < kMany) {
        std::sort(values.begin(), values.end());
        return;
    }
    scratch.keys.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) scratch.keys[i] = key_of(values[i]);
    radix_sort(scratch.keys, scratch.moved, 0);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(scratch.keys[i]);
}

void join_cuts(const std::vector<std::vector<float>>& cuts_of, Bins& out) {
    out.cut_begin.assign(1, 0);
    for (const auto& cuts : cuts_of) {
        out.cuts.insert(out.cuts.end(), cuts.begin(), cuts.end());
        out.cut_begin.push_back(static_cast<std::int64_t>(out.cuts.size()));
    }
}

}  // namespace

float cut_between(float a, float b) {
    const float middle = a + (b - a) * 0.5F;
    return middle >= a && middle < b ? middle : a;
}

Bins make_bins(const DenseView& x, int n_threads, Control& control) {
    Bins out;
    out.n_rows = x.n_rows;
    out.n_features = static_cast<std::int32_t>(x.n_cols);
    out.bins.resize(static_cast<std::size_t>(x.n_rows * x.n_cols));
    std::vector<std::vector<float>> cuts_of(x.n_cols);
    // Blocks of neighbouring features: a cache line of X holds sixteen of them.
    constexpr std::int32_t kBlock = 16;
    parallel_for((x.n_cols + kBlock - 1) / kBlock, n_threads, control, [&](std::int64_t block, int) {
        const std::int64_t first = block * kBlock;
        const std::int64_t last = std::min(first + kBlock, x.n_cols);
        std::vector<float> column(static_cast<std::size_t>(x.n_rows));
        SortScratch scratch;
        for (std::int64_t feature = first; feature < last; ++feature) {
            control.throw_if_stopped();
            for (std::int64_t row = 0; row < x.n_rows; ++row) column[row] = x.values[row * x.n_cols + feature];
            sort_values(column, scratch);
            cuts_of[feature] = choose_cuts(column, 0);
        }
        // Sixteen features of a row at once, halving a table of 256 cuts each; infinite cuts fill it up.
        std::vector<float> table(kBlock * kMaxBins, std::numeric_limits<float>::infinity());
        for (std::int64_t feature = first; feature < last; ++feature)
            std::copy(cuts_of[feature].begin(), cuts_of[feature].end(), table.begin() + (feature - first) * kMaxBins);
        for (std::int64_t row = 0; row < x.n_rows; ++row) {
            float values[kBlock] = {};
            std::copy_n(x.values.data() + row * x.n_cols + first, last - first, values);
            std::int32_t places[kBlock];
            for (std::int32_t i = 0; i < kBlock; ++i) places[i] = i * kMaxBins;
            for (std::int32_t half = kMaxBins / 2; half > 0; half /= 2)
                for (std::int32_t i = 0; i < kBlock; ++i)
                    places[i] += table[places[i] + half - 1] < values[i] ? half : 0;
            std::uint8_t* out_row = out.bins.data() + row * x.n_cols + first;
            for (std::int32_t i = 0; i < last - first; ++i)
                out_row[i] = static_cast<std::uint8_t>(places[i] - i * kMaxBins);
        }
    });
    join_cuts(cuts_of, out);
    return out;
}

Bins make_bins(const CsrView& x, int n_threads, Control& control) {
    Bins out;
    out.n_rows = x.n_rows;
    out.n_features = static_cast<std::int32_t>(x.n_cols);
    out.is_dense = false;

    std::vector<std::int64_t> begin(x.n_cols + 1, 0);
    for (const std::int32_t feature : x.indices) ++begin[feature + 1];
    for (std::int64_t feature = 0; feature < x.n_cols; ++feature) begin[feature + 1] += begin[feature];
    std::vector<float> columns(x.values.size());
    {
        std::vector<std::int64_t> next(begin.begin(), begin.end() - 1);
        for (std::size_t i = 0; i < x.values.size(); ++i) columns[next[x.indices[i]]++] = x.values[i];
    }
    std::vector<std::vector<float>> cuts_of(x.n_cols);
    parallel_for(x.n_cols, n_threads, control, [&](std::int64_t feature, int) {
        const std::span column(columns.data() + begin[feature], columns.data() + begin[feature + 1]);
        SortScratch scratch;
        sort_values(column, scratch);
        cuts_of[feature] = choose_cuts(column, x.n_rows - static_cast<std::int64_t>(column.size()));
    });
    join_cuts(cuts_of, out);

    out.zero_bins.resize(x.n_cols);
    for (std::int64_t feature = 0; feature < x.n_cols; ++feature)
        out.zero_bins[feature] = find_bin(cuts_of[feature], 0.0F);
    out.row_begin.reserve(x.n_rows + 1);
    out.row_begin.push_back(0);
    for (std::int64_t row = 0; row < x.n_rows; ++row) {
        for (std::int64_t i = x.indptr[row]; i < x.indptr[row + 1]; ++i) {
            const std::int32_t feature = x.indices[i];
            const std::uint8_t bin = find_bin(cuts_of[feature], x.values[i]);
            if (bin == out.zero_bins[feature]) continue;
            out.feature_ids.push_back(feature);
            out.bins.push_back(bin);
        }
        out.row_begin.push_back(static_cast<std::int64_t>(out.bins.size()));
    }
    return out;
}

}  // namespace longtail::gbdt
