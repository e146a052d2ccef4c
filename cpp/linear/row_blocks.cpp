#include "linear/row_blocks.hpp"

#include <algorithm>
#include <utility>

namespace longtail::linear {

namespace {
// Of a feature in a block, on average. Where a feature comes eight times or less, rows by themselves are as fast: tried on
// EURLex-4K, Bibtex, Delicious, wnwords, texts with pairs of words, and EURLex-4K with fewer of its entries.
constexpr std::int64_t kLeastRepeats = 12;
}  // namespace

RowBlockParts::RowBlockParts(const SparseRows& rows) {
    const CsrView& x = rows.view();
    places.resize(static_cast<std::size_t>(rows.n_stored()));
    values.resize(places.size());
    begins.push_back(0);
    std::vector<std::int32_t> counts(static_cast<std::size_t>(x.n_cols));
    std::vector<std::int64_t> next(static_cast<std::size_t>(x.n_cols));
    std::vector<std::int64_t> run_at;  // by size: where the next run goes
    for (std::int64_t begin = 0; begin < x.n_rows; begin += RowBlocks::kRows) {
        const std::int64_t end = std::min(begin + RowBlocks::kRows, x.n_rows);
        std::fill(counts.begin(), counts.end(), 0);
        for (std::int64_t i = x.indptr[begin]; i < x.indptr[end]; ++i) ++counts[x.indices[i]];
        const std::int32_t largest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
        run_at.assign(static_cast<std::size_t>(largest) + 1, 0);
        for (const std::int32_t count : counts) ++run_at[count];
        const std::int64_t first = begins.back();
        std::int64_t last = first;
        for (std::int32_t size = largest; size > 0; --size) last += std::exchange(run_at[size], last);
        features.resize(static_cast<std::size_t>(last));
        sizes.resize(static_cast<std::size_t>(last));
        for (std::int64_t feature = 0; feature < x.n_cols; ++feature) {
            if (counts[feature] == 0) continue;
            const std::int64_t run = run_at[counts[feature]]++;
            features[run] = static_cast<std::int32_t>(feature);
            sizes[run] = counts[feature];
        }
        std::int64_t at = x.indptr[begin];
        for (std::int64_t run = first; run < last; ++run) next[features[run]] = std::exchange(at, at + sizes[run]);
        for (std::int64_t row = begin; row < end; ++row)
            for (std::int64_t i = x.indptr[row]; i < x.indptr[row + 1]; ++i) {
                const std::int64_t to = next[x.indices[i]]++;
                places[to] = static_cast<std::uint16_t>(row - begin);
                values[to] = x.values[i];
            }
        begins.push_back(last);
    }
}

bool RowBlocks::suits(const SparseRows& rows) {
    return rows.n_rows() >= kRows && rows.n_stored() / rows.n_rows() * kRows >= kLeastRepeats * rows.n_features();
}

// visit(feature, places, values, size) for each run of a block.
template <class Visit>
void RowBlocks::for_each_run(std::int64_t block, const Visit& visit) const {
    const std::int64_t first_entry = rows_.view().indptr[block * kRows];
    const std::uint16_t* places = parts_.places.data() + first_entry;
    const float* values = parts_.values.data() + first_entry;
    for (std::int64_t run = parts_.begins[block]; run < parts_.begins[block + 1]; ++run) {
        const std::int32_t size = parts_.sizes[run];
        visit(parts_.features[run], places, values, size);
        places += size;
        values += size;
    }
}

void RowBlocks::add_margins(std::int64_t block, const Lanes* weights, Lanes* margins) const {
    for_each_run(block, [&](std::int32_t feature, const std::uint16_t* places, const float* values, std::int32_t size) {
        const Lanes weight = weights[feature];
        std::int32_t i = 0;
        // Four are loaded before any is stored: a load need not wait until the place of an earlier store is known.
        for (; i + 4 <= size; i += 4) {
            Lanes sums[4];
            for (int part = 0; part < 4; ++part) sums[part] = margins[places[i + part]] + values[i + part] * weight;
            for (int part = 0; part < 4; ++part) margins[places[i + part]] = sums[part];
        }
        for (; i < size; ++i) margins[places[i]] += values[i] * weight;
    });
}

void RowBlocks::add_gradients(std::int64_t block, const Lanes* slopes, Lanes* gradients) const {
    for_each_run(block, [&](std::int32_t feature, const std::uint16_t* places, const float* values, std::int32_t size) {
        Lanes even = gradients[feature];
        Lanes odd{};
        std::int32_t i = 0;
        for (; i + 2 <= size; i += 2) {
            even += values[i] * slopes[places[i]];
            odd += values[i + 1] * slopes[places[i + 1]];
        }
        if (i < size) even += values[i] * slopes[places[i]];
        gradients[feature] = even + odd;
    });
}

}  // namespace longtail::linear
