#include "linear/predict_ova.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/aligned.hpp"
#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "linear/lanes.hpp"
#include "linear/rows.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kRowsPerTask = 64;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// Scores of all labels for one row, in memory that is padded to whole lanes with labels that never win.
class Scorer {
public:
    explicit Scorer(const OvaIndex& index) : index_(index) {
        n_padded_ = (index.n_labels + kLanes - 1) / kLanes * kLanes;
        scores_.assign(static_cast<std::size_t>(n_padded_), 0.0F);
    }

    template <class Rows>
    void score(const Rows& rows, std::int64_t row, const AlignedVector<float>& first_scores) {
        const bool coded = !index_.scales.empty();  // not by the weights: pruning may leave none
        if (coded)
            std::fill(scores_.begin(), scores_.end(), 0.0F);
        else
            std::copy(first_scores.begin(), first_scores.end(), scores_.begin());
        float* const scores = scores_.data();
        const std::int32_t* const label_ids = index_.label_ids.data();
        rows.for_each(row, [&](std::int32_t feature, float value) {
            if (value == 0.0F) return;
            const std::int64_t first = index_.indptr[feature];
            const std::int64_t last = index_.indptr[feature + 1];
            if (coded)
                add(index_.codes.data(), label_ids, first, last, value, scores);
            else
                add(index_.weights.data(), label_ids, first, last, value, scores);
        });
        if (!coded) return;
        for (std::int64_t label = 0; label < index_.n_labels; ++label)
            scores_[label] = first_scores[label] + scores_[label] * index_.scales[label];
        std::fill(scores_.begin() + index_.n_labels, scores_.end(), kNever);
    }

    void select(std::span<std::int32_t> label_ids, std::span<float> scores) {
        best_.clear();
        const std::size_t top_k = label_ids.size();
        float worst = kNever;  // of the best so far, once there are top_k
        for (std::int64_t label = 0; label < n_padded_; label += kLanes) {
            Lanes block;
            load(block, scores_.data() + label);
            std::uint32_t above = bits_greater(block, Lanes{} + worst);
            for (; above != 0; above &= above - 1) {
                const int lane = std::countr_zero(above);
                const ScoredLabel found{block[lane], static_cast<std::int32_t>(label) + lane};
                if (best_.size() == top_k && !(found.score > worst)) continue;  // raised meanwhile
                best_.push_back(found);
                std::push_heap(best_.begin(), best_.end(), ranks_before);  // the worst in front
                if (best_.size() > top_k) {
                    std::pop_heap(best_.begin(), best_.end(), ranks_before);
                    best_.pop_back();
                }
                if (best_.size() == top_k) worst = best_.front().score;
            }
        }
        select_top_k(best_, label_ids, scores);
    }

private:
    template <class Weight>
    static void add(const Weight* weights, const std::int32_t* label_ids, std::int64_t first, std::int64_t last,
                    float value, float* scores) {
        std::int64_t i = first;
        // Four at a time: the labels of a feature are distinct, which the compiler cannot know.
        for (; i + 4 <= last; i += 4) {
            keep_scalar(i);
            float* const at0 = scores + label_ids[i];
            float* const at1 = scores + label_ids[i + 1];
            float* const at2 = scores + label_ids[i + 2];
            float* const at3 = scores + label_ids[i + 3];
            const float sum0 = *at0 + value * static_cast<float>(weights[i]);
            const float sum1 = *at1 + value * static_cast<float>(weights[i + 1]);
            const float sum2 = *at2 + value * static_cast<float>(weights[i + 2]);
            const float sum3 = *at3 + value * static_cast<float>(weights[i + 3]);
            *at0 = sum0;
            *at1 = sum1;
            *at2 = sum2;
            *at3 = sum3;
        }
        for (; i < last; ++i) scores[label_ids[i]] += value * static_cast<float>(weights[i]);
    }

    const OvaIndex& index_;
    std::int64_t n_padded_;
    AlignedVector<float> scores_;
    std::vector<ScoredLabel> best_;
};

template <class Rows>
TopLabels predict(const OvaIndex& index, const Rows& rows, std::int64_t top_k, int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(static_cast<std::size_t>(rows.n_rows() * top_k));
    out.scores.resize(out.label_ids.size());
    const std::int64_t n_padded = (index.n_labels + kLanes - 1) / kLanes * kLanes;
    AlignedVector<float> first_scores(static_cast<std::size_t>(n_padded), kNever);
    for (std::int64_t label = 0; label < index.n_labels; ++label)
        if (index.counts[label] > 0) first_scores[label] = index.biases[label];
    const std::int64_t n_tasks = (rows.n_rows() + kRowsPerTask - 1) / kRowsPerTask;
    std::vector<Scorer> scorers(static_cast<std::size_t>(n_threads), Scorer(index));
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int worker) {
        Scorer& scorer = scorers[worker];
        const std::int64_t last = std::min(rows.n_rows(), (task + 1) * kRowsPerTask);
        for (std::int64_t row = task * kRowsPerTask; row < last; ++row) {
            control.throw_if_stopped();
            scorer.score(rows, row, first_scores);
            scorer.select(std::span(out.label_ids).subspan(row * top_k, top_k),
                          std::span(out.scores).subspan(row * top_k, top_k));
        }
    });
    return out;
}

}  // namespace

TopLabels predict_ova(const OvaIndex& index, const CsrView& x, std::int64_t top_k, int n_threads, Control& control) {
    return predict(index, SparseRows(x), top_k, n_threads, control);
}
TopLabels predict_ova(const OvaIndex& index, const DenseView& x, std::int64_t top_k, int n_threads, Control& control) {
    return predict(index, DenseRows(x), top_k, n_threads, control);
}

void check_index(const OvaIndex& index, std::int64_t n_features) {
    const auto refuse = [](const std::string& rule) { throw std::invalid_argument("DiSMEC: " + rule); };
    if (static_cast<std::int64_t>(index.indptr.size()) != n_features + 1) refuse("indptr must have n_features + 1 entries");
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
    if (!index.scales.empty() && index.scales.size() != n_labels)
        refuse("scales must have one entry for each label");
    for (std::int64_t f = 0; f < n_features; ++f)
        for (std::int64_t i = index.indptr[f]; i < index.indptr[f + 1]; ++i) {
            if (index.label_ids[i] < 0 || index.label_ids[i] >= index.n_labels) refuse("label_ids must be labels");
            if (i > index.indptr[f] && index.label_ids[i] <= index.label_ids[i - 1])
                refuse("label_ids must increase within a feature");
        }
}

}  // namespace longtail::linear
