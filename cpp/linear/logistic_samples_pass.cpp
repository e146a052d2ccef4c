// The pass over all rows: the gradient of every lane, and the rows of its sample.

#include <algorithm>
#include <bit>
#include <cmath>

#include "linear/logistic_samples.hpp"
#include "linear/losses.hpp"
#include "linear/transpose.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kAhead = 32;  // lines of a table that is not cached are fetched so many entries ahead

// Fetch the lines of the entries that come kAhead places after those of a row. Inlined by force: GCC takes a function
// that only fetches for one without effects, and drops calls of it.
[[gnu::always_inline]] inline void prefetch_lines(const SparseRows& rows, std::int64_t row, const Lanes* table) {
    const CsrView& view = rows.view();
    const std::int64_t end = std::min(view.indptr[row + 1] + kAhead, rows.n_stored());
    for (std::int64_t i = view.indptr[row] + kAhead; i < end; ++i) {
        const Lanes* const lines = table + 2 * static_cast<std::int64_t>(view.indices[i]);
        __builtin_prefetch(lines);
        __builtin_prefetch(lines + 1);
    }
}

}  // namespace

// One pass over all rows: the gradient and a sample in all lanes.
void LogisticSampleTrainer::pass() {
    positives_.assign(lanes_, rows_.n_rows());
    write_weights();
    for (Lane& lane : lanes_) lane.drawn.clear();
    losses_ = {};
    bias_slopes_ = {};
    config_.keep_history ? pass_rows<true>() : pass_rows<false>();
    losses_.flush();
    bias_slopes_.flush();
    read_gradients();
}

template <bool kWithLosses>
void LogisticSampleTrainer::pass_rows() {
    if (blocks_)
        pass_by_blocks<kWithLosses>();
    else if (is_cached_)
        pass_by_rows<kWithLosses, 1>();
    else
        pass_by_rows<kWithLosses, 2>();
}

// What the bias adds to all margins.
Lanes LogisticSampleTrainer::bias_margins() const {
    Lanes margins{};
    for (int at = 0; at < kLanes; ++at)
        if (lanes_[at].is_busy) margins[at] = lanes_[at].weights.back() * config_.bias;
    return margins;
}

template <bool kWithLosses>
void LogisticSampleTrainer::pass_by_blocks() {
    AlignedVector<Lanes> of_rows(RowBlocks::kRows);  // margins, then slopes
    const Lanes biases = bias_margins();
    std::size_t cursor = 0;
    for (std::int64_t block = 0; block < blocks_->size(); ++block) {
        control_.throw_if_stopped();
        const std::int64_t begin = block * RowBlocks::kRows;
        const std::int64_t n_rows = std::min(RowBlocks::kRows, rows_.n_rows() - begin);
        std::fill(of_rows.begin(), of_rows.end(), biases);
        blocks_->add_margins(block, table_.data(), of_rows.data());
        for (std::int64_t i = 0; i < n_rows; ++i) of_rows[i] = slopes_at<kWithLosses>(begin + i, of_rows[i], cursor);
        blocks_->add_gradients(block, of_rows.data(), gradients_);
    }
}

// Row by row: the slopes of one are computed while the weights of the next are fetched.
template <bool kWithLosses, int kStride>
void LogisticSampleTrainer::pass_by_rows() {
    const Lanes* const table = table_.data();
    Lanes* const gradients = gradients_;
    const Lanes biases = bias_margins();
    std::size_t cursor = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        if constexpr (kStride == 2) prefetch_lines(rows_, row, table);
        Lanes margins = biases;
        rows_.template lane_dots<1, kStride>(row, table, &margins);
        const Lanes slopes = slopes_at<kWithLosses>(row, margins, cursor);
        rows_.template lane_add<kStride>(row, slopes, gradients);
    }
}

// The slopes of a row's losses. Rows come in order, and lanes that draw one note it.
template <bool kWithLosses>
[[gnu::always_inline]] inline Lanes LogisticSampleTrainer::slopes_at(std::int64_t row, const Lanes& margins,
                                                                     std::size_t& cursor) {
    constexpr auto kSizeOfCurvature = static_cast<float>(1.0 / kSampledCurvature);
    const Lanes ones = Lanes{} + 1.0F;
    const Lanes small = exp_minus(abs_lanes(margins));
    const Lanes inverse = 1.0F / (1.0F + small);
    Lanes slopes = select(margins > 0.0F, ones, small) * inverse;
    Lanes size = small * inverse * inverse * negative_costs_ * (kSizeOfCurvature * squares_[row]);
    Lanes values{};
    if constexpr (kWithLosses) values = max_lanes(margins, Lanes{}) + log_one_plus(small);
    Lanes costs = negative_costs_;
    if (positives_.has(row, cursor)) {
        const std::uint32_t bits = positives_.take(row, cursor);
        slopes = choose(bits, slopes - ones, slopes);
        if constexpr (kWithLosses) values = choose(bits, values - margins, values);
        costs = choose(bits, positive_costs_, costs);
        size = choose(bits, Lanes{}, size);  // positives are in every sample
    }
    if (!labels_.row_weights.empty()) {
        costs *= labels_.row_weights[row];
        size *= labels_.row_weights[row];
    }
    slopes *= costs;
    if constexpr (kWithLosses) losses_.add(costs * values);
    bias_slopes_.add(slopes);
    const std::uint32_t is_drawn = bits_greater(size, Lanes{} + thresholds_[row]);
    if (is_drawn == 0) return slopes;
    float of_lanes[2][kLanes];
    store(margins, of_lanes[0]);
    store(size, of_lanes[1]);
    for (std::uint32_t bits = is_drawn; bits != 0; bits &= bits - 1) {
        const int at = std::countr_zero(bits);
        lanes_[at].drawn.push_back({static_cast<std::int32_t>(row), of_lanes[0][at], of_lanes[1][at]});
    }
    return slopes;
}

// Keep about so many rows of a sample that stands for more than that.
void LogisticSampleTrainer::thin(std::vector<Drawn>& drawn, double most) const {
    double total = 0.0;
    for (const Drawn& row : drawn) total += std::max(1.0F, row.size);
    if (total <= most) return;
    const auto scale = static_cast<float>(most / total);
    std::erase_if(drawn, [&](Drawn& row) {
        row.size *= scale;
        return row.size <= thresholds_[row.row_id];
    });
}

// Weights into the table, sixteen features at a time, and zeros for the gradient.
void LogisticSampleTrainer::write_weights() {
    float* const table = reinterpret_cast<float*>(table_.data());
    const std::int64_t stride = is_cached_ ? 1 : 2;
    const float zeros[kLanes] = {};
    const float* weights[kLanes];
    for (int at = 0; at < kLanes; ++at) weights[at] = lanes_[at].weights.data();
    const std::int64_t n_features = rows_.n_features();
    std::int64_t f = 0;
    for (; f + kLanes <= n_features; f += kLanes) {
        transpose([&](int at) { return lanes_[at].is_busy ? weights[at] + f : zeros; },
                  [&](int part) { return table + (f + part) * stride * kLanes; });
        for (int part = 0; part < kLanes; ++part) gradients_[(f + part) * stride] = Lanes{};
    }
    for (; f < n_features; ++f) {
        for (int at = 0; at < kLanes; ++at)
            table[f * stride * kLanes + at] = lanes_[at].is_busy ? weights[at][f] : 0.0F;
        gradients_[f * stride] = Lanes{};
    }
}

void LogisticSampleTrainer::read_gradients() {
    const float* const table = reinterpret_cast<const float*>(gradients_);
    const std::int64_t stride = is_cached_ ? 1 : 2;
    float* gradients[kLanes];
    for (int at = 0; at < kLanes; ++at) gradients[at] = lanes_[at].gradient.data();
    const std::int64_t n_features = rows_.n_features();
    std::int64_t f = 0;
    for (; f + kLanes <= n_features; f += kLanes)
        transpose([&](int part) { return table + (f + part) * stride * kLanes; },
                  [&](int at) { return gradients[at] + f; });
    for (; f < n_features; ++f)
        for (int at = 0; at < kLanes; ++at) gradients[at][f] = table[f * stride * kLanes + at];
    for (int at = 0; at < kLanes; ++at) {
        lanes_[at].slope_sum = bias_slopes_.total[at];
        lanes_[at].gradient.back() = static_cast<float>(bias_slopes_.total[at] * config_.bias);
    }
}

}  // namespace longtail::linear
