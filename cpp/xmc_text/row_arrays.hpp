#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>

#include "xmc_text/growing_array.hpp"
#include "xmc_text/row_parser.hpp"

namespace longtail {

// What a text holds: rows x features with values, rows x labels without.
struct TextRows {
    std::int64_t n_rows = 0;
    std::int64_t n_features = 0;
    std::int64_t n_labels = 0;
    GrowingArray<std::int64_t> feature_indptr;
    GrowingArray<std::int32_t> feature_indices;
    GrowingArray<float> feature_values;
    GrowingArray<std::int64_t> label_indptr;
    GrowingArray<std::int32_t> label_indices;
};

// The arrays under construction. Blocks take their places one after the other, in the order of the text, but copy their
// rows there several at a time; growth waits for the copies under way.
class RowArrays {
public:
    RowArrays();

    // Begin a new sequence of blocks, numbered from 0.
    void begin_sequence();
    // Wait for block number `turn`'s turn and append its first admit(block) rows. `admit` sees the blocks in order, and
    // may throw to end the sequence. False when an earlier block ended it.
    bool append(std::int64_t turn, const RowBlock& block, const std::function<std::int64_t(const RowBlock&)>& admit);
    // End the sequence: those who wait for their turn give up. True for the first who asks.
    bool stop();

    // Lay out room for `scale` times what is there already when the arrays must grow next.
    void expect_growth(double scale) { expected_scale_ = scale; }

    std::int64_t n_rows() const { return rows_.n_rows; }
    TextRows release();

private:
    template <class T>
    void make_room(GrowingArray<T>& array, std::int64_t n_more);

    TextRows rows_;
    double expected_scale_ = 1.5;
    std::mutex turn_mutex_;
    std::condition_variable turn_changed_;
    std::int64_t turn_ = 0;
    bool is_stopped_ = false;
    std::shared_mutex arrays_mutex_;
};

}  // namespace longtail
