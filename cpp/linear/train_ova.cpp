#include "linear/train_ova.hpp"

#include <algorithm>
#include <numeric>

#include "linear/conjugate.hpp"
#include "linear/list_trainer.hpp"
#include "linear/logistic_samples.hpp"
#include "linear/newton_lanes.hpp"
#include "linear/postings.hpp"
#include "linear/working_set.hpp"

namespace longtail::linear {

namespace {

// Labels with many positives first: lanes of one batch then take about the same number of rounds, and the short ones
// fill the end of the range.
void sort_by_positives(std::vector<std::int32_t>& label_ids, const OvaLabels& labels) {
    std::stable_sort(label_ids.begin(), label_ids.end(), [&](std::int32_t a, std::int32_t b) {
        return labels.positives.row_size(a) > labels.positives.row_size(b);
    });
}

// Whether the bias feature is far longer than all rows: these then look alike to solvers that move one after another, which
// end far from the minimum. Newton steps do not mind.
template <class Rows>
bool is_led_by_bias(const Rows& rows, const OvaConfig& config) {
    constexpr double kLittle = 100.0;
    constexpr double kMost = 10.0;
    const double square = static_cast<double>(config.bias) * config.bias;
    if (config.cost * square <= kLittle) return false;
    double longest = 0.0;
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) longest = std::max(longest, rows.square(row));
    return square > kMost * longest;
}

// Labels that other solvers refuse, or whose weights they leave infinite, because values of X are huge.
template <class LossFunction, class Rows>
void train_rest(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                const OvaConfig& config, std::vector<std::int32_t> label_ids, LabelSink& sink, Control& control) {
    const std::vector<std::int32_t> left = sink.take_left();
    label_ids.insert(label_ids.end(), left.begin(), left.end());
    if (!label_ids.empty())
        NewtonTrainer<Rows, LossFunction>(rows, labels, moments, start, config, sink, control).train(label_ids);
}

template <class Rows>
void train_labels(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                  const OvaConfig& config, std::vector<std::int32_t> label_ids, LabelSink& sink, Control& control) {
    sort_by_positives(label_ids, labels);
    const bool is_biased = is_led_by_bias(rows, config);
    if (config.loss == Loss::logistic) {
        if constexpr (Rows::kSparse)
            if (!is_biased && LogisticSampleTrainer::suits(start, config))
                label_ids = LogisticSampleTrainer(rows, labels, moments, start, config, sink, control).train(label_ids);
        train_rest<Logistic>(rows, labels, moments, start, config, std::move(label_ids), sink, control);
        return;
    }
    if (is_biased) {
        train_rest<SquaredHinge>(rows, labels, moments, start, config, std::move(label_ids), sink, control);
        return;
    }
    // The next solvers use that all negatives of a label have one cost.
    const bool is_weighted = !labels.row_weights.empty();
    if constexpr (Rows::kSparse)
        if (!is_weighted && start.kind != StartKind::zero &&
            (moments.has_postings() || PostingsTrainer::suits(rows, config)))
            label_ids = PostingsTrainer(rows, labels, moments, start, config, sink, control).train(label_ids);
    if constexpr (Rows::kSparse)
        if (!is_weighted && !label_ids.empty() && ConjugateTrainer::suits(rows, start, config) &&
            !moments.has_word_lists() && !ListTrainer::suits(rows, config))
            label_ids = ConjugateTrainer(rows, labels, moments, start, config, sink, control).train(label_ids);
    if constexpr (Rows::kSparse)
        if (!is_weighted && start.kind != StartKind::zero && !label_ids.empty() &&
            (moments.has_word_lists() || ListTrainer::suits(rows, config)))
            label_ids = ListTrainer(rows, labels, moments, start, config, sink, control).train(label_ids);
    if (!is_weighted && config.working_sets && start.kind != StartKind::zero && !label_ids.empty()) {
        std::vector<RoughSolution> rough;
        if constexpr (Rows::kSparse)
            if (moments.coarse && WorkingSetTrainer<Rows>::suits_rough_solutions(config)) {
                const SparseRows coarse(*moments.coarse);
                rough = WorkingSetTrainer<Rows>(coarse, labels, moments, start, config, sink, control)
                            .train_roughly(label_ids);
            }
        label_ids =
            WorkingSetTrainer<Rows>(rows, labels, moments, start, config, sink, control).train(label_ids, rough);
    }
    if constexpr (Rows::kSparse)
        if (!is_weighted && !label_ids.empty() && ConjugateTrainer::suits_frequent(rows, start, config))
            label_ids = ConjugateTrainer(rows, labels, moments, start, config, sink, control).train(label_ids);
    train_rest<SquaredHinge>(rows, labels, moments, start, config, std::move(label_ids), sink, control);
}

// The weights that the labels of one generation begin with: their parents' results, label-major over the range.
struct Inherited {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> feature_ids;
    std::vector<float> weights;
    std::vector<float> biases;

    Inherited(const LabelSink& sink, std::span<const std::int32_t> parents, const std::vector<char>& is_member) {
        for (std::size_t label = 0; label < parents.size(); ++label) {
            float bias = 0.0F;
            if (is_member[label]) {
                const auto& ids = sink.feature_ids(parents[label]);
                const auto& values = sink.weights(parents[label]);
                feature_ids.insert(feature_ids.end(), ids.begin(), ids.end());
                weights.insert(weights.end(), values.begin(), values.end());
                bias = sink.bias(parents[label]);
            }
            biases.push_back(bias);
            indptr.push_back(static_cast<std::int64_t>(weights.size()));
        }
    }
};

// OvAP++: generation by generation down the tree; the roots begin with the shared weights.
template <class Rows>
void train_tree(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                const OvaConfig& config, LabelSink& sink, Control& control) {
    const auto n_labels = static_cast<std::int32_t>(start.parents.size());
    std::vector<std::int32_t> generation;
    for (std::int32_t label = 0; label < n_labels; ++label)
        if (start.parents[label] < 0) generation.push_back(label);
    OvaStart roots = start;
    roots.kind = StartKind::shared;
    train_labels(rows, labels, moments, roots, config, generation, sink, control);
    while (!generation.empty()) {
        std::vector<char> is_parent(n_labels, 0);
        for (const std::int32_t label : generation) is_parent[label] = 1;
        generation.clear();
        std::vector<char> is_member(n_labels, 0);
        for (std::int32_t label = 0; label < n_labels; ++label) {
            if (start.parents[label] < 0 || !is_parent[start.parents[label]]) continue;
            generation.push_back(label);
            is_member[label] = 1;
        }
        if (generation.empty()) return;
        const Inherited inherited(sink, start.parents, is_member);
        OvaStart children = start;
        children.kind = StartKind::own;
        children.own_weights = {n_labels, rows.n_features(), inherited.indptr, inherited.feature_ids,
                                inherited.weights};
        children.own_biases = inherited.biases;
        train_labels(rows, labels, moments, children, config, generation, sink, control);
    }
}

}  // namespace

template <class Rows>
std::vector<float> mean_row(const Rows& rows, float bias) {
    std::vector<double> sums(static_cast<std::size_t>(rows.n_features()) + 1, 0.0);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) rows.add_to(row, 1.0, sums.data());
    sums.back() = static_cast<double>(bias) * static_cast<double>(rows.n_rows());
    std::vector<float> mean;
    mean.reserve(sums.size());
    for (const double sum_of_rows : sums)
        mean.push_back(static_cast<float>(sum_of_rows / static_cast<double>(rows.n_rows())));
    return mean;
}

template <class Rows>
std::vector<float> row_margins(const Rows& rows, std::span<const float> weights, float bias) {
    std::vector<float> margins(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        margins[row] = rows.dot(row, weights.data()) + bias * weights.back();
    return margins;
}

template <class Rows>
OvaResult train_ova(const Rows& rows, const OvaLabels& labels, const OvaMoments& moments, const OvaStart& start,
                    const OvaConfig& config, Control& control) {
    LabelSink sink(labels.positives.n_rows, config);
    if (!start.parents.empty()) {
        train_tree(rows, labels, moments, start, config, sink, control);
    } else {
        std::vector<std::int32_t> label_ids(static_cast<std::size_t>(labels.positives.n_rows));
        std::iota(label_ids.begin(), label_ids.end(), 0);
        train_labels(rows, labels, moments, start, config, std::move(label_ids), sink, control);
    }
    return sink.finish();
}

template std::vector<float> mean_row(const SparseRows&, float);
template std::vector<float> mean_row(const DenseRows&, float);
template std::vector<float> row_margins(const SparseRows&, std::span<const float>, float);
template std::vector<float> row_margins(const DenseRows&, std::span<const float>, float);
template OvaResult train_ova(const SparseRows&, const OvaLabels&, const OvaMoments&, const OvaStart&, const OvaConfig&,
                             Control&);
template OvaResult train_ova(const DenseRows&, const OvaLabels&, const OvaMoments&, const OvaStart&, const OvaConfig&,
                             Control&);

}  // namespace longtail::linear
