#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

#include "base/random.hpp"
#include "fastxml/column_pool.hpp"
#include "fastxml/forest.hpp"
#include "fastxml/grow_tree.hpp"
#include "fastxml/l1_logistic.hpp"
#include "fastxml/logistic.hpp"
#include "fastxml/node_builder.hpp"
#include "fastxml/ranked_sides.hpp"
#include "tests/fastxml_problem.hpp"

using namespace longtail;
using namespace longtail::fastxml;

namespace {

// ---- naive twins: dense, double, everything anew in every step -------------------------------------------------

struct NaiveRanking {
    std::vector<std::int32_t> labels;  // of the node, by first appearance
    std::map<std::int32_t, double> discounts[2];
};

double ideal_dcg(std::size_t n, std::size_t top_k) {
    double sum = 0.0;
    for (std::size_t r = 0; r < std::min(n, top_k); ++r) sum += 1.0 / std::log(2.0 + static_cast<double>(r));
    return sum;
}

NaiveRanking naive_alternate(const Problem& p, const Rows& rows, std::vector<std::uint8_t>& sides,
                             const std::vector<double>& label_weights, std::size_t top_k) {
    NaiveRanking out;
    const LabelsView y = p.y();
    for (const std::int32_t row : rows)
        for (const std::int32_t l : y.row_labels(row))
            if (std::find(out.labels.begin(), out.labels.end(), l) == out.labels.end()) out.labels.push_back(l);
    const bool weighted = !label_weights.empty();
    const auto gain_of = [&](std::int32_t row) {
        const auto n = static_cast<std::size_t>(y.row_size(row));
        return weighted ? 1.0 : (n == 0 ? 0.0 : 1.0 / ideal_dcg(n, top_k));
    };
    for (bool moved = true; moved;) {
        for (const int side : {0, 1}) {
            std::vector<std::pair<double, std::size_t>> order;
            for (std::size_t k = 0; k < out.labels.size(); ++k) {
                double weight = 0.0;
                for (std::size_t i = 0; i < rows.size(); ++i) {
                    const auto labels = y.row_labels(rows[i]);
                    if (sides[i] == side && std::find(labels.begin(), labels.end(), out.labels[k]) != labels.end())
                        weight += gain_of(rows[i]) * (weighted ? label_weights[out.labels[k]] : 1.0);
                }
                order.emplace_back(-std::round(weight * 1e5), k);  // equal weights are ties, whatever the order of sums
            }
            std::sort(order.begin(), order.end());
            for (std::size_t r = 0; r < order.size(); ++r)
                out.discounts[side][out.labels[order[r].second]] =
                    r < top_k ? 1.0 / std::log(2.0 + static_cast<double>(r)) : 0.0;
        }
        moved = false;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            double preference = 0.0;
            for (const std::int32_t l : y.row_labels(rows[i]))
                preference += (weighted ? label_weights[l] : 1.0) * (out.discounts[1][l] - out.discounts[0][l]);
            if (std::fabs(preference) < 1e-6) continue;
            const std::uint8_t side = preference > 0.0 ? 1 : 0;
            moved = moved || side != sides[i];
            sides[i] = side;
        }
    }
    return out;
}

struct NaiveTree {
    std::vector<std::int32_t> right_child;
    std::vector<std::vector<std::int32_t>> leaf_rows;
    double closest = 1e9;  // how near a side or a zero weight came to being decided otherwise
};

void naive_grow(const Problem& p, const Rows& rows, std::size_t max_leaf, Random& coins, NaiveTree& tree) {
    const std::size_t id = tree.right_child.size();
    tree.right_child.push_back(0);
    tree.leaf_rows.emplace_back();
    Rows left;
    Rows right;
    if (rows.size() > max_leaf) {
        std::vector<std::uint8_t> sides;
        for (std::size_t i = 0; i < rows.size(); ++i) sides.push_back(coins.coin() ? 1 : 0);
        const NaiveRanking ranking = naive_alternate(p, rows, sides, {}, 1000000);
        const bool is_pure = std::all_of(rows.begin(), rows.end(), [&](std::int32_t row) {
            return p.y().row_labels(row).size() == ranking.labels.size();
        });
        const auto n_right = static_cast<double>(std::count(sides.begin(), sides.end(), 1));
        const auto n = static_cast<double>(rows.size());
        if (n_right > 0.0 && n_right < n && !is_pure) {
            std::vector<double> a;
            for (const std::uint8_t side : sides) a.push_back(side != 0 ? n / n_right : -n / (n - n_right));
            const std::vector<double> w = naive_l1_logistic(p, rows, a, tree.closest);
            for (const std::int32_t row : rows) {
                double score = w.back();
                for (std::int64_t j = 0; j < p.n_features; ++j)
                    score += w[static_cast<std::size_t>(j)] * p.dense[static_cast<std::size_t>(row * p.n_features + j)];
                if (score != 0.0) tree.closest = std::min(tree.closest, std::fabs(score));
                (score >= 0.0 ? right : left).push_back(row);
            }
        }
    }
    if (left.empty() || right.empty()) {
        tree.leaf_rows[id] = rows;
        return;
    }
    naive_grow(p, left, max_leaf, coins, tree);
    tree.right_child[id] = static_cast<std::int32_t>(tree.right_child.size());
    naive_grow(p, right, max_leaf, coins, tree);
}

}  // namespace

TEST_CASE("the fast logistic functions agree with the library's to float precision") {
    for (double x = -80.0; x < 80.0; x += 0.0137) {
        CHECK(fast_exp(static_cast<float>(x)) ==
              doctest::Approx(std::exp(static_cast<double>(static_cast<float>(x)))).epsilon(1e-6));
        const double loss = std::max(0.0, -x) + std::log1p(std::exp(-std::fabs(x)));
        CHECK(logistic_loss(static_cast<float>(x)) == doctest::Approx(loss).epsilon(4e-6));
    }
}

TEST_CASE("sums over lists agree with naive ones for every length") {
    Random random(1, 2);
    for (std::int64_t n = 0; n < 70; ++n) {
        std::vector<std::int32_t> rows;
        std::vector<float> values;
        std::vector<float> a;
        double dot = 0.0;
        double square_dot = 0.0;
        for (std::int64_t i = 0; i < 100; ++i) a.push_back(static_cast<float>(random.normal()));
        for (std::int64_t k = 0; k < n; ++k) {
            rows.push_back(static_cast<std::int32_t>(random.below(100)));
            values.push_back(static_cast<float>(random.normal()));
            dot += static_cast<double>(values[k]) * a[rows[k]];
            square_dot += static_cast<double>(values[k]) * values[k] * a[rows[k]];
        }
        CHECK(kernels::dot_list(rows.data(), values.data(), n, a.data()) == doctest::Approx(dot).epsilon(1e-4));
        CHECK(kernels::square_dot_list(rows.data(), values.data(), n, a.data()) ==
              doctest::Approx(square_dot).epsilon(1e-4));
    }
}

TEST_CASE("sides and rankings agree with the naive alternation") {
    for (std::uint64_t seed = 0; seed < 36; ++seed) {
        // Few labels are ranked by counting, more are sorted, in two ways. Sums of many labels are nearly equal unless
        // they are whole multiples of a quarter, as with label weights.
        const std::int64_t n_labels = seed < 30 ? 9 : (seed < 33 ? 300 : 1500);
        const Problem p = make_problem(seed, 10 + static_cast<std::int64_t>(seed) * 3, 8, n_labels, 0.2);
        const bool weighted = seed % 3 == 2 || seed >= 30;
        const std::size_t top_k = seed % 3 == 1 ? 3 : 1000000;
        std::vector<float> label_weights;
        std::vector<double> naive_weights;
        for (std::int64_t l = 0; weighted && l < p.n_labels; ++l) {
            label_weights.push_back(1.0F + 0.25F * static_cast<float>(l));
            naive_weights.push_back(1.0 + 0.25 * static_cast<double>(l));
        }
        const Rows rows = all_rows(p);
        std::vector<std::uint8_t> sides;
        Random coins(seed, 5);
        for (std::size_t i = 0; i < rows.size(); ++i) sides.push_back(coins.coin() ? 1 : 0);
        std::vector<std::uint8_t> naive_sides = sides;
        RankConfig config = kRanking;
        config.top_k = top_k == 3 ? 3 : 0;
        config.normalise = !weighted;
        RankedSides ranked(p.n_labels, config);
        ranked.load(rows, p.y(), label_weights);
        ranked.alternate(sides, {});
        const NaiveRanking naive = naive_alternate(p, rows, naive_sides, naive_weights, top_k);
        CHECK(sides == naive_sides);
        REQUIRE(ranked.node_labels().size() == naive.labels.size());
        for (std::size_t k = 0; k < naive.labels.size(); ++k)
            for (const int side : {0, 1})
                CHECK(ranked.discounts(side == 1)[k] ==
                      doctest::Approx(naive.discounts[side].at(ranked.node_labels()[k])).epsilon(1e-6));
    }
}

TEST_CASE("a row of weight three is ranked like three equal rows") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Problem p = make_problem(seed, 60, 20, 8, 0.2);
        Rows repeated;
        std::vector<float> row_weights;
        std::vector<std::uint8_t> sides;
        std::vector<std::uint8_t> repeated_sides;
        Random random(seed, 11);
        for (const std::int32_t row : all_rows(p)) {
            const int times = 1 + static_cast<int>(random.below(3));
            row_weights.push_back(static_cast<float>(times));
            sides.push_back(random.coin() ? 1 : 0);
            repeated.insert(repeated.end(), times, row);
            repeated_sides.insert(repeated_sides.end(), times, sides.back());
        }
        RankedSides weighted(p.n_labels, kRanking);
        RankedSides plain(p.n_labels, kRanking);
        weighted.load(all_rows(p), p.y(), {}, row_weights);
        plain.load(repeated, p.y(), {});
        weighted.alternate(sides, {});
        plain.alternate(repeated_sides, {});
        std::vector<std::uint8_t> expected;
        for (std::size_t i = 0; i < sides.size(); ++i)
            expected.insert(expected.end(), static_cast<std::size_t>(row_weights[i]), sides[i]);
        CHECK(repeated_sides == expected);
        CHECK(weighted.gain(sides) == doctest::Approx(plain.gain(repeated_sides)));
    }
}

TEST_CASE("columns handed down from node to node are those of the node's rows") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        const Problem p = make_problem(seed, 200, 40, 6, 0.1);
        constexpr float kCost = 2.0F;
        const FeatureColumns columns_of_x = transpose(p.x());
        ColumnPool pool(columns_of_x.view(), kCost);
        Random random(seed, 8);
        struct Part {
            Rows rows;
            ColumnPool::Node columns;
        };
        std::vector<Part> parts{{all_rows(p), pool.root()}};
        while (!parts.empty()) {
            const Part part = parts.back();
            parts.pop_back();
            std::vector<double> a;
            for (std::size_t i = 0; i < part.rows.size(); ++i) a.push_back(random.coin() ? kCost : -kCost);
            const AlignedVector<float> costs = padded_costs(a);
            std::map<std::int32_t, float> found[2];
            double objectives[2];
            for (const bool is_pooled : {false, true}) {
                NodeBuilder builder(p.x(), 1.0F);
                const ColumnsView columns = is_pooled ? pool.view(part.columns) : ColumnsView{};
                L1Logistic solver;
                solver.weights.clear();
                if (builder.build(part.rows, costs, false, columns)) {
                    for (std::int32_t j = 0; j < builder.columns().n_columns; ++j)
                        found[is_pooled][builder.columns().feature_ids[j]] = builder.starts()[j].gradient;
                    Random order(seed, 3);
                    solver.solve(builder.columns(), costs, builder.starts(), kConverged, order);
                    objectives[is_pooled] = solver.objective(costs);
                } else {
                    objectives[is_pooled] = 0.0;
                }
            }
            REQUIRE(found[0].size() == found[1].size());
            for (const auto& [feature, gradient] : found[0])
                CHECK(found[1].at(feature) == doctest::Approx(gradient).epsilon(1e-4));
            CHECK(objectives[1] == doctest::Approx(objectives[0]).epsilon(1e-4));
            if (part.rows.size() < 20) {
                pool.drop(part.columns);
                continue;
            }
            Part left;
            Part right;
            std::vector<std::int32_t> places;
            for (const std::int32_t row : part.rows) {
                Part& side = random.below(3) == 0 ? right : left;
                const auto place = static_cast<std::int32_t>(side.rows.size());
                places.push_back(&side == &left ? place : ~place);
                side.rows.push_back(row);
            }
            pool.split(part.columns, places, true, true, left.columns, right.columns);
            parts.push_back(right);
            parts.push_back(left);
        }
    }
}

TEST_CASE("a tree equals the naive one, split by split") {
    int n_compared = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Problem p = make_problem(seed, 40, 14, 5, 0.2);
        NaiveTree naive;
        Random coins(seed, 2 * 3);
        naive_grow(p, all_rows(p), 8, coins, naive);
        if (naive.closest < 1e-2) continue;  // what is on the border may fall either way
        ++n_compared;
        TreeConfig config = kTree;
        config.max_leaf_size = 8;
        config.leaf_labels = 1000;
        config.solver = kConverged;
        config.seed = seed;
        config.stream = 3;
        Control control;
        for (const bool dense : {false, true}) {
            const Tree tree =
                grow_tree(dense ? FeaturesView(p.dense_x()) : FeaturesView(p.x()), p.y(), {}, {}, config, control);
            REQUIRE(tree.right_child == naive.right_child);
            for (std::size_t node = 0; node < naive.leaf_rows.size(); ++node) {
                std::map<std::int32_t, double> shares;
                for (const std::int32_t row : naive.leaf_rows[node])
                    for (const std::int32_t l : p.y().row_labels(row))
                        shares[l] += 1.0 / static_cast<double>(naive.leaf_rows[node].size());
                std::map<std::int32_t, double> found;
                for (std::int64_t k = tree.leaf_indptr[node]; k < tree.leaf_indptr[node + 1]; ++k)
                    found[tree.leaf_labels[static_cast<std::size_t>(k)]] =
                        tree.leaf_values[static_cast<std::size_t>(k)];
                REQUIRE(found.size() == shares.size());
                for (const auto& [l, share] : shares) CHECK(found.at(l) == doctest::Approx(share).epsilon(1e-5));
            }
        }
    }
    CHECK(n_compared >= 5);
}

TEST_CASE("the objective never rises from one update of the separator to the next") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Problem p = make_problem(seed, 200, 20, 12, 0.2);
        TreeConfig config = kTree;
        config.n_updates = 6;
        config.seed = seed;
        config.right_cost = seed % 2 == 0 ? 1.0F : 2.0F;
        config.ranking.ranking_cost = seed % 4 < 2 ? 1.0F : 5.0F;
        Control control;
        const Tree tree = grow_tree(p.x(), p.y(), {}, {}, config, control);
        REQUIRE(!tree.root_objectives.empty());
        for (std::size_t u = 1; u < tree.root_objectives.size(); ++u)
            CHECK(tree.root_objectives[u] <= tree.root_objectives[u - 1] + 1e-3);
    }
}

TEST_CASE("check_forest refuses walks that leave the forest or never end") {
    const std::vector<std::int32_t> roots{0};
    std::vector<std::int32_t> right{2, 0, 0};
    const std::vector<float> biases{0.0F, 0.0F, 0.0F};
    const std::vector<std::int64_t> split_indptr{0, 1, 1, 1};
    std::vector<std::int32_t> features{1};
    const std::vector<float> weights{1.0F};
    const std::vector<std::int64_t> leaf_indptr{0, 0, 1, 2};
    std::vector<std::int32_t> labels{0, 1};
    const std::vector<float> values{0.5F, 0.5F};
    const auto check = [&] {
        check_forest({roots, right, biases, split_indptr, features, weights, leaf_indptr, labels, values}, 2, 2);
    };
    CHECK_NOTHROW(check());
    right = {1, 0, 0};
    CHECK_THROWS_AS(check(), std::invalid_argument);
    right = {3, 0, 0};
    CHECK_THROWS_AS(check(), std::invalid_argument);
    right = {-1, 0, 0};
    CHECK_THROWS_AS(check(), std::invalid_argument);
    right = {2, 0, 0};
    features = {2};
    CHECK_THROWS_WITH(check(), "forest: split names 2, but ids end at 1");
    features = {1};
    labels = {0, -1};
    CHECK_THROWS_AS(check(), std::invalid_argument);
}
