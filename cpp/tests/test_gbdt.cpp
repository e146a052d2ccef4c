#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "gbdt/booster.hpp"
#include "gbdt/exact_search.hpp"
#include "gbdt/forest.hpp"
#include "gbdt/grow.hpp"
#include "gbdt/multiply.hpp"

using namespace longtail;
using namespace longtail::gbdt;

namespace {

// Small random data with ties, empty rows and labels without positives.
struct Problem {
    std::int64_t n_rows, n_features, n_labels;
    std::vector<float> x;
    std::vector<std::int64_t> x_indptr{0}, y_indptr{0};
    std::vector<std::int32_t> x_indices, y_indices;
    std::vector<float> x_values;

    Problem(std::uint64_t seed, std::int64_t n_rows_, std::int64_t n_features_, std::int64_t n_labels_,
            double label_share)
        : n_rows(n_rows_), n_features(n_features_), n_labels(n_labels_) {
        Random random(seed, 7);
        const double grid = random.coin() ? 3.0 : 1000.0;
        for (std::int64_t row = 0; row < n_rows; ++row) {
            for (std::int64_t feature = 0; feature < n_features; ++feature) {
                const double value = random.uniform() < 0.4 ? 0.0 : std::round(random.normal() * grid) / grid;
                x.push_back(static_cast<float>(value));
                if (x.back() == 0.0F) continue;
                x_indices.push_back(static_cast<std::int32_t>(feature));
                x_values.push_back(x.back());
            }
            x_indptr.push_back(static_cast<std::int64_t>(x_indices.size()));
            for (std::int64_t label = 0; label < n_labels; ++label)
                if (random.uniform() < label_share) y_indices.push_back(static_cast<std::int32_t>(label));
            y_indptr.push_back(static_cast<std::int64_t>(y_indices.size()));
        }
    }
    DenseView dense() const { return {n_rows, n_features, x}; }
    CsrView sparse() const { return {n_rows, n_features, x_indptr, x_indices, x_values}; }
    LabelsView labels() const { return {n_rows, n_labels, y_indptr, y_indices}; }
};

double naive_squares(std::vector<double> sums, std::int32_t top_k) {
    for (double& sum : sums) sum *= sum;
    std::sort(sums.rbegin(), sums.rend());
    double total = 0.0;
    for (std::size_t i = 0; i < sums.size() && (top_k == 0 || i < static_cast<std::size_t>(top_k)); ++i)
        total += sums[i];
    return total;
}

// Gradients as a dense matrix, row by row.
using Gradients = std::vector<std::vector<double>>;

double naive_reduction(const Problem& problem, const Gradients& gradients, const std::vector<std::int32_t>& rows,
                       const BoostParams& params) {
    std::vector<double> sums(problem.n_labels, 0.0);
    for (const std::int32_t row : rows)
        for (std::int64_t label = 0; label < problem.n_labels; ++label) sums[label] += gradients[row][label];
    return naive_squares(sums, params.leaf_top_k) / (static_cast<double>(rows.size()) + params.l2);
}

double naive_split(const Problem& problem, const Gradients& gradients, const std::vector<std::int32_t>& rows,
                   std::int64_t feature, float threshold, const BoostParams& params) {
    std::vector<std::int32_t> left, right;
    for (const std::int32_t row : rows)
        (problem.x[row * problem.n_features + feature] <= threshold ? left : right).push_back(row);
    if (static_cast<std::int64_t>(std::min(left.size(), right.size())) < params.min_leaf_size) return -1.0;
    return naive_reduction(problem, gradients, left, params) + naive_reduction(problem, gradients, right, params);
}

// The best of all thresholds of all features, by trying each from scratch.
double naive_best(const Problem& problem, const Gradients& gradients, const std::vector<std::int32_t>& rows,
                  const BoostParams& params) {
    double best = -1.0;
    for (std::int64_t feature = 0; feature < problem.n_features; ++feature) {
        std::set<float> thresholds;
        for (const std::int32_t row : rows) thresholds.insert(problem.x[row * problem.n_features + feature]);
        for (const float threshold : thresholds)
            best = std::max(best, naive_split(problem, gradients, rows, feature, threshold, params));
    }
    return best;
}

// What naive_best returned for the rows of a node: trees that were grown in other ways have the same nodes.
using KnownBest = std::map<std::vector<std::int32_t>, double>;

Gradients first_gradients(const Problem& problem) {
    Gradients gradients(problem.n_rows, std::vector<double>(problem.n_labels, 0.0));
    for (std::int64_t row = 0; row < problem.n_rows; ++row)
        for (const std::int32_t label : problem.labels().row_labels(row)) gradients[row][label] = 1.0;
    return gradients;
}

// Walk down the tree with the naive twin: every split must reach the best reduction there is, every leaf its values.
void check_tree(const Problem& problem, const Gradients& gradients, const Tree& tree, std::int32_t node,
                const std::vector<std::int32_t>& rows, std::int32_t depth, const BoostParams& params,
                KnownBest& known) {
    const double before = naive_reduction(problem, gradients, rows, params);
    double best = -1.0;
    if (depth < params.max_depth) {
        const auto [place, is_new] = known.try_emplace(rows, best);
        if (is_new) place->second = naive_best(problem, gradients, rows, params);
        best = place->second;
    }
    const double margin = 1e-4 * (1.0 + std::abs(best));
    if (tree.split_features[node] < 0) {
        CHECK(best <= before + margin);
        std::vector<double> sums(problem.n_labels, 0.0);
        for (const std::int32_t row : rows)
            for (std::int64_t label = 0; label < problem.n_labels; ++label) sums[label] += gradients[row][label];
        double kept = 0.0;
        for (std::int64_t i = tree.leaf_begin[node]; i < tree.leaf_begin[node + 1]; ++i) {
            const double sum = sums[tree.leaf_label_ids[i]];
            CHECK(
                tree.leaf_values[i] ==
                doctest::Approx(params.shrinkage * sum / (static_cast<double>(rows.size()) + params.l2)).epsilon(1e-4));
            kept += sum * sum;
        }
        CHECK(kept == doctest::Approx(naive_squares(sums, params.leaf_top_k)).epsilon(1e-6));
        return;
    }
    const double found =
        naive_split(problem, gradients, rows, tree.split_features[node], tree.thresholds[node], params);
    CHECK(found >= best - margin);
    CHECK(std::abs(static_cast<double>(tree.gains[node]) - (found - before)) < margin);
    std::vector<std::int32_t> left, right;
    for (const std::int32_t row : rows)
        (problem.x[row * problem.n_features + tree.split_features[node]] <= tree.thresholds[node] ? left : right)
            .push_back(row);
    CHECK(tree.left_children[node] > node);
    check_tree(problem, gradients, tree, tree.left_children[node], left, depth + 1, params, known);
    check_tree(problem, gradients, tree, tree.left_children[node] + 1, right, depth + 1, params, known);
}

std::vector<std::int32_t> all_rows(const Problem& problem) {
    std::vector<std::int32_t> rows(problem.n_rows);
    for (std::int64_t row = 0; row < problem.n_rows; ++row) rows[row] = static_cast<std::int32_t>(row);
    return rows;
}

BoostParams small_params(std::int32_t leaf_top_k) {
    BoostParams params;
    params.loss = Loss::kSquaredHinge;
    params.leaf_top_k = leaf_top_k;
    params.l2 = 5.0;
    params.row_share = 1.0;
    params.feature_share = 1.0;
    params.max_depth = 4;
    params.min_leaf_size = 3;
    params.threshold_step = 0.004;  // with fewer rows than 250, every distinct value
    params.shrinkage = 0.5;
    return params;
}

}  // namespace

TEST_CASE("split search finds what a naive search finds, in every node of a tree") {
    Control control;
    for (std::uint64_t seed = 0; seed < 12; ++seed)
        for (const std::int32_t leaf_top_k : {0, 1, 3, 10}) {
            CAPTURE(seed);
            CAPTURE(leaf_top_k);
            // Few labels in many rows take the wide path, many labels in few rows the narrow one.
            const Problem problem(seed, 60, 5 + static_cast<std::int64_t>(seed) * 3, seed % 2 == 0 ? 7 : 60,
                                  seed % 2 == 0 ? 0.4 : 0.03);
            BoostParams params = small_params(leaf_top_k);
            const Gradients gradients = first_gradients(problem);
            KnownBest known;
            const auto check = [&](Booster booster) {
                check_tree(problem, gradients, booster.grow(0, 1, control), 0, all_rows(problem), 0, params, known);
            };
            check(Booster(problem.dense(), problem.labels(), params));
            check(Booster(problem.sparse(), problem.labels(), params));
            params.threshold_step = 1.0;  // exact
            check(Booster(problem.dense(), problem.labels(), params));
        }
}

TEST_CASE("running top k equals sorting after every change") {
    Random random(3, 0);
    for (const std::int32_t top_k : {0, 1, 2, 5, 100}) {
        std::vector<double> sums(20);
        for (double& sum : sums) sum = std::round(random.normal() * 4.0);
        RunningTopK running(sums, top_k);
        for (int change = 0; change < 500; ++change) {
            const std::int32_t label = static_cast<std::int32_t>(random.below(20));
            const double value = std::round(random.normal() * 4.0) / 2.0;
            sums[label] += value;
            running.add(label, value);
            CHECK(running.squares() == doctest::Approx(naive_squares(sums, top_k)));
        }
    }
}

TEST_CASE("loss never increases and gradients stay sparse") {
    Control control;
    for (std::uint64_t seed = 0; seed < 6; ++seed)
        for (const Loss loss : {Loss::kSquared, Loss::kSquaredHinge})
            for (const double shrinkage : {0.1, 1.0}) {
                const Problem problem(seed, 80, 6, 40, 0.08);
                BoostParams params = small_params(3);
                params.loss = loss;
                params.shrinkage = shrinkage;
                Booster booster(problem.dense(), problem.labels(), params);
                double before = booster.loss(1, control);
                CHECK(before == static_cast<double>(problem.y_indices.size()));
                for (std::int64_t tree = 0; tree < 10; ++tree) {
                    booster.grow(tree, 1, control);
                    const double after = booster.loss(1, control);
                    CHECK(after <= before + 1e-5 * before);
                    before = after;
                    const auto sizes = booster.gradient_sizes();
                    for (std::int64_t row = 0; row < problem.n_rows; ++row)
                        CHECK(sizes[row] <= (tree + 1) * params.leaf_top_k + problem.labels().row_size(row));
                }
            }
}

TEST_CASE("cutting a node divides every label's entries in order, for any number of threads") {
    Random random(9, 1);
    constexpr std::int32_t kRows = 2000;
    std::vector<std::int32_t> child_rows(kRows);
    std::int32_t n_left = 0;
    for (std::int32_t row = 0; row < kRows; ++row) {
        const bool goes_left = row % 500 < 100 || random.uniform() < 0.3;
        child_rows[row] = goes_left ? n_left : ~(row - n_left);
        n_left += goes_left ? 1 : 0;
    }
    GradientStore store;
    store.reserve(400 * kRows);
    NodeGradients parent;
    for (std::int32_t label = 0; label < 400; ++label) {
        LabelGradients own;
        own.label_id = 3 * label;
        own.begin = parent.n_entries;
        const double share = label % 3 == 0 ? 0.003 : random.uniform() * 0.8;  // short lists too
        for (std::int32_t row = 0; row < kRows; ++row) {
            if (random.uniform() >= share) continue;
            const auto value = static_cast<float>(random.normal());
            store.rows()[parent.n_entries] = row;
            store.values()[parent.n_entries++] = value;
            own.total += static_cast<double>(value);
            own.magnitude += std::abs(static_cast<double>(value));
            ++own.n_entries;
        }
        if (own.n_entries > 0) parent.labels.push_back(own);
    }
    REQUIRE(parent.n_entries > (1 << 17));  // several ranges
    parent.rows = store.rows();
    parent.values = store.values();
    Control control;
    for (const bool needs_left : {true, false})
        for (const bool needs_right : {true, false}) {
            GradientStore below[2];
            GradientSplit splits[2];
            for (const int i : {0, 1}) {
                splits[i].parent = &parent;
                splits[i].child_rows = child_rows;
                splits[i].needs_left = needs_left;
                splits[i].needs_right = needs_right;
                split_gradients({&splits[i], 1}, below[i], 1 + 2 * i, control);
            }
            for (const bool is_left : {true, false}) {
                const NodeGradients& child = is_left ? splits[0].left : splits[0].right;
                const NodeGradients& again = is_left ? splits[1].left : splits[1].right;
                std::size_t next = 0;
                for (const LabelGradients& label : parent.labels) {
                    std::vector<std::int32_t> rows;
                    std::vector<float> values;
                    double total = 0.0;
                    double magnitude = 0.0;
                    for (std::int64_t i = label.begin; i < label.end(); ++i) {
                        const std::int32_t place = child_rows[parent.rows[i]];
                        if ((place >= 0) != is_left) continue;
                        rows.push_back(is_left ? place : ~place);
                        values.push_back(parent.values[i]);
                        total += static_cast<double>(values.back());
                        magnitude += std::abs(static_cast<double>(values.back()));
                    }
                    if (rows.empty()) continue;
                    REQUIRE(next < child.labels.size());
                    const LabelGradients& found = child.labels[next];
                    CHECK(found.label_id == label.label_id);
                    REQUIRE(found.n_entries == static_cast<std::int32_t>(rows.size()));
                    CHECK(found.total == doctest::Approx(total).epsilon(1e-9));
                    CHECK(found.magnitude == doctest::Approx(magnitude).epsilon(1e-9));
                    CHECK(found.total == again.labels[next].total);
                    CHECK(found.magnitude == again.labels[next].magnitude);
                    if (is_left ? needs_left : needs_right) {
                        CHECK(std::equal(rows.begin(), rows.end(), child.rows + found.begin));
                        CHECK(std::equal(values.begin(), values.end(), child.values + found.begin));
                        CHECK(std::equal(rows.begin(), rows.end(), again.rows + again.labels[next].begin));
                    }
                    ++next;
                }
                CHECK(next == child.labels.size());
            }
        }
}

TEST_CASE("trees are the same for any number of threads, and adding them again gives the same scores") {
    const Problem problem(5, 2500, 40, 50, 0.1);
    BoostParams params = small_params(5);
    params.threshold_step = 0.05;
    params.row_share = 0.7;
    params.feature_share = 0.5;
    Control control;
    Booster one(problem.dense(), problem.labels(), params);
    Booster three(problem.dense(), problem.labels(), params);
    Booster replayed(problem.dense(), problem.labels(), params);
    for (std::int64_t tree_id = 0; tree_id < 4; ++tree_id) {
        const Tree a = one.grow(tree_id, 1, control);
        const Tree b = three.grow(tree_id, 3, control);
        CHECK(a.split_features == b.split_features);
        CHECK(a.thresholds == b.thresholds);
        CHECK(a.leaf_label_ids == b.leaf_label_ids);
        CHECK(a.leaf_values == b.leaf_values);
        CHECK(a.split_features[0] >= 0);
        replayed.add({a.split_features, a.thresholds, a.left_children, a.leaf_begin, a.leaf_label_ids, a.leaf_values},
                     2, control);
    }
    CHECK(one.loss(1, control) == three.loss(3, control));
    CHECK(one.loss(1, control) == replayed.loss(1, control));
    CHECK(one.gradient_sizes() == replayed.gradient_sizes());
}

TEST_CASE("each side of every split has min_leaf_size rows") {
    const Problem problem(9, 300, 10, 20, 0.2);
    BoostParams params = small_params(4);
    params.min_leaf_size = 40;
    params.max_depth = 20;
    Control control;
    const Tree tree = Booster(problem.dense(), problem.labels(), params).grow(0, 1, control);
    std::vector<std::int64_t> n_rows(tree.split_features.size(), 0);
    for (std::int64_t row = 0; row < problem.n_rows; ++row)
        ++n_rows[find_leaf(tree.split_features, tree.thresholds, tree.left_children, problem.dense().row(row).data())];
    std::int64_t n_leaves = 0;
    for (std::size_t node = 0; node < n_rows.size(); ++node)
        if (tree.split_features[node] < 0) {
            ++n_leaves;
            CHECK(n_rows[node] >= 40);
        }
    CHECK(n_leaves > 2);
}

TEST_CASE("prediction sums sparse leaves") {
    const Problem problem(11, 90, 8, 30, 0.1);
    const BoostParams params = small_params(4);
    Control control;
    Booster booster(problem.dense(), problem.labels(), params);
    std::vector<std::int64_t> tree_begin{0}, leaf_begin{0};
    std::vector<std::int32_t> split_features, left_children, leaf_label_ids;
    std::vector<float> thresholds, leaf_values;
    std::vector<std::vector<double>> scores(problem.n_rows, std::vector<double>(problem.n_labels, 0.0));
    std::vector<std::vector<bool>> touched(problem.n_rows, std::vector<bool>(problem.n_labels, false));
    for (std::int64_t tree_id = 0; tree_id < 6; ++tree_id) {
        const Tree tree = booster.grow(tree_id, 1, control);
        for (std::int64_t row = 0; row < problem.n_rows; ++row) {
            const std::int32_t leaf =
                find_leaf(tree.split_features, tree.thresholds, tree.left_children, problem.dense().row(row).data());
            for (std::int64_t i = tree.leaf_begin[leaf]; i < tree.leaf_begin[leaf + 1]; ++i) {
                scores[row][tree.leaf_label_ids[i]] += static_cast<double>(tree.leaf_values[i]);
                touched[row][tree.leaf_label_ids[i]] = true;
            }
        }
        for (std::size_t node = 0; node < tree.split_features.size(); ++node)
            leaf_begin.push_back(leaf_begin.back() + tree.leaf_begin[node + 1] - tree.leaf_begin[node]);
        split_features.insert(split_features.end(), tree.split_features.begin(), tree.split_features.end());
        thresholds.insert(thresholds.end(), tree.thresholds.begin(), tree.thresholds.end());
        left_children.insert(left_children.end(), tree.left_children.begin(), tree.left_children.end());
        leaf_label_ids.insert(leaf_label_ids.end(), tree.leaf_label_ids.begin(), tree.leaf_label_ids.end());
        leaf_values.insert(leaf_values.end(), tree.leaf_values.begin(), tree.leaf_values.end());
        tree_begin.push_back(static_cast<std::int64_t>(split_features.size()));
    }
    const ForestView forest{problem.n_labels, tree_begin, split_features, thresholds,
                            left_children,    leaf_begin, leaf_label_ids, leaf_values};
    const TopLabels dense = predict_top_k(problem.dense(), forest, 30, 2, control);
    const TopLabels sparse = predict_top_k(problem.sparse(), forest, 30, 1, control);
    CHECK(dense.label_ids == sparse.label_ids);
    CHECK(dense.scores == sparse.scores);
    const TopLabels three = predict_top_k(problem.dense(), forest, 3, 1, control);
    for (std::int64_t row = 0; row < problem.n_rows; ++row) {
        std::int64_t n_found = 0;
        for (std::int64_t rank = 0; rank < 30; ++rank) {
            const std::int32_t label_id = dense.label_ids[row * 30 + rank];
            if (label_id < 0) continue;
            ++n_found;
            CHECK(touched[row][label_id]);
            CHECK(dense.scores[row * 30 + rank] == doctest::Approx(scores[row][label_id]).epsilon(1e-5));
            if (rank < 3) CHECK(three.label_ids[row * 3 + rank] == label_id);
        }
        CHECK(n_found == std::count(touched[row].begin(), touched[row].end(), true));
    }
}

TEST_CASE("products agree with the definition") {
    const Problem problem(2, 37, 9, 5, 0.3);
    Random random(1, 1);
    Control control;
    for (const std::int64_t width : {1, 5, 64, 100}) {
        std::vector<float> w(problem.n_features * width);
        for (float& value : w) value = static_cast<float>(random.normal());
        const DenseView view{problem.n_features, width, w};
        const auto dense = multiply(problem.dense(), view, 2, control);
        const auto sparse = multiply(problem.sparse(), view, 1, control);
        const TopLabels top = multiply_top_k(problem.dense(), view, 2, 1, control);
        for (std::int64_t row = 0; row < problem.n_rows; ++row) {
            double best = -1e30;
            for (std::int64_t column = 0; column < width; ++column) {
                double sum = 0.0;
                for (std::int64_t i = 0; i < problem.n_features; ++i)
                    sum += static_cast<double>(problem.x[row * problem.n_features + i]) *
                           static_cast<double>(w[i * width + column]);
                CHECK(dense[row * width + column] == doctest::Approx(sum).epsilon(1e-4));
                CHECK(sparse[row * width + column] == doctest::Approx(sum).epsilon(1e-4));
                best = std::max(best, static_cast<double>(dense[row * width + column]));
            }
            CHECK(static_cast<double>(top.scores[row * 2]) == best);
            CHECK((top.label_ids[row * 2 + 1] == -1) == (width == 1));
        }
    }
}

TEST_CASE("a stop reaches a growing tree") {
    const Problem problem(4, 200, 5, 20, 0.2);
    Control control;
    Booster booster(problem.dense(), problem.labels(), small_params(5));
    control.cancel();
    CHECK_THROWS_AS(booster.grow(0, 2, control), Cancelled);
}
