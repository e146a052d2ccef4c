#pragma once

// X in blocks of 512 rows, feature by feature: for passes that move the weights of sixteen labels.
//
// A row that is read by itself fetches a cache line of weights for each of its words, and one of gradients. A table of a few
// thousand features is in the second-level cache, so that this is what a pass takes its time for. A block fetches them
// once for each of its features, and for each word the margins or slopes of a row: those of 512 rows are in the first-level
// cache.

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "linear/lanes.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

// A run is a feature of a block, and the rows that have it. The longest runs of a block come first: runs of one
// length then follow each other, and the processor can tell where the loop over a run ends.
struct RowBlocksView {
    std::span<const std::int32_t> features;  // of each run,
    std::span<const std::int32_t> sizes;     // and in how many rows of its block
    std::span<const std::int64_t> begins;    // of each block's runs, and the end
    std::span<const std::uint16_t> places;   // of the entries' rows in their block
    std::span<const float> values;
};

struct RowBlockParts {
    std::vector<std::int32_t> features;
    std::vector<std::int32_t> sizes;
    std::vector<std::int64_t> begins;
    std::vector<std::uint16_t> places;
    std::vector<float> values;

    explicit RowBlockParts(const SparseRows& rows);
    RowBlocksView view() const { return {features, sizes, begins, places, values}; }
};

class RowBlocks {
public:
    static constexpr std::int64_t kRows = 512;

    RowBlocks(const SparseRows& rows, const RowBlocksView& parts) : rows_(rows), parts_(parts) {}

    // Whether a block has most features many times.
    static bool suits(const SparseRows& rows);

    std::int64_t size() const { return std::ssize(parts_.begins) - 1; }

    // margins[i] += x_i · weights for the rows of a block, in all lanes.
    void add_margins(std::int64_t block, const Lanes* weights, Lanes* margins) const;

    // gradients += Σ slopes[i] x_i over the rows of a block.
    void add_gradients(std::int64_t block, const Lanes* slopes, Lanes* gradients) const;

private:
    template <class Visit>
    void for_each_run(std::int64_t block, const Visit& visit) const;

    const SparseRows& rows_;
    RowBlocksView parts_;
};

}  // namespace longtail::linear
