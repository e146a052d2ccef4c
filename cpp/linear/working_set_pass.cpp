// The pass over all rows, for the labels of all lanes at once.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "linear/lane_sum.hpp"
#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

constexpr std::size_t kStartCandidates = 8192;
constexpr std::size_t kMinCandidates = 512;      // besides the working set's own: many more than join it in a round
constexpr std::size_t kMinRoughCandidates = 64;  // the same for rough solutions, which need no rows near their margin
constexpr double kUnitRoundoff = 6e-8;           // of float32
constexpr std::size_t kCachedBytes = 1U << 20;   // rounded weights up to this size stay in the second-level cache
constexpr int kFetchAhead = 24;
constexpr float kNever = std::numeric_limits<float>::infinity();

}  // namespace

// One pass over all rows for all lanes: what may lie above a lane's floor becomes its candidate.
template <class Rows>
void WorkingSetTrainer<Rows>::scan() {
    bool is_used[kPairs] = {};
    for (int at = 0; at < kWidth; ++at) {
        Lane& lane = lanes_[at];
        const std::size_t n_members = lane.problem.row_ids.size();
        lane.max_candidates = lane.at_start       ? kStartCandidates
                              : rough_ != nullptr ? kMinRoughCandidates + n_members
                                                  : kMinCandidates + 2 * n_members;
        lane.candidates.resize(2 * lane.max_candidates);
        slots_[at] = {lane.candidates.data(), lane.candidates.data() + lane.candidates.size()};
        lane.truncated = false;
        lane.floor = -kNever;
        lane.unlisted_loss = 0.0;
        lane.n_unlisted = 0;
        is_used[at / kPairWidth] = is_used[at / kPairWidth] || lane.label >= 0;
    }
    write_lanes();
    const bool is_large = rounded_.size() * sizeof(RoundedPairs) > kCachedBytes;
    if (is_used[0] && is_used[1])
        is_large ? scan_rows<kPairs, kFetchAhead>(0) : scan_rows<kPairs, 0>(0);
    else
        is_large ? scan_rows<1, kFetchAhead>(is_used[0] ? 0 : 1) : scan_rows<1, 0>(is_used[0] ? 0 : 1);
    for (int at = 0; at < kWidth; ++at)
        lanes_[at].candidates.resize(static_cast<std::size_t>(slots_[at].next - lanes_[at].candidates.data()));
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

template <class Rows>
void WorkingSetTrainer<Rows>::report(int at, std::int32_t row, float margin) {
    // Statistics want rows below the floor of a lane with too many candidates; otherwise a pass leaves them out.
    if (keeps_history() && margin <= lanes_[at].floor) {
        leave_unlisted(lanes_[at], {row, margin});
        return;
    }
    Slot& slot = slots_[at];
    *slot.next++ = {row, margin};
    if (slot.next == slot.end) keep_worst(lanes_[at], at);
}

// Of too many candidates keep the worst, which alone can join the working set in this round.
template <class Rows>
void WorkingSetTrainer<Rows>::keep_worst(Lane& lane, int at) {
    const auto last = lane.candidates.begin() + static_cast<std::ptrdiff_t>(lane.max_candidates) - 1;
    std::nth_element(lane.candidates.begin(), last, lane.candidates.end(), is_worse);
    lane.floor = last->margin;  // the mildest that is kept
    if (keeps_history())
        std::for_each(last + 1, lane.candidates.end(), [&](const Candidate& c) { leave_unlisted(lane, c); });
    else
        floors_[at / kLanes][at % kLanes] = lane.floor;
    slots_[at].next = lane.candidates.data() + lane.max_candidates;
    lane.truncated = true;
}

// Round the weights of all lanes: sixteen features after another for all lanes at once, which share their cache lines.
template <class Rows>
void WorkingSetTrainer<Rows>::write_lanes() {
    const std::int64_t n_features = rows_.n_features();
    const std::int64_t n_blocks = (n_features + kLanes - 1) / kLanes;
    std::vector<int> busy;
    for (int at = 0; at < kWidth; ++at)
        if (lanes_[at].label >= 0) busy.push_back(at);
    std::vector<LaneSum> errors(kWidth);
    std::vector<LaneSum> squares(kWidth);
    for (std::int64_t block = 0; block < n_blocks; ++block) {
        const std::int64_t first = block * kLanes;
        const int n = static_cast<int>(std::min<std::int64_t>(kLanes, n_features - first));
        for (const int at : busy) {
            Lane& lane = lanes_[at];
            float weights[kLanes] = {};
            std::copy(lane.weights.data() + first, lane.weights.data() + first + n, weights);
            Lanes exact;
            load(exact, weights);
            const bool is_zero = (bits_greater(exact, Lanes{}) | bits_greater(Lanes{}, exact)) == 0;
            if (is_zero && lane.is_written[block] == 0) continue;
            lane.is_written[block] = is_zero ? 0 : 1;
            std::uint32_t words[kLanes];
            std::memcpy(words, weights, sizeof(words));
            for (std::uint32_t& word : words) word = RoundedPairs::round_bits(word);
            for (int i = 0; i < n; ++i) rounded(first + i, at).set_bits(at % kPairWidth, words[i]);
            std::memcpy(weights, words, sizeof(words));
            // Zeros would move the ends of the sums' parts, and their rounding: an earlier label must not show here.
            if (is_zero) continue;
            Lanes stored;
            load(stored, weights);
            const Lanes lost = exact - stored;
            errors[at].add(lost * lost);
            squares[at].add(exact * exact);
        }
    }
    for (const int at : busy) {
        Lane& lane = lanes_[at];
        // The second part bounds the rounding of the sums: kUnitRoundoff for each term of the longest row.
        const double sums = kUnitRoundoff * static_cast<double>(max_row_size_ + 4) *
                            (std::sqrt(squares[at].whole()) + std::abs(static_cast<double>(lane.weights.back())));
        lane.rounding = static_cast<float>(1.0001 * std::sqrt(errors[at].whole()) + sums);
        roundings_[at / kLanes][at % kLanes] = lane.rounding;
        biases_[at / kLanes][at % kLanes] = lane.weights.back() * config_.bias;
    }
}

// What an empty lane has in the rounded weights stays: nothing is above its floor.
template <class Rows>
void WorkingSetTrainer<Rows>::clear_lane(Lane& lane, int at) {
    lane.label = -1;
    for (Lanes* parts : {biases_, shared_scales_, roundings_}) parts[at / kLanes][at % kLanes] = 0.0F;
    floors_[at / kLanes][at % kLanes] = kNever;
}

template void WorkingSetTrainer<SparseRows>::scan();
template void WorkingSetTrainer<DenseRows>::scan();
template void WorkingSetTrainer<SparseRows>::report(int, std::int32_t, float);
template void WorkingSetTrainer<DenseRows>::report(int, std::int32_t, float);
template void WorkingSetTrainer<SparseRows>::keep_worst(Lane&, int);
template void WorkingSetTrainer<SparseRows>::write_lanes();
template void WorkingSetTrainer<DenseRows>::keep_worst(Lane&, int);
template void WorkingSetTrainer<DenseRows>::write_lanes();
template void WorkingSetTrainer<SparseRows>::clear_lane(Lane&, int);
template void WorkingSetTrainer<DenseRows>::clear_lane(Lane&, int);

}  // namespace longtail::linear
