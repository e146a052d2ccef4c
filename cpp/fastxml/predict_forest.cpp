#include <algorithm>
#include <cmath>
#include <functional>

#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "decisions/best_values.hpp"
#include "fastxml/forest.hpp"
#include "fastxml/logistic.hpp"

namespace longtail::fastxml {
namespace {

constexpr std::int64_t kRowsPerTask = 32;

// What one thread needs to rank rows: all of it is clean again after each row.
struct Scratch {
    std::vector<float> row;           // the row, dense (sparse input only)
    std::vector<float> label_scores;  // by label
    std::vector<std::int32_t> seen;   // labels with a score
    std::vector<std::int32_t> nodes;  // where the row is in each tree
    std::vector<ScoredLabel> candidates;
    std::vector<float> tree_parts;    // by label, of the candidates (re-ranking only)
    std::vector<ScoredLabel> ranked;  // likewise
    std::vector<float> best;
};

float node_score(const ForestView& forest, std::int32_t node, const float* row) {
    const std::int64_t last = forest.split_indptr[node + 1];
    const std::int32_t* features = forest.split_features.data();
    const float* weights = forest.split_weights.data();
    float s0 = 0.0F;
    float s1 = 0.0F;
    std::int64_t k = forest.split_indptr[node];
    for (; k + 2 <= last; k += 2) {
        s0 += weights[k] * row[features[k]];
        s1 += weights[k + 1] * row[features[k + 1]];
    }
    if (k < last) s0 += weights[k] * row[features[k]];
    return s0 + s1;
}

void prefetch_node(const ForestView& forest, std::int32_t node) {
    const std::int64_t k = forest.split_indptr[node];
    __builtin_prefetch(forest.split_features.data() + k);
    __builtin_prefetch(forest.split_weights.data() + k);
}

// Walk all trees in step, one level a round, so that the next node of one tree is on its way from memory while the
// others are scored.
void walk_trees(const ForestView& forest, const float* row, std::vector<std::int32_t>& nodes) {
    std::size_t n_walking = nodes.size();
    std::vector<std::int32_t>& leaves = nodes;
    while (n_walking > 0) {
        for (std::size_t t = 0; t < n_walking;) {
            const std::int32_t node = leaves[t];
            const std::int32_t right = forest.right_child[node];
            if (right == 0) {
                std::swap(leaves[t], leaves[--n_walking]);
                continue;
            }
            const float score = node_score(forest, node, row) + forest.biases[node];
            leaves[t] = score >= 0.0F ? right : node + 1;
            prefetch_node(forest, leaves[t]);
            ++t;
        }
    }
}

// Sum the leaves that the row reaches into scratch.candidates.
void collect_candidates(const ForestView& forest, const float* row, std::span<const std::int32_t> tree_ids,
                        Scratch& scratch) {
    scratch.nodes.clear();
    for (const std::int32_t tree_id : tree_ids) scratch.nodes.push_back(forest.tree_roots[tree_id]);
    walk_trees(forest, row, scratch.nodes);
    // The walk leaves trees in the order they ended; sums must not depend on it.
    std::sort(scratch.nodes.begin(), scratch.nodes.end());
    scratch.seen.clear();
    for (const std::int32_t leaf : scratch.nodes) {
        for (std::int64_t k = forest.leaf_indptr[leaf]; k < forest.leaf_indptr[leaf + 1]; ++k) {
            const std::int32_t label_id = forest.leaf_labels[k];
            if (scratch.label_scores[label_id] == 0.0F) scratch.seen.push_back(label_id);
            scratch.label_scores[label_id] += forest.leaf_values[k];
        }
    }
    scratch.candidates.clear();
    const float share = 1.0F / static_cast<float>(tree_ids.size());
    for (const std::int32_t label_id : scratch.seen) {
        scratch.candidates.push_back({scratch.label_scores[label_id] * share, label_id});
        scratch.label_scores[label_id] = 0.0F;
    }
}

// x.mu of a label's centre and a dense row.
float centre_dot(const TailView& tail, std::int32_t label_id, const float* row) {
    const std::int64_t last = tail.indptr[label_id + 1];
    float s0 = 0.0F;
    float s1 = 0.0F;
    float s2 = 0.0F;
    float s3 = 0.0F;
    std::int64_t k = tail.indptr[label_id];
    for (; k + 4 <= last; k += 4) {
        s0 += tail.values[k] * row[tail.indices[k]];
        s1 += tail.values[k + 1] * row[tail.indices[k + 1]];
        s2 += tail.values[k + 2] * row[tail.indices[k + 2]];
        s3 += tail.values[k + 3] * row[tail.indices[k + 3]];
    }
    for (; k < last; ++k) s0 += tail.values[k] * row[tail.indices[k]];
    return (s0 + s1) + (s2 + s3);
}

float tail_part(const TailView& tail, float squared_distance) {
    return (1.0F - tail.alpha) * logistic_loss(-tail.gamma * squared_distance);
}

// Replace the candidates by the best top_k of them under eq. 8 of PfastreXML (and some that are not). `scale` turns the row
// into the one that the centres are compared with; the squared distance needs only the shared features and the two norms.
// A row of length one is at least 1 - |mu| from mu: labels are looked at in the order of the score which that allows, and
// no further than the k-th best score so far.
void rerank(const TailView& tail, const float* row, float scale, std::size_t top_k, Scratch& scratch) {
    std::vector<ScoredLabel>& candidates = scratch.candidates;
    const auto limit = static_cast<std::size_t>(tail.n_candidates);
    if (candidates.size() > limit) {
        std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(limit), candidates.end(),
                         ranks_before);
        candidates.resize(limit);
    }
    constexpr float kSlack = 1e-3F;  // rounding of bounds and scores
    for (ScoredLabel& candidate : candidates) {
        const float gap = 1.0F - std::sqrt(tail.squared_norms[candidate.label_id]);
        scratch.tree_parts[candidate.label_id] = tail.alpha * std::log(candidate.score);
        candidate.score = scratch.tree_parts[candidate.label_id] - tail_part(tail, gap * gap) + kSlack;
    }
    const auto worse = [](const ScoredLabel& a, const ScoredLabel& b) { return ranks_before(b, a); };
    std::make_heap(candidates.begin(), candidates.end(), worse);
    scratch.ranked.clear();
    scratch.best.clear();  // a heap of the top_k best scores, the least on top
    while (!candidates.empty()) {
        if (scratch.best.size() == top_k && candidates.front().score < scratch.best.front()) break;
        std::pop_heap(candidates.begin(), candidates.end(), worse);
        const std::int32_t label_id = candidates.back().label_id;
        candidates.pop_back();
        const float dot = scale * (centre_dot(tail, label_id, row) + tail.bias * tail.biases[label_id]);
        const float squared_distance = std::max(0.0F, 1.0F - 2.0F * dot + tail.squared_norms[label_id]);
        const float score = scratch.tree_parts[label_id] - tail_part(tail, squared_distance);
        scratch.ranked.push_back({score, label_id});
        scratch.best.push_back(score);
        std::push_heap(scratch.best.begin(), scratch.best.end(), std::greater<>());
        if (scratch.best.size() > top_k) {
            std::pop_heap(scratch.best.begin(), scratch.best.end(), std::greater<>());
            scratch.best.pop_back();
        }
    }
    candidates.swap(scratch.ranked);
}

// Call write(i, row, values, scratch) for every row i, given densely and as its values, with its labels in
// scratch.candidates.
template <class Write>
void for_each_row(const FeaturesView& x, const ForestView& forest, std::span<const std::int32_t> tree_ids,
                  const PredictConfig& config, Control& control, const Write& write) {
    const std::int64_t n_rows = n_rows_of(x);
    const std::int32_t n_used = config.n_features_used;
    std::vector<Scratch> scratches(static_cast<std::size_t>(config.n_threads));
    const auto* csr = std::get_if<CsrView>(&x);
    const std::int64_t n_tasks = (n_rows + kRowsPerTask - 1) / kRowsPerTask;
    parallel_for(n_tasks, config.n_threads, control, [&](std::int64_t task, int worker) {
        Scratch& scratch = scratches[worker];
        scratch.label_scores.resize(static_cast<std::size_t>(config.n_labels));
        if (csr != nullptr) scratch.row.resize(static_cast<std::size_t>(n_used));
        const std::int64_t last = std::min(n_rows, (task + 1) * kRowsPerTask);
        for (std::int64_t i = task * kRowsPerTask; i < last; ++i) {
            const auto values = csr != nullptr ? csr->row_values(i) : std::get<DenseView>(x).row(i);
            const float* row = values.data();
            std::span<const std::int32_t> features;
            if (csr != nullptr) {
                features = csr->row_indices(i);
                features =
                    features.first(std::lower_bound(features.begin(), features.end(), n_used) - features.begin());
                for (std::size_t k = 0; k < features.size(); ++k) scratch.row[features[k]] = values[k];
                row = scratch.row.data();
            }
            collect_candidates(forest, row, tree_ids, scratch);
            write(i, row, values, scratch);
            for (const std::int32_t feature : features) scratch.row[feature] = 0.0F;
        }
        control.add_done(last - task * kRowsPerTask);
    });
}

void resize(TopLabels& ranking, std::int64_t n_rows, std::int32_t top_k) {
    ranking.label_ids.resize(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(top_k));
    ranking.scores.resize(ranking.label_ids.size());
}

}  // namespace

TopLabels predict_forest(const FeaturesView& x, const ForestView& forest, std::span<const std::int32_t> tree_ids,
                         const TailView* tail, const PredictConfig& config, Control& control) {
    TopLabels ranking;
    resize(ranking, n_rows_of(x), config.top_k);
    const auto width = static_cast<std::size_t>(config.top_k);
    for_each_row(x, forest, tree_ids, config, control,
                 [&](std::int64_t i, const float* row, std::span<const float> values, Scratch& scratch) {
                     if (tail != nullptr) {
                         scratch.tree_parts.resize(static_cast<std::size_t>(config.n_labels));
                         rerank(*tail, row, tail_scale(values, tail->bias), width, scratch);
                     }
                     const std::size_t at = static_cast<std::size_t>(i) * width;
                     select_top_k(scratch.candidates, std::span(ranking.label_ids).subspan(at, width),
                                  std::span(ranking.scores).subspan(at, width));
                 });
    return ranking;
}

ValuedLabels predict_forest_by_value(const FeaturesView& x, const ForestView& forest,
                                     std::span<const std::int32_t> tree_ids, const ValueTable& values,
                                     const PredictConfig& config, Control& control) {
    ValuedLabels ranking;
    resize(ranking, n_rows_of(x), config.top_k);
    ranking.values.resize(ranking.scores.size());
    for_each_row(x, forest, tree_ids, config, control,
                 [&](std::int64_t i, const float*, std::span<const float>, Scratch& scratch) {
                     write_best_values(values, scratch.candidates, ranking, i, config.top_k);
                 });
    return ranking;
}

}  // namespace longtail::fastxml
