#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "label_tree/beam.hpp"
#include "label_tree/grow_shape.hpp"
#include "label_tree/label_vectors.hpp"
#include "label_tree/train_nodes.hpp"
#include "tests/csr_rows.hpp"

using namespace longtail;
using namespace longtail::label_tree;

namespace {

void check_all(const ForestView& forest, std::int64_t n_features, std::int64_t n_labels) {
    check_trees(forest, n_features, n_labels);
    for (std::int64_t node = 0; node < forest.shape.n_nodes(); ++node) check_weights(forest, node);
}

const TrainConfig kConfig{{Loss::squared_hinge, 1.0F, 0.1F, 20, 1.0F}, 0.1F};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

Shape grow(const Csr& vectors, const ShapeConfig& config, std::uint64_t seed = 1, int n_threads = 1) {
    Control control;
    std::vector<std::int32_t> ids(vectors.indptr.size() - 1);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
    return grow_shape(vectors.view(), ids, config, seed, n_threads, control);
}

ShapeView view(const Shape& shape) { return {shape.child_indptr, shape.child_ids}; }

void collect_labels(const ShapeView& shape, std::int32_t child, std::set<std::int32_t>& out) {
    if (is_label(child)) {
        out.insert(~child);
        return;
    }
    for (const std::int32_t below : shape.children(child)) collect_labels(shape, below, out);
}

// Sixty rows with eight labels, and a tree over them.
struct Problem {
    Csr x = random_rows(60, 12, 0.4, 3);
    Csr rows_of_labels;
    Shape shape;
    Problem() {
        Random random(5, 0);
        rows_of_labels.n_cols = 60;
        for (std::int32_t label = 0; label < 8; ++label) {
            for (std::int32_t row = 0; row < 60; ++row)
                if (random.uniform() < 0.25) rows_of_labels.indices.push_back(row);
            rows_of_labels.indptr.push_back(static_cast<std::int64_t>(rows_of_labels.indices.size()));
        }
        ShapeConfig config;
        config.fan_out = 2;
        config.max_leaf = 2;
        Control control;
        const LabelVectors vectors = mean_rows(x.view(), rows_of_labels.labels(), {}, 1, control);
        Csr csr{vectors.indptr, vectors.indices, vectors.values, x.n_cols};
        shape = grow(csr, config);
    }
    EdgeWeights train(const TrainConfig& config, int n_threads = 1) const {
        Control control;
        const TrainData data{x.view(), rows_of_labels.labels(), {}, {}, {}};
        std::vector<std::int32_t> ids(shape.child_indptr.size() - 1);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
        return train_nodes(data, view(shape), ids, config, 7, n_threads, control);
    }
};

const std::vector<std::int32_t> kRoots{0};

ForestView forest_of(const Shape& shape, const EdgeWeights& edges) {
    return {view(shape),
            kRoots,
            edges.feature_indptr,
            edges.feature_ids,
            edges.row_begins,
            edges.entry_begins,
            edges.edges,
            edges.weights,
            {},
            {},
            edges.biases};
}

// Dense weights of each edge of a node.
std::vector<std::vector<double>> dense_edges(const ForestView& forest, std::int64_t node, std::int64_t n_cols) {
    std::vector<std::vector<double>> out(forest.shape.children(node).size(), std::vector<double>(n_cols, 0.0));
    const std::int64_t first = forest.feature_indptr[node];
    const std::int64_t last = forest.feature_indptr[node + 1];
    for (std::int64_t at = first; at < last; ++at) {
        const std::int64_t begin = forest.entry_begins[node] + forest.row_begins[at];
        const std::int64_t end =
            at + 1 < last ? forest.entry_begins[node] + forest.row_begins[at + 1] : forest.entry_begins[node + 1];
        for (std::int64_t i = begin; i < end; ++i) out[forest.edges[i]][forest.feature_ids[at]] = forest.weights[i];
    }
    return out;
}

TrainConfig precise(Loss loss) {
    TrainConfig config = kConfig;
    config.solver = {loss, 2.0F, 1e-3F, 20000, 0.5F};
    config.prune_below = 0.0F;
    return config;
}

}  // namespace

TEST_CASE("label vectors are unit means of unit rows") {
    const Problem problem;
    Control control;
    const LabelVectors found = mean_rows(problem.x.view(), problem.rows_of_labels.labels(), {}, 2, control);
    const Csr csr{found.indptr, found.indices, found.values, problem.x.n_cols};
    for (std::int64_t label = 0; label < 8; ++label) {
        std::vector<double> sum(problem.x.n_cols, 0.0);
        for (const std::int32_t row : problem.rows_of_labels.labels().row_labels(label)) {
            const auto dense = problem.x.dense(row);
            const double norm = std::sqrt(dot(dense, dense));
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += norm > 0 ? dense[i] / norm : 0.0;
        }
        const double norm = std::sqrt(dot(sum, sum));
        const auto vector = csr.dense(label);
        for (std::size_t i = 0; i < sum.size(); ++i) CHECK(vector[i] == doctest::Approx(sum[i] / norm).epsilon(1e-4));
    }
}

TEST_CASE("a grown tree holds every label once, within its limits, the same for any number of threads") {
    const Csr vectors = random_rows(203, 40, 0.2, 11);
    for (const auto clustering : {Clustering::balanced, Clustering::k_means}) {
        ShapeConfig config;
        config.clustering = clustering;
        config.fan_out = 5;
        config.max_leaf = 9;
        const Shape shape = grow(vectors, config);
        std::set<std::int32_t> labels;
        collect_labels(view(shape), 0, labels);
        CHECK(labels.size() == 203);
        CHECK(std::count_if(shape.child_ids.begin(), shape.child_ids.end(), is_label) == 203);
        for (std::int64_t node = 0; node < view(shape).n_nodes(); ++node) {
            const auto children = view(shape).children(node);
            const bool is_leaf = std::all_of(children.begin(), children.end(), is_label);
            CHECK(children.size() <= (is_leaf ? 9U : 5U));
            for (const std::int32_t child : children) CHECK((is_label(child) || child > node));
        }
        CHECK(grow(vectors, config, 1, 3).child_ids == shape.child_ids);
    }
}

TEST_CASE("clusters that a reader can see are found") {
    // Labels 0, 2, 4, … have feature 0, the others feature 1.
    Csr vectors;
    vectors.n_cols = 2;
    for (std::int32_t label = 0; label < 20; ++label) {
        vectors.indices.push_back(label % 2);
        vectors.values.push_back(1.0F);
        vectors.indptr.push_back(label + 1);
    }
    for (const auto clustering : {Clustering::balanced, Clustering::k_means}) {
        ShapeConfig config;
        config.clustering = clustering;
        config.fan_out = 2;
        config.max_leaf = 10;
        bool is_found = false;
        for (std::uint64_t seed = 0; seed < 8 && !is_found; ++seed) {
            const Shape shape = grow(vectors, config, seed);
            std::set<std::int32_t> labels;
            collect_labels(view(shape), shape.child_ids[0], labels);
            is_found = labels.size() == 10 && std::all_of(labels.begin(), labels.end(), [&](std::int32_t label) {
                           return label % 2 == *labels.begin() % 2;
                       });
        }
        CHECK(is_found);
    }
}

TEST_CASE("edge weights minimise the regularised loss over the rows that reach their node") {
    const Problem problem;
    for (const auto loss : {Loss::squared_hinge, Loss::logistic}) {
        const TrainConfig config = precise(loss);
        const EdgeWeights edges = problem.train(config);
        const ForestView forest = forest_of(problem.shape, edges);
        check_all(forest, problem.x.n_cols, 8);
        for (std::int64_t node = 0; node < forest.shape.n_nodes(); ++node) {
            const auto children = forest.shape.children(node);
            std::vector<std::set<std::int32_t>> members(children.size());
            std::set<std::int32_t> rows;
            for (std::size_t edge = 0; edge < children.size(); ++edge) {
                std::set<std::int32_t> labels;
                collect_labels(forest.shape, children[edge], labels);
                for (const std::int32_t label : labels)
                    for (const std::int32_t row : problem.rows_of_labels.labels().row_labels(label))
                        members[edge].insert(row);
                rows.insert(members[edge].begin(), members[edge].end());
            }
            const auto weights = dense_edges(forest, node, problem.x.n_cols);
            for (std::size_t edge = 0; edge < children.size(); ++edge) {
                // The objective f has f(w) - min f <= ½‖∇f(w)‖², because ½‖w‖² is part of it.
                std::vector<double> gradient = weights[edge];
                const double bias = edges.biases[forest.shape.child_indptr[node] + edge];
                double bias_gradient = bias / config.solver.bias;
                double objective = 0.5 * (dot(weights[edge], weights[edge]) + bias_gradient * bias_gradient);
                for (const std::int32_t row : rows) {
                    const auto x = problem.x.dense(row);
                    const double y = members[edge].count(row) ? 1.0 : -1.0;
                    const double z = y * (dot(weights[edge], x) + bias);
                    const double slope =
                        loss == Loss::squared_hinge ? -2.0 * std::max(0.0, 1.0 - z) : -1.0 / (1.0 + std::exp(z));
                    objective += config.solver.cost * (loss == Loss::squared_hinge
                                                           ? std::max(0.0, 1.0 - z) * std::max(0.0, 1.0 - z)
                                                           : std::log1p(std::exp(-z)));
                    for (std::size_t i = 0; i < x.size(); ++i) gradient[i] += config.solver.cost * slope * y * x[i];
                    bias_gradient += config.solver.cost * slope * y * config.solver.bias;
                }
                CAPTURE(static_cast<int>(loss));
                CHECK(0.5 * (dot(gradient, gradient) + bias_gradient * bias_gradient) < 0.005 * objective);
            }
        }
    }
}

TEST_CASE("weights do not depend on threads; pruned ones are those of small size") {
    const Problem problem;
    TrainConfig config = kConfig;
    config.prune_below = 0.0F;
    const EdgeWeights all = problem.train(config);
    CHECK(problem.train(config, 3).weights == all.weights);
    config.prune_below = 0.2F;
    const EdgeWeights kept = problem.train(config);
    CHECK(kept.weights.size() ==
          static_cast<std::size_t>(std::count_if(all.weights.begin(), all.weights.end(),
                                                 [](float weight) { return std::abs(weight) > 0.2F; })));
}

TEST_CASE("a beam as wide as the tree ranks as the products along all paths do") {
    const Problem problem;
    const EdgeWeights edges = problem.train(kConfig);
    const ForestView forest = forest_of(problem.shape, edges);
    const Csr queries = random_rows(30, 12, 0.5, 17);
    Control control;
    for (const float path_weight : {1.0F, 0.5F})
        for (const Link link : {Link{1, 1.0F}, Link{2, 1.0F}, Link{3, 1.0F}, Link{0, 2.0F}}) {
            const TopLabels found = predict_beam(queries.view(), forest, {100, link, path_weight}, 8, 2, control);
            for (std::int64_t row = 0; row < 30; ++row) {
                const auto x = queries.dense(row);
                std::map<std::int32_t, double> expected;
                const auto walk = [&](auto&& self, std::int32_t node, double above) -> void {
                    const auto weights = dense_edges(forest, node, 12);
                    const auto children = forest.shape.children(node);
                    for (std::size_t edge = 0; edge < children.size(); ++edge) {
                        const double margin =
                            dot(weights[edge], x) + edges.biases[forest.shape.child_indptr[node] + edge];
                        const double own = link.power == 0 ? -std::log1p(std::exp(-link.slope * margin))
                                                           : -std::pow(std::max(0.0, 1.0 - margin), link.power);
                        if (is_label(children[edge]))
                            expected[~children[edge]] = std::exp(path_weight * above + own);
                        else
                            self(self, children[edge], above + own);
                    }
                };
                walk(walk, 0, 0.0);
                for (std::int64_t rank = 0; rank < 8; ++rank) {
                    const std::int32_t label = found.label_ids[row * 8 + rank];
                    const float score = found.scores[row * 8 + rank];
                    CHECK(score == doctest::Approx(expected.at(label)).epsilon(1e-3));
                    if (rank > 0) CHECK(found.scores[row * 8 + rank - 1] >= score);
                }
            }
        }
}

TEST_CASE("one row finds features by search, many rows by a table: same scores") {
    const Problem problem;
    const EdgeWeights edges = problem.train(kConfig);
    const ForestView forest = forest_of(problem.shape, edges);
    const Csr queries = random_rows(80, 12, 0.3, 19);
    Control control;
    const TopLabels all = predict_beam(queries.view(), forest, {2, {3, 1.0F}, 1.0F}, 3, 1, control);
    for (std::int64_t row = 0; row < 80; ++row) {
        Csr one;
        one.n_cols = 12;
        one.indices.assign(queries.indices.begin() + queries.indptr[row],
                           queries.indices.begin() + queries.indptr[row + 1]);
        one.values.assign(queries.values.begin() + queries.indptr[row],
                          queries.values.begin() + queries.indptr[row + 1]);
        one.indptr.push_back(static_cast<std::int64_t>(one.indices.size()));
        const TopLabels alone = predict_beam(one.view(), forest, {2, {3, 1.0F}, 1.0F}, 3, 1, control);
        for (int rank = 0; rank < 3; ++rank) {
            CHECK(alone.label_ids[rank] == all.label_ids[row * 3 + rank]);
            CHECK(alone.scores[rank] == all.scores[row * 3 + rank]);
        }
    }
}

TEST_CASE("routes name every row at every leaf when the beam is wide, and so many leaves per row when it is not") {
    const Problem problem;
    const EdgeWeights edges = problem.train(kConfig);
    const ForestView forest = forest_of(problem.shape, edges);
    Control control;
    const Routes wide = route_rows(problem.x.view(), forest, {100, {}, 1.0F}, 2, control);
    const Routes narrow = route_rows(problem.x.view(), forest, {2, {3, 1.0F}, 1.0F}, 2, control);
    CHECK(narrow.row_ids.size() == 120);
    for (std::int64_t node = 0; node < forest.shape.n_nodes(); ++node) {
        const auto children = forest.shape.children(node);
        const bool is_leaf = std::all_of(children.begin(), children.end(), is_label);
        CHECK(wide.indptr[node + 1] - wide.indptr[node] == (is_leaf ? 60 : 0));
    }
}

TEST_CASE("damaged forests are refused") {
    const Problem problem;
    EdgeWeights edges = problem.train(kConfig);
    Shape shape = problem.shape;
    const auto is_refused = [&] { CHECK_THROWS_AS(check_all(forest_of(shape, edges), 12, 8), std::invalid_argument); };
    check_all(forest_of(shape, edges), 12, 8);
    const auto damage = [&](auto& place, auto value) {
        const auto before = place;
        place = static_cast<std::remove_reference_t<decltype(place)>>(value);
        is_refused();
        place = before;
    };
    damage(shape.child_ids[0], 0);
    damage(shape.child_ids[0], 1000);
    damage(shape.child_ids[1], shape.child_ids[0]);
    damage(shape.child_ids.back(), ~1000);
    damage(shape.child_indptr[1], -1);
    damage(shape.child_indptr.back(), 5);
    damage(edges.feature_ids[0], 12);
    damage(edges.feature_ids[1], edges.feature_ids[0]);
    damage(edges.row_begins[0], 1);
    damage(edges.row_begins[1], 100000);
    damage(edges.edges[0], 200);
    damage(edges.entry_begins[1], 1 << 30);
    damage(edges.feature_indptr[1], -5);
    edges.biases.pop_back();
    is_refused();
}
