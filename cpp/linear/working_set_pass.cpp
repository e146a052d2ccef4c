// The pass over all rows, for the labels of all lanes at once.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

constexpr std::size_t kStartCandidates = 8192;
constexpr std::size_t kMinCandidates = 512;     // besides the working set's own: many more than join it in a round
constexpr double kUnitRoundoff = 6e-8;          // of float32
constexpr std::size_t kCachedBytes = 1U << 20;  // rounded weights up to this size stay in the second-level cache
constexpr int kFetchAhead = 24;
constexpr float kNever = std::numeric_limits<float>::infinity();

// The first multiple of kLanes from `at` on, itself a multiple, where the next sixteen entries are not all zero.
std::int64_t skip_zeros(const float* values, std::int64_t at, std::int64_t n) {
    for (; at + kLanes <= n; at += kLanes) {
        Lanes entries;
        load(entries, values + at);
        if ((bits_greater(entries, Lanes{}) | bits_greater(Lanes{}, entries)) != 0) break;
    }
    return at;
}

}  // namespace

// One pass over all rows for all lanes: what may lie above a lane's floor becomes its candidate.
template <class Rows>
void WorkingSetTrainer<Rows>::scan() {
    bool is_used[kPairs] = {};
    for (int at = 0; at < kWidth; ++at) {
        Lane& lane = lanes_[at];
        lane.candidates.clear();
        lane.max_candidates = (lane.at_start ? kStartCandidates : kMinCandidates) + 2 * lane.problem.row_ids.size();
        lane.truncated = false;
        lane.floor = -kNever;
        lane.unlisted_loss = 0.0;
        lane.n_unlisted = 0;
        is_used[at / kPairWidth] = is_used[at / kPairWidth] || lane.label >= 0;
    }
    const bool is_large = rounded_.size() * sizeof(RoundedPairs) > kCachedBytes;
    if (is_used[0] && is_used[1])
        is_large ? scan_rows<kPairs, kFetchAhead>(0) : scan_rows<kPairs, 0>(0);
    else
        is_large ? scan_rows<1, kFetchAhead>(is_used[0] ? 0 : 1) : scan_rows<1, 0>(is_used[0] ? 0 : 1);
}

template <class Rows>
template <int kUsedPairs, int kAhead>
void WorkingSetTrainer<Rows>::scan_rows(int first_pair) {
    constexpr int kUsedBlocks = 2 * kUsedPairs;
    const int first_block = 2 * first_pair;
    bool uses_shared = false;
    for (const Lane& lane : lanes_)
        uses_shared = uses_shared || (lane.label >= 0 && lane.at_start && lane.start.shared_scale != 0.0);
    const float* shared_margins = starter_.shared_margins().data();
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        Lanes margins[kUsedBlocks];
        const float shared = uses_shared ? shared_margins[row] : 0.0F;
        for (int block = 0; block < kUsedBlocks; ++block)
            margins[block] = biases_[first_block + block] + shared * shared_scales_[first_block + block] +
                             row_norms_[row] * roundings_[first_block + block];
        rows_.template rounded_dots<kUsedPairs, kPairs, kAhead>(row, rounded_.data() + first_pair, margins);
        for (int block = 0; block < kUsedBlocks; ++block) {
            std::uint32_t above = bits_greater(margins[block], floors_[first_block + block]);
            if (above == 0) continue;
            float found[kLanes];
            store(margins[block], found);
            for (; above != 0; above &= above - 1) {
                const int lane = std::countr_zero(above);
                report((first_block + block) * kLanes + lane, static_cast<std::int32_t>(row), found[lane]);
            }
        }
    }
}

// Keep a candidate; of too many to keep only the worst, which alone can join the working set in this round.
template <class Rows>
void WorkingSetTrainer<Rows>::report(int at, std::int32_t row, float margin) {
    Lane& lane = lanes_[at];
    if (margin <= lane.floor) {
        leave_unlisted(lane, {row, margin});
        return;
    }
    lane.candidates.push_back({row, margin});
    if (lane.candidates.size() < 2 * lane.max_candidates) return;
    const auto last = lane.candidates.begin() + static_cast<std::ptrdiff_t>(lane.max_candidates) - 1;
    std::nth_element(lane.candidates.begin(), last, lane.candidates.end(), is_worse);
    lane.floor = last->margin;  // the mildest that is kept
    if (config_.keep_history)
        std::for_each(last + 1, lane.candidates.end(), [&](const Candidate& c) { leave_unlisted(lane, c); });
    else
        floors_[at / kLanes][at % kLanes] = lane.floor;
    lane.candidates.resize(lane.max_candidates);
    lane.truncated = true;
}

template <class Rows>
void WorkingSetTrainer<Rows>::write_lane(Lane& lane, int at) {
    for (const std::int32_t feature : lane.support)
        if (lane.weights[feature] == 0.0F) rounded(feature, at).set(at % kPairWidth, 0.0F);
    lane.support.clear();
    double error = 0.0;
    double square = 0.0;
    for (std::int64_t feature = 0; feature < rows_.n_features(); ++feature) {
        if (feature % kLanes == 0)  // sets of many features have few weights: skip sixteen zeros at a time
            feature = skip_zeros(lane.weights.data(), feature, rows_.n_features());
        if (feature >= rows_.n_features()) break;
        const float weight = lane.weights[feature];
        if (weight == 0.0F) continue;
        const double lost = static_cast<double>(weight) - rounded(feature, at).set(at % kPairWidth, weight);
        error += lost * lost;
        square += static_cast<double>(weight) * weight;
        lane.support.push_back(static_cast<std::int32_t>(feature));
    }
    // The second part bounds the rounding of the sums: kUnitRoundoff for each term of the longest row.
    const double sums = kUnitRoundoff * static_cast<double>(max_row_size_ + 4) *
                        (std::sqrt(square) + std::abs(static_cast<double>(lane.weights.back())));
    lane.rounding = static_cast<float>(1.0001 * std::sqrt(error) + sums);
    roundings_[at / kLanes][at % kLanes] = lane.rounding;
    biases_[at / kLanes][at % kLanes] = lane.weights.back() * config_.bias;
}

template <class Rows>
void WorkingSetTrainer<Rows>::clear_lane(Lane& lane, int at) {
    for (const std::int32_t feature : lane.support) rounded(feature, at).set(at % kPairWidth, 0.0F);
    lane.support.clear();
    lane.label = -1;
    for (Lanes* parts : {biases_, shared_scales_, roundings_}) parts[at / kLanes][at % kLanes] = 0.0F;
    floors_[at / kLanes][at % kLanes] = kNever;
}

template void WorkingSetTrainer<SparseRows>::scan();
template void WorkingSetTrainer<DenseRows>::scan();
template void WorkingSetTrainer<SparseRows>::report(int, std::int32_t, float);
template void WorkingSetTrainer<DenseRows>::report(int, std::int32_t, float);
template void WorkingSetTrainer<SparseRows>::write_lane(Lane&, int);
template void WorkingSetTrainer<DenseRows>::write_lane(Lane&, int);
template void WorkingSetTrainer<SparseRows>::clear_lane(Lane&, int);
template void WorkingSetTrainer<DenseRows>::clear_lane(Lane&, int);

}  // namespace longtail::linear
