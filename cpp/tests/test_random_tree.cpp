#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "random_tree/grow.hpp"
#include "random_tree/side_scores.hpp"
#include "tests/csr_rows.hpp"

using namespace longtail;
using random_tree::Config;
using random_tree::Criterion;
using random_tree::SideScores;
using random_tree::Tree;

namespace {

double naive_score(std::vector<double> sums, bool is_ndcg) {
    if (is_ndcg) {
        std::sort(sums.begin(), sums.end(), std::greater<>());
        double score = 0.0;
        for (std::size_t rank = 0; rank < sums.size(); ++rank)
            score += sums[rank] / std::log2(2.0 + static_cast<double>(rank));
        return score;
    }
    double total = 0.0;
    double squares = 0.0;
    for (const double sum : sums) {
        total += sum;
        squares += sum * sum;
    }
    return total > 0.0 ? squares / total : 0.0;
}

}  // namespace

TEST_CASE("scores of random trees' sides equal the naive ones while rows join") {
    for (const bool is_ndcg : {false, true}) {
        Random random(5, 0);
        SideScores scores(is_ndcg);
        for (int trial = 0; trial < 20; ++trial) {
            const std::int32_t n_labels = 1 + static_cast<std::int32_t>(random.below(9));
            std::vector<std::vector<std::int32_t>> rows(2 + random.below(12));
            std::vector<double> gains;
            std::vector<double> totals(n_labels, 0.0);
            for (auto& labels : rows) {
                gains.push_back(is_ndcg ? 0.1 + random.uniform() : 1.0);
                for (std::int32_t label = 0; label < n_labels; ++label) {
                    if (random.uniform() > 0.4) continue;
                    labels.push_back(label);
                    totals[label] += gains.back();
                }
            }
            scores.begin_node(totals);
            for (int side = 0; side < 2; ++side) {  // a second side starts empty again
                scores.begin_side();
                std::vector<double> sums(n_labels, 0.0);
                for (std::size_t row = 0; row < rows.size(); ++row) {
                    scores.add_row(rows[row], gains[row]);
                    std::vector<double> rest(n_labels);
                    for (const std::int32_t label : rows[row]) sums[label] += gains[row];
                    for (std::int32_t label = 0; label < n_labels; ++label) rest[label] = totals[label] - sums[label];
                    const double expected = naive_score(sums, is_ndcg) + naive_score(rest, is_ndcg);
                    if (row + 1 < rows.size()) CHECK(scores.score() == doctest::Approx(expected));
                }
            }
        }
    }
}

TEST_CASE("the rows of a random tree reach leaves with their labels, and a run can be stopped") {
    const Csr x = random_rows(80, 6, 0.5, 1);
    Csr y;
    y.n_cols = 80;
    for (std::int32_t row = 0; row < 80; ++row) {
        y.indices.push_back(row);
        y.indptr.push_back(row + 1);
    }
    std::vector<std::int64_t> row_ids(80);
    for (std::int64_t row = 0; row < 80; ++row) row_ids[row] = row;
    Control control;
    const Config config{Criterion::kGini, 3, 4, 1, 10, 7};
    const Tree tree = random_tree::grow(x.view(), y.labels(), row_ids, config, control);
    double depths = 0.0;
    for (std::int64_t row = 0; row < 80; ++row) {
        std::int32_t node = 0;
        for (; tree.split_features[node] >= 0; depths += 1.0) {
            float value = 0.0F;
            for (std::int64_t i = x.indptr[row]; i < x.indptr[row + 1]; ++i)
                if (x.indices[i] == tree.split_features[node]) value = x.values[i];
            node = tree.left_children[node] + (value <= tree.thresholds[node] ? 0 : 1);
        }
        CHECK(std::count(tree.leaf_label_ids.begin() + tree.leaf_begin[node],
                         tree.leaf_label_ids.begin() + tree.leaf_begin[node + 1], static_cast<std::int32_t>(row)) == 1);
    }
    CHECK(tree.mean_depth == doctest::Approx(depths / 80.0));
    control.cancel();
    CHECK_THROWS_AS(random_tree::grow(x.view(), y.labels(), row_ids, config, control), Cancelled);
}
