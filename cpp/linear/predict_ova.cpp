#include "linear/predict_ova.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "base/aligned.hpp"
#include "base/parallel_for.hpp"
#include "linear/best_labels.hpp"
#include "linear/best_value_lanes.hpp"
#include "linear/lanes.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kRowsPerCheck = 64;
constexpr std::int64_t kMaxRowsPerTask = 4096;
constexpr int kBlocks = kLabelBlocks;
constexpr std::int64_t kWidth = kBlocks * kLanes;

// What decides between the two ways, in units of one weight added to one label's score (about half a nanosecond).
constexpr double kCostOfLanes = kLaneRegisters;  // sixteen weights of a dense block times a value
constexpr double kCostOfMask = 4.0;              // sixteen labels of a feature with masks
constexpr double kCostOfFilling = 4.0;           // one weight into a dense block
constexpr double kCostOfClearing = 1.0;          // sixteen zeros of a dense block

// Both ways add up a label's score in the order of the row's features, one sum a label: their results are the same
// to the last bit, and a row's labels do not depend on its batch.
class Scores {
public:
    explicit Scores(const OvaIndex& index) : index_(index), n_padded_((index.n_labels + kWidth - 1) / kWidth * kWidth) {
        first_.assign(static_cast<std::size_t>(n_padded_), kNeverBest);
        for (std::int64_t label = 0; label < index.n_labels; ++label)
            if (index.counts[label] > 0) first_[label] = index.biases[label] + 0.0F;  // no negative zero
        if (!is_coded()) return;
        scales_.assign(static_cast<std::size_t>(n_padded_), 0.0F);
        std::copy(index.scales.begin(), index.scales.end(), scales_.begin());
    }

    bool is_coded() const { return !index_.scales.empty(); }  // not by the weights: pruning may leave none
    std::int64_t n_padded() const { return n_padded_; }
    const AlignedVector<float>& first() const { return first_; }

    // What the sums of sixteen labels begin with.
    void begin(std::int64_t label, Lanes& sums) const {
        if (is_coded())
            sums = Lanes{};
        else
            load(sums, first_.data() + label);
    }
    // Turn the sums into scores.
    void finish(std::int64_t label, Lanes& sums) const {
        if (!is_coded()) return;
        Lanes scale;
        Lanes first;
        load(scale, scales_.data() + label);
        load(first, first_.data() + label);
        sums = first + sums * scale;
    }

private:
    const OvaIndex& index_;
    std::int64_t n_padded_;  // with labels that never win
    AlignedVector<float> first_;
    AlignedVector<float> scales_;
};

// For few rows: each feature of the row adds its list of weights to the scores of all labels. `Best` keeps the best
// labels of a row: BestLabels or BestValues.
template <class Best>
class RowScorer {
public:
    RowScorer(const OvaIndex& index, const Scores& scores, const Best& best)
        : index_(index), scores_(scores), sums_(static_cast<std::size_t>(scores.n_padded())), best_(best) {}

    template <class Rows, class Out>
    void predict(const Rows& rows, std::int64_t row, std::int64_t top_k, Out& out) {
        if (scores_.is_coded()) {
            std::fill(sums_.begin(), sums_.end(), 0.0F);
            add_row(rows, row, index_.codes.data());
        } else {
            std::copy(scores_.first().begin(), scores_.first().end(), sums_.begin());
            add_row(rows, row, index_.weights.data());
        }
        best_.clear();
        for (std::int64_t first_label = 0; first_label < scores_.n_padded(); first_label += kWidth) {
            Lanes sums[kBlocks];
            for (int part = 0; part < kBlocks; ++part) {
                load(sums[part], sums_.data() + first_label + part * kLanes);
                scores_.finish(first_label + part * kLanes, sums[part]);
            }
            best_.offer(sums, first_label, static_cast<std::size_t>(top_k));
        }
        best_.write(out, row, top_k);
    }

private:
    template <class Rows, class Weight>
    void add_row(const Rows& rows, std::int64_t row, const Weight* weights) {
        std::int32_t feature_before = -1;
        float value_before = 0.0F;
        // One feature behind, so that the next one's weights are on their way.
        rows.for_each(row, [&](std::int32_t feature, float value) {
            if (value == 0.0F) return;
            if (feature_before >= 0) add_feature(feature_before, value_before, weights, feature);
            feature_before = feature;
            value_before = value;
        });
        if (feature_before >= 0) add_feature(feature_before, value_before, weights, feature_before);
    }

    template <class Weight>
    void add_feature(std::int32_t feature, float value, const Weight* weights, std::int32_t next_feature) {
        if (!index_.exact_indptr.empty())
            add_listed(index_.exact_label_ids.data(), index_.exact_weights.data(), index_.exact_indptr[feature],
                       index_.exact_indptr[feature + 1], value);
        const std::int64_t first = index_.indptr[feature];
        const std::int64_t last = index_.indptr[feature + 1];
#if defined(__AVX512F__)
        if (!index_.masks.places.empty() && index_.masks.places[feature] >= 0) {
            add_masked(feature, value, weights + first, weights + index_.indptr[next_feature]);
            return;
        }
#endif
        (void)next_feature;
        add_listed(index_.label_ids.data(), weights, first, last, value);
    }

#if defined(__AVX512F__)
    static Lanes spread(std::uint16_t mask, const float* weights) {
        return reinterpret_cast<Lanes>(_mm512_maskz_expandloadu_ps(mask, weights));
    }
    static Lanes spread(std::uint16_t mask, const std::int8_t* codes) {
        const auto n_codes = static_cast<unsigned>(std::popcount(mask));
        const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1U << n_codes) - 1U), codes);
        constexpr __mmask16 kAll = 0xFFFF;  // GCC 12 warns of its own header where no mask is given
        const __m512 packed = _mm512_maskz_cvtepi32_ps(kAll, _mm512_maskz_cvtepi8_epi32(kAll, bytes));
        return reinterpret_cast<Lanes>(_mm512_maskz_expand_ps(mask, packed));
    }

    template <class Weight>
    void add_masked(std::int32_t feature, float value, const Weight* weights, const Weight* next_weights) {
        constexpr std::int64_t kAhead = 64 / sizeof(Weight);
        const std::int64_t width = (index_.n_labels + kLanes - 1) / kLanes;
        const std::uint16_t* const masks = index_.masks.masks.data() + index_.masks.places[feature] * width;
        float* sums = sums_.data();
        for (std::int64_t at = 0; at < width; ++at, sums += kLanes) {
            if (at % 2 == 0) __builtin_prefetch(next_weights + at / 2 * kAhead);
            Lanes lanes;
            load(lanes, sums);
            lanes += value * spread(masks[at], weights);
            store(lanes, sums);
            weights += std::popcount(masks[at]);
        }
    }
#endif

    template <class Weight>
    void add_listed(const std::int32_t* label_ids, const Weight* weights, std::int64_t first, std::int64_t last,
                    float value) {
        // Products and sums are fused, as in blocks of rows: the bits are the same.
        for (std::int64_t i = first; i < last; ++i) sums_[label_ids[i]] += value * static_cast<float>(weights[i]);
    }

    const OvaIndex& index_;
    const Scores& scores_;
    AlignedVector<float> sums_;
    Best best_;
};

// For many rows: the weights of 64 labels at a time are laid out densely, where they stay in the cache while all rows
// pass; sums stay in registers. Costs n_features × 64 floats of memory, and reads the index once for all rows.
template <class Best>
class BlockScorer {
public:
    BlockScorer(const OvaIndex& index, const Scores& scores, const Best& best)
        : index_(index), scores_(scores), no_labels_(best) {}

    template <class Rows, class Out>
    void predict(const Rows& rows, std::int64_t first_row, std::int64_t last_row, std::int64_t top_k, Out& out,
                 Control& control) {
        cursors_.assign(index_.indptr.begin(), index_.indptr.end() - 1);
        if (!index_.exact_indptr.empty())
            exact_cursors_.assign(index_.exact_indptr.begin(), index_.exact_indptr.end() - 1);
        block_.resize(static_cast<std::size_t>(rows.n_features() * kBlocks));
        best_.resize(static_cast<std::size_t>(last_row - first_row), no_labels_);
        for (Best& best : best_) best.clear();
        for (std::int64_t first_label = 0; first_label < index_.n_labels; first_label += kWidth) {
            if (scores_.is_coded())
                fill(first_label, index_.codes.data());
            else
                fill(first_label, index_.weights.data());
            for (std::int64_t row = first_row; row < last_row; ++row) {
                if (row % kRowsPerCheck == 0) control.throw_if_stopped();
                offer(rows, row, first_label, static_cast<std::size_t>(top_k),
                      best_[static_cast<std::size_t>(row - first_row)]);
            }
        }
        for (std::int64_t row = first_row; row < last_row; ++row)
            best_[static_cast<std::size_t>(row - first_row)].write(out, row, top_k);
    }

private:
    template <class Weight>
    void fill(std::int64_t first_label, const Weight* weights) {
        std::fill(block_.begin(), block_.end(), Lanes{});
        float* places = reinterpret_cast<float*>(block_.data()) - first_label;
        for (std::size_t feature = 0; feature < cursors_.size(); ++feature, places += kWidth) {
            std::int64_t i = cursors_[feature];
            const std::int64_t last = index_.indptr[feature + 1];
            for (; i < last && index_.label_ids[i] < first_label + kWidth; ++i)
                places[index_.label_ids[i]] = static_cast<float>(weights[i]);
            cursors_[feature] = i;
        }
        if (!index_.exact_indptr.empty()) fill_exact(first_label);
    }

    // A code of 0 gives way to the exact weight.
    void fill_exact(std::int64_t first_label) {
        float* places = reinterpret_cast<float*>(block_.data()) - first_label;
        for (std::size_t feature = 0; feature < exact_cursors_.size(); ++feature, places += kWidth) {
            std::int64_t i = exact_cursors_[feature];
            const std::int64_t last = index_.exact_indptr[feature + 1];
            for (; i < last && index_.exact_label_ids[i] < first_label + kWidth; ++i)
                places[index_.exact_label_ids[i]] = index_.exact_weights[i];
            exact_cursors_[feature] = i;
        }
    }

    template <class Rows>
    void offer(const Rows& rows, std::int64_t row, std::int64_t first_label, std::size_t top_k, Best& best) const {
        Lanes sums[kBlocks];
        for (int part = 0; part < kBlocks; ++part) scores_.begin(first_label + part * kLanes, sums[part]);
        const Lanes* const block = block_.data();
        rows.for_each(row, [&](std::int32_t feature, float value) {
            const Lanes* const weights = block + static_cast<std::int64_t>(feature) * kBlocks;
            for (int part = 0; part < kBlocks; ++part) sums[part] += value * weights[part];
        });
        for (int part = 0; part < kBlocks; ++part) scores_.finish(first_label + part * kLanes, sums[part]);
        best.offer(sums, first_label, top_k);
    }

    const OvaIndex& index_;
    const Scores& scores_;
    std::vector<std::int64_t> cursors_;        // of each feature: its first weight that is not yet used,
    std::vector<std::int64_t> exact_cursors_;  // and its first exact one
    AlignedVector<Lanes> block_;
    Best no_labels_;
    std::vector<Best> best_;
};

// Whether dense blocks are cheaper for this many rows.
template <class Rows>
bool prefers_blocks(const OvaIndex& index, const Scores& scores, const Rows& rows, std::int64_t n_batches) {
    const double n_lanes = static_cast<double>(scores.n_padded() / kLanes);
    double one_by_one = 0.0;
    double n_values = 0.0;
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) {
            const bool has_mask = !index.masks.places.empty() && index.masks.places[feature] >= 0;
            one_by_one += has_mask ? kCostOfMask * n_lanes
                                   : static_cast<double>(index.indptr[feature + 1] - index.indptr[feature]);
            n_values += 1.0;
        });
    const double filling = kCostOfFilling * static_cast<double>(index.indptr.back()) +
                           kCostOfClearing * n_lanes * static_cast<double>(rows.n_features());
    return static_cast<double>(n_batches) * filling + kCostOfLanes * n_lanes * n_values < one_by_one;
}

template <class Rows, class Best, class Out>
void predict(const OvaIndex& index, const Rows& rows, const Best& best, std::int64_t top_k, Out& out, int n_threads,
             Control& control) {
    out.label_ids.resize(static_cast<std::size_t>(rows.n_rows() * top_k));
    out.scores.resize(out.label_ids.size());
    const Scores scores(index);
    const std::int64_t n_rows = rows.n_rows();
    const std::int64_t rows_per_task =
        std::clamp<std::int64_t>((n_rows + n_threads - 1) / n_threads, 1, kMaxRowsPerTask);
    const std::int64_t n_tasks = (n_rows + rows_per_task - 1) / rows_per_task;
    if (prefers_blocks(index, scores, rows, n_tasks)) {
        std::vector<BlockScorer<Best>> scorers(static_cast<std::size_t>(n_threads), {index, scores, best});
        parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int worker) {
            const std::int64_t first_row = task * rows_per_task;
            scorers[worker].predict(rows, first_row, std::min(n_rows, first_row + rows_per_task), top_k, out, control);
        });
        return;
    }
    std::vector<RowScorer<Best>> scorers(static_cast<std::size_t>(n_threads), {index, scores, best});
    parallel_for((n_rows + kRowsPerCheck - 1) / kRowsPerCheck, n_threads, control, [&](std::int64_t task, int worker) {
        const std::int64_t last_row = std::min(n_rows, (task + 1) * kRowsPerCheck);
        for (std::int64_t row = task * kRowsPerCheck; row < last_row; ++row) {
            control.throw_if_stopped();
            scorers[worker].predict(rows, row, top_k, out);
        }
    });
}

template <class Rows>
TopLabels by_score(const OvaIndex& index, const Rows& rows, std::int64_t top_k, int n_threads, Control& control) {
    TopLabels out;
    predict(index, rows, BestLabels(), top_k, out, n_threads, control);
    return out;
}

template <class Rows>
ValuedLabels by_value(const OvaIndex& index, const Rows& rows, const ValueTable& values, std::int64_t top_k,
                      int n_threads, Control& control) {
    static_assert(ValueTable::kPadding % kWidth == 0, "scores are padded to no more labels than values");
    check_values(values, index.n_labels);
    ValuedLabels out;
    out.values.resize(static_cast<std::size_t>(rows.n_rows() * top_k));
    predict(index, rows, BestValueLanes(values), top_k, out, n_threads, control);
    return out;
}

}  // namespace

TopLabels predict_ova(const OvaIndex& index, const CsrView& x, std::int64_t top_k, int n_threads, Control& control) {
    return by_score(index, SparseRows(x), top_k, n_threads, control);
}
TopLabels predict_ova(const OvaIndex& index, const DenseView& x, std::int64_t top_k, int n_threads, Control& control) {
    return by_score(index, DenseRows(x), top_k, n_threads, control);
}
ValuedLabels predict_ova_by_value(const OvaIndex& index, const CsrView& x, const ValueTable& values, std::int64_t top_k,
                                  int n_threads, Control& control) {
    return by_value(index, SparseRows(x), values, top_k, n_threads, control);
}
ValuedLabels predict_ova_by_value(const OvaIndex& index, const DenseView& x, const ValueTable& values,
                                  std::int64_t top_k, int n_threads, Control& control) {
    return by_value(index, DenseRows(x), values, top_k, n_threads, control);
}

void check_index(const OvaIndex& index, std::int64_t n_features) {
    const auto refuse = [](const std::string& rule) { throw std::invalid_argument("DiSMEC: " + rule); };
    if (static_cast<std::int64_t>(index.indptr.size()) != n_features + 1)
        refuse("indptr must have n_features + 1 entries");
    if (index.indptr.front() != 0) refuse("indptr must begin with 0");
    for (std::int64_t f = 0; f < n_features; ++f)
        if (index.indptr[f] > index.indptr[f + 1]) refuse("indptr must not decrease");
    const auto n_weights = static_cast<std::size_t>(index.indptr.back());
    if (index.label_ids.size() != n_weights) refuse("label_ids must have as many entries as indptr says");
    if ((index.scales.empty() ? index.weights.size() : index.codes.size()) != n_weights)
        refuse("weights must have as many entries as indptr says");
    const auto n_labels = static_cast<std::size_t>(index.n_labels);
    if (index.biases.size() != n_labels || index.counts.size() != n_labels)
        refuse("biases and counts must have one entry for each label");
    if (!index.scales.empty() && index.scales.size() != n_labels) refuse("scales must have one entry for each label");
    for (std::int64_t f = 0; f < n_features; ++f)
        for (std::int64_t i = index.indptr[f]; i < index.indptr[f + 1]; ++i) {
            if (index.label_ids[i] < 0 || index.label_ids[i] >= index.n_labels) refuse("label_ids must be labels");
            if (i > index.indptr[f] && index.label_ids[i] <= index.label_ids[i - 1])
                refuse("label_ids must increase within a feature");
        }
}

}  // namespace longtail::linear
