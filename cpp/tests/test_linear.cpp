#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "linear/background.hpp"
#include "linear/coarse_rows.hpp"
#include "linear/gram.hpp"
#include "linear/list_trainer.hpp"
#include "linear/losses.hpp"
#include "linear/postings.hpp"
#include "linear/predict_ova.hpp"
#include "linear/row_copies.hpp"
#include "linear/row_dual.hpp"
#include "linear/row_newton.hpp"
#include "linear/rows.hpp"
#include "linear/starts.hpp"
#include "linear/train_ova.hpp"
#include "tests/csr_rows.hpp"

using namespace longtail;
using namespace longtail::linear;

namespace {

const OvaConfig kConfig{Loss::squared_hinge, 1.0, 0.01,  1.0F, true, 0.01F, true, 100,
                        CgRule::residual,    0.1, false, false};
const OvaStart kStart{StartKind::mean_separating, 1.0, -2.0, -2.0, {}, {}, {}, {}, {}};

std::vector<double> densify(const Csr& csr, std::int64_t row, double bias) {
    std::vector<double> out(static_cast<std::size_t>(csr.n_cols) + 1, 0.0);
    for (std::int64_t i = csr.indptr[row]; i < csr.indptr[row + 1]; ++i) out[csr.indices[i]] = csr.values[i];
    out.back() = bias;
    return out;
}

double naive_dot(const std::vector<double>& a, const std::vector<double>& b) {
    double total = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
    return total;
}

template <class Function>
double lane(Function&& function, double z) {
    return function(Lanes{} + static_cast<float>(z))[3];
}

Subproblem make_problem(const Csr& csr, std::int64_t n_positives) {
    Subproblem problem;
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(csr.indptr.size()) - 1; ++row)
        problem.append(row, row < n_positives ? 1.0F : -1.0F, row < n_positives ? 2.0F : 0.5F, 0.0F);
    return problem;
}

// ½‖w‖² + Σ c max(0, 1 - y·w·x)² in float64.
double naive_objective(const Csr& csr, const Subproblem& problem, const std::vector<double>& w, double bias) {
    double total = 0.5 * naive_dot(w, w);
    for (std::int64_t i = 0; i < problem.size(); ++i) {
        const double gap = 1.0 - problem.signs[i] * naive_dot(densify(csr, problem.row_ids[i], bias), w);
        if (gap > 0.0) total += problem.costs[i] * gap * gap;
    }
    return total;
}

}  // namespace

TEST_CASE("the lanes' exp and log are right to float32") {
    for (double x = 0.0; x < 80.0; x += 0.37) {
        CHECK(lane(exp_minus, x) == doctest::Approx(std::exp(-x)).epsilon(2e-6));
    }
    for (double u = 0.0; u <= 1.0; u += 0.01)
        CHECK(lane(log_one_plus, u) == doctest::Approx(std::log1p(u)).epsilon(1e-6));
}

TEST_CASE_TEMPLATE("slope and curvature of a loss are its finite differences", Loss, SquaredHinge, Logistic) {
    for (double z = -4.05; z < 6.0; z += 0.1) {
        if (std::abs(z - 1.0) < 0.06) continue;  // the squared hinge bends there
        const double h = 0.02;
        const double slope = (lane(Loss::value, z + h) - lane(Loss::value, z - h)) / (2 * h);
        CHECK(lane(Loss::slope, z) == doctest::Approx(slope).epsilon(2e-3));
        const double bend = (lane(Loss::slope, z + h) - lane(Loss::slope, z - h)) / (2 * h);
        CHECK(lane(Loss::curvature, z) == doctest::Approx(bend).epsilon(2e-3));
    }
}

TEST_CASE("row kernels agree with the naive ones, sparse and dense") {
    const Csr csr = random_rows(40, 37, 0.3, 1);
    std::vector<float> dense_values;
    for (std::int64_t row = 0; row < 40; ++row)
        for (std::int64_t col = 0; col < 37; ++col)
            dense_values.push_back(static_cast<float>(densify(csr, row, 0.0)[col]));
    const SparseRows sparse(csr.view());
    const DenseRows dense(DenseView{40, 37, dense_values});
    Random random(2, 0);
    std::vector<float> weights(37);
    AlignedVector<Lanes> lanes(37 * 2);
    for (int col = 0; col < 37; ++col) {
        weights[col] = static_cast<float>(random.normal());
        for (int at = 0; at < kLanes; ++at) {
            lanes[col * 2][at] = weights[col];
            lanes[col * 2 + 1][at] = 2.0F * weights[col];
        }
    }
    for (std::int64_t row = 0; row < 40; ++row) {
        double expected = 0.0;
        for (int col = 0; col < 37; ++col) expected += densify(csr, row, 0.0)[col] * weights[col];
        CHECK(sparse.dot(row, weights.data()) == doctest::Approx(expected).epsilon(1e-4));
        CHECK(dense.dot(row, weights.data()) == doctest::Approx(expected).epsilon(1e-4));
        Lanes out[2] = {Lanes{} + 1.0F, Lanes{}};
        sparse.lane_dots<2>(row, lanes.data(), out);
        CHECK(out[0][5] == doctest::Approx(1.0 + expected).epsilon(1e-4));
        CHECK(out[1][5] == doctest::Approx(2.0 * expected).epsilon(1e-4));
        Lanes from_dense[2] = {Lanes{} + 1.0F, Lanes{}};
        dense.lane_dots<2>(row, lanes.data(), from_dense);
        CHECK(from_dense[1][9] == doctest::Approx(2.0 * expected).epsilon(1e-4));
        std::vector<double> sum_sparse(37, 1.0);
        std::vector<double> sum_dense(37, 1.0);
        sparse.add_to(row, 3.0, sum_sparse.data());
        dense.add_to(row, 3.0, sum_dense.data());
        for (int col = 0; col < 37; ++col) {
            CHECK(sum_sparse[col] == doctest::Approx(1.0 + 3.0 * densify(csr, row, 0.0)[col]));
            CHECK(sum_dense[col] == sum_sparse[col]);
        }
    }
}

TEST_CASE("a Gram matrix holds the products of its rows, however it has grown") {
    const Csr csr = random_rows(90, 50, 0.2, 3);
    const SparseRows rows(csr.view());
    AlignedVector<Lanes> scatter(50 * GramMatrix::kBlocks, Lanes{});
    GramMatrix gram;
    std::vector<std::int32_t> row_ids;
    for (const std::size_t size : {std::size_t{5}, std::size_t{40}, std::size_t{41}, std::size_t{90}}) {
        while (row_ids.size() < size) row_ids.push_back(static_cast<std::int32_t>((row_ids.size() * 37) % 90));
        gram.extend(rows, row_ids, 0.5F, scatter.data());
        REQUIRE(gram.size() == static_cast<std::int64_t>(size));
        for (std::size_t i = 0; i < size; ++i)
            for (std::size_t j = 0; j < size; ++j) {
                const double expected = naive_dot(densify(csr, row_ids[i], 0.5), densify(csr, row_ids[j], 0.5));
                CHECK(gram.row(static_cast<std::int64_t>(i))[j] == doctest::Approx(expected).epsilon(1e-4));
            }
    }
    for (const Lanes& entry : scatter)
        for (int at = 0; at < kLanes; ++at) REQUIRE(entry[at] == 0.0F);
}

// The objective that RowDual reaches on copies of the rows whose features are numbered by `Feature`.
template <class Feature>
double dual_objective(const Csr& csr, const OvaConfig& config, std::int64_t n_positives) {
    Subproblem problem = make_problem(csr, n_positives);
    std::vector<float> weights(static_cast<std::size_t>(csr.n_cols) + 1, 0.0F);
    RowCopies<Feature> copies;
    std::vector<float> norms;
    for (std::int64_t row = 0; row < csr.n_rows(); ++row) {
        const std::vector<double> x = densify(csr, row, 0.0);
        norms.push_back(static_cast<float>(std::sqrt(naive_dot(x, x))));
    }
    copies.copy(SparseRows(csr.view()), problem.row_ids, norms, config.bias);
    RowDual solver(csr.n_cols, config);
    solver.begin(problem, copies, weights.data());
    solver.solve(problem, copies, weights.data(), 1e-3, 0.0);
    const std::vector<double> w(weights.begin(), weights.end());
    for (std::int64_t i = 0; i < problem.size(); ++i)
        CHECK(problem.margins[i] == doctest::Approx(naive_dot(densify(csr, i, 1.0), w)).epsilon(1e-4));
    return naive_objective(csr, problem, w, 1.0);
}

TEST_CASE("solving by Gram matrix, by rows and in the dual leads to the same minimum") {
    const Csr csr = random_rows(120, 60, 0.2, 4);
    const SparseRows rows(csr.view());
    OvaConfig config = kConfig;
    config.bias = 1.0F;
    for (const std::int64_t n_positives : {std::int64_t{1}, std::int64_t{10}, std::int64_t{60}}) {
        Subproblem by_gram = make_problem(csr, n_positives);
        AlignedVector<Lanes> scatter(60 * GramMatrix::kBlocks, Lanes{});
        by_gram.gram.extend(rows, by_gram.row_ids, config.bias, scatter.data());
        const InnerResult inner = GramSolver().solve(by_gram, 1e-3, 0.0, true);
        CHECK(inner.gradient_norm <= 1e-3);
        std::vector<double> w(61, 0.0);
        for (std::int64_t i = 0; i < by_gram.size(); ++i)
            for (std::size_t f = 0; f < 61; ++f) w[f] += by_gram.betas[i] * densify(csr, i, 1.0)[f];

        Subproblem by_rows = make_problem(csr, n_positives);
        std::vector<float> weights(61, 0.0F);
        RowSolver<SparseRows> solver(rows, config);
        CHECK(solver.solve(by_rows, weights.data(), 1e-3, 0.0).gradient_norm <= 1e-3);
        const std::vector<double> other(weights.begin(), weights.end());
        const double objective = naive_objective(csr, by_gram, w, 1.0);
        CHECK(objective == doctest::Approx(naive_objective(csr, by_gram, other, 1.0)).epsilon(1e-5));
        CHECK(objective == doctest::Approx(dual_objective<std::uint16_t>(csr, config, n_positives)).epsilon(1e-5));
        CHECK(objective == doctest::Approx(dual_objective<std::int32_t>(csr, config, n_positives)).epsilon(1e-5));
        // No direction leads further down.
        Random random(5, 0);
        for (int trial = 0; trial < 20; ++trial) {
            std::vector<double> moved = w;
            for (double& entry : moved) entry += 0.01 * random.normal();
            CHECK(naive_objective(csr, by_gram, moved, 1.0) >= objective - 1e-4);
        }
    }
}

TEST_CASE("the mean-separating start meets its two conditions, also in the degenerate cases") {
    const MeanSeparation usual = separate_means(1.5, 1.1, 1.2, 0.01, 1.0, -2.0);
    CHECK(usual.u * 1.5 + usual.v * 1.1 == doctest::Approx(1.0));
    const double x_margin = usual.u * 1.1 + usual.v * 1.2;  // of the mean of all rows: (|N|t + |P|s) / n
    CHECK(x_margin == doctest::Approx(0.99 * -2.0 + 0.01 * 1.0));
    const MeanSeparation parallel = separate_means(4.0, 2.0, 1.0, 0.1, 1.0, -2.0);
    CHECK(parallel.u == 0.0);
    CHECK(parallel.v == 0.0);
    const MeanSeparation orthogonal = separate_means(2.0, 0.0, 3.0, 0.1, 1.0, -2.0);
    CHECK(orthogonal.u == doctest::Approx(0.5));
    CHECK(orthogonal.v == doctest::Approx((0.9 * -2.0 + 0.1) / 3.0));
}

// Rows of one to five words with values above zero, a few of the words in many rows.
Csr short_rows(std::int64_t n_rows, std::int32_t n_cols, std::uint64_t seed) {
    Random random(seed, 0);
    Csr out;
    out.n_cols = n_cols;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        std::vector<std::int32_t> words;
        const int size = 1 + static_cast<int>(5.0 * random.uniform());
        for (int i = 0; i < size; ++i) {
            const double place = random.uniform();
            words.push_back(static_cast<std::int32_t>(place * place * place * n_cols));
        }
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        for (const std::int32_t word : words) {
            out.indices.push_back(word);
            out.values.push_back(static_cast<float>(1.0 / std::sqrt(static_cast<double>(words.size()))));
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    }
    return out;
}

// ‖∇L(w)‖ over all rows in float64.
double naive_gradient_norm(const Csr& csr, const std::vector<char>& is_positive, const std::vector<double>& w,
                           double cost) {
    std::vector<double> gradient = w;
    for (std::int64_t row = 0; row < std::ssize(is_positive); ++row) {
        const double sign = is_positive[row] ? 1.0 : -1.0;
        const double gap = 1.0 - sign * (csr.dot(row, w) + w.back());
        if (gap <= 0.0) continue;
        const double slope = 2.0 * cost * sign * gap;
        csr.add_to(row, -slope, gradient);
        gradient.back() -= slope;
    }
    return std::sqrt(naive_dot(gradient, gradient));
}

// Rows of about ten large entries and about a hundred small ones.
Csr documents(std::int64_t n_rows, std::int32_t n_cols, std::uint64_t seed) {
    Random random(seed, 0);
    Csr out;
    out.n_cols = n_cols;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int32_t col = 0; col < n_cols; ++col) {
            const double place = random.uniform() * n_cols;
            if (place > 110.0) continue;
            out.indices.push_back(col);
            out.values.push_back(static_cast<float>((place < 10.0 ? 0.3 : 0.008) * (0.5 + random.uniform())));
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    }
    return out;
}

// Train 24 labels, of one to seven rows in `spread`, and check eq. 12 and 13 on the results.
template <class Rows>
void check_stopping_rule(const Csr& csr, const Rows& rows, const OvaConfig& config, std::int32_t spread,
                         const std::optional<CsrView>& coarse = {}) {
    const auto n_rows = static_cast<std::int32_t>(csr.n_rows());
    const auto n_features = static_cast<std::size_t>(csr.n_cols);
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> row_ids;
    for (std::int32_t label = 0; label < 24; ++label) {
        for (std::int32_t row = label; row < n_rows; row += spread / (1 + label % 7)) row_ids.push_back(row);
        indptr.push_back(static_cast<std::int64_t>(row_ids.size()));
    }
    const std::vector<float> mean = mean_row(rows, 1.0F);
    const std::vector<float> margins = row_margins(rows, mean, 1.0F);
    const OvaLabels labels{{24, n_rows, indptr, row_ids}, {}};
    Control control;
    const OvaResult result =
        train_ova(rows, labels, OvaMoments{mean, margins, {}, {}, coarse}, kStart, config, control);
    for (std::int64_t label = 0; label < 24; ++label) {
        std::vector<char> is_positive(n_rows, 0);
        for (std::int64_t i = indptr[label]; i < indptr[label + 1]; ++i) is_positive[row_ids[i]] = 1;
        std::vector<double> w(n_features + 1, 0.0);
        const double zero = naive_gradient_norm(csr, is_positive, w, config.cost);
        for (std::int64_t i = result.indptr[label]; i < result.indptr[label + 1]; ++i)
            w[result.feature_ids[i]] = result.weights[i];
        w[n_features] = result.biases[label];
        const double n_positives = static_cast<double>(indptr[label + 1] - indptr[label]);
        // Weights are rounded to float32 when they are handed over.
        CHECK(naive_gradient_norm(csr, is_positive, w, config.cost) <=
              0.01 * n_positives / n_rows * zero * 1.01 + 1e-4);
        CHECK(result.statistics.converged[label] == 1);
    }
}

TEST_CASE("labels of short rows obey the stopping rule over all rows") {
    for (const double cost : {0.1, 1.0, 10.0}) {
        const Csr csr = short_rows(600, 150, 7);
        OvaConfig config = kConfig;
        config.cost = cost;
        config.prune_below = 0.0F;
        check_stopping_rule(csr, SparseRows(csr.view()), config, 600);
    }
}

TEST_CASE("labels that are trained through lists of words obey the stopping rule over all rows") {
    for (const double cost : {0.1, 0.3, 1.0, 10.0}) {
        const Csr csr = text_rows(6000, 4000, 13);
        OvaConfig config = kConfig;
        config.cost = cost;
        config.prune_below = 0.0F;
        REQUIRE(ListTrainer::suits(SparseRows(csr.view()), config));
        REQUIRE(!PostingsTrainer::suits(SparseRows(csr.view()), config));
        check_stopping_rule(csr, SparseRows(csr.view()), config, 6000);
    }
}

TEST_CASE("lists of words are for few words per row, as measured by the number of rows") {
    CHECK(ListTrainer::suits(SparseRows(text_rows(6000, 4000, 13).view()), kConfig));
    CHECK_FALSE(ListTrainer::suits(SparseRows(text_rows(1500, 2000, 13).view()), kConfig));
}

TEST_CASE("frequent labels end near the minimum, through lists of words too") {
    constexpr std::int32_t kRows = 6000;
    const Csr csr = text_rows(kRows, 4000, 13);
    const SparseRows rows(csr.view());
    const std::vector<float> mean = mean_row(rows, 1.0F);
    const std::vector<float> margins = row_margins(rows, mean, 1.0F);
    const OvaMoments moments{mean, margins, {}};
    std::vector<std::int32_t> row_ids;
    for (std::int32_t row = 0; row < kRows; row += 10) row_ids.push_back(row);
    const std::vector<std::int64_t> indptr{0, std::ssize(row_ids)};
    const OvaLabels labels{{1, kRows, indptr, row_ids}, {}};
    OvaConfig config = kConfig;
    config.cost = 4.0;
    config.prune_below = 0.0F;
    REQUIRE(ListTrainer::suits(rows, config));
    REQUIRE(!PostingsTrainer::suits(rows, config));
    Control control;
    const double objective = train_ova(rows, labels, moments, kStart, config, control).statistics.last_objective[0];
    config.tolerance *= 1e-3;
    const double least = train_ova(rows, labels, moments, kStart, config, control).statistics.last_objective[0];
    CHECK(objective <= least * 1.0001);
}

TEST_CASE("shared word lists give the bytes that a task's own do") {
    const Csr csr = text_rows(6000, 4000, 13);
    const SparseRows rows(csr.view());
    OvaConfig config = kConfig;
    config.cost = 0.1;
    REQUIRE(ListTrainer::suits(rows, config));
    REQUIRE(!PostingsTrainer::suits(rows, config));
    const std::vector<float> mean = mean_row(rows, 1.0F);
    const std::vector<float> margins = row_margins(rows, mean, 1.0F);
    const std::vector<std::int64_t> indptr{0, 1, 3, 7};
    const std::vector<std::int32_t> row_ids{5, 20, 30, 100, 200, 300, 400};
    const OvaLabels labels{{3, 6000, indptr, row_ids}, {}};
    Control control;
    OvaMoments moments{mean, margins, {}};
    const OvaResult own = train_ova(rows, labels, moments, kStart, config, control);
    const WordListParts parts(rows);
    const std::vector<double> background = solve_background(rows, moments, config, control).flattened();
    moments.postings = parts.view();
    moments.background = background;
    CHECK(moments.has_word_lists());
    const OvaResult shared = train_ova(rows, labels, moments, kStart, config, control);
    CHECK(own.feature_ids == shared.feature_ids);
    CHECK(own.weights == shared.weights);
    CHECK(own.biases == shared.biases);
}

TEST_CASE("labels of long sparse rows obey the stopping rule over all rows") {
    for (const double cost : {0.1, 1.0, 10.0}) {
        const Csr csr = random_rows(700, 2500, 0.02, 11);
        OvaConfig config = kConfig;
        config.bias = 1.0F;
        config.cost = cost;
        config.prune_below = 0.0F;
        check_stopping_rule(csr, SparseRows(csr.view()), config, 350);
    }
}

TEST_CASE("coarse rows keep the large entries and most of every row's square") {
    Csr csr = documents(50, 1000, 3);
    csr.indptr.push_back(csr.indptr.back());        // a row without entries
    for (std::int32_t col = 0; col < 900; ++col) {  // a row of small entries only
        csr.indices.push_back(col);
        csr.values.push_back(0.01F + 1e-6F * static_cast<float>(col));
    }
    csr.indptr.push_back(static_cast<std::int64_t>(csr.indices.size()));
    const auto coarse = make_coarse_rows(SparseRows(csr.view()));
    REQUIRE(coarse);
    const Csr found{coarse->indptr, coarse->indices, coarse->values, csr.n_cols};
    REQUIRE(found.n_rows() == csr.n_rows());
    CHECK(found.indices.size() < csr.indices.size() / 2);
    for (std::int64_t row = 0; row < csr.n_rows(); ++row) {
        const std::vector<double> all = csr.dense(row);
        const std::vector<double> kept = found.dense(row);
        const double square = naive_dot(all, all);
        CHECK(naive_dot(kept, kept) >= 0.9 * square);
        for (std::size_t f = 0; f < all.size(); ++f) {
            if (kept[f] != 0.0) CHECK(kept[f] == all[f]);
            if (all[f] >= 0.03 * std::sqrt(square)) CHECK(kept[f] == all[f]);
        }
    }
    CHECK(!make_coarse_rows(SparseRows(random_rows(50, 100, 0.2, 4).view())));  // hardly any entry is small
}

TEST_CASE("coarse rows with what they have in common have the products of whole rows with their mean") {
    const Csr csr = documents(60, 1000, 5);
    const SparseRows rows(csr.view());
    const auto coarse = make_coarse_rows(rows);
    REQUIRE(coarse);
    const Csr kept{coarse->indptr, coarse->indices, coarse->values, csr.n_cols};
    const std::vector<float> margins = row_margins(rows, mean_row(rows, 0.0F), 0.0F);
    const std::vector<CoarsePart> parts = measure_coarse_rows(SparseRows(kept.view()), margins);
    REQUIRE(std::ssize(parts) == csr.n_rows());
    for (std::int64_t row = 0; row < csr.n_rows(); ++row) {
        double sum = 0.0;
        for (std::int64_t other = 0; other < csr.n_rows(); ++other)
            sum += naive_dot(kept.dense(row), kept.dense(other)) + parts[row].common * parts[other].common;
        CHECK(sum / static_cast<double>(csr.n_rows()) == doctest::Approx(margins[row]).epsilon(1e-4));
        CHECK(parts[row].square == doctest::Approx(naive_dot(kept.dense(row), kept.dense(row))).epsilon(1e-5));
    }
}

TEST_CASE("labels that are solved over coarse rows first obey the stopping rule over all entries") {
    for (const double cost : {0.5, 1.0, 4.0, 10.0, 16.0}) {
        const Csr csr = documents(700, 2500, 12);
        OvaConfig config = kConfig;
        config.cost = cost;
        config.prune_below = 0.0F;
        const auto coarse = make_coarse_rows(SparseRows(csr.view()));
        REQUIRE(coarse);
        check_stopping_rule(csr, SparseRows(csr.view()), config, 350,
                            CsrView{csr.n_rows(), csr.n_cols, coarse->indptr, coarse->indices, coarse->values});
    }
}

// At high costs these leave the dual, some of them on the way from a rough solution.
TEST_CASE("labels whose sets have more rows than features obey the stopping rule") {
    for (const double cost : {4.0, 10.0, 16.0}) {
        const Csr csr = documents(3000, 110, 13);
        OvaConfig config = kConfig;
        config.cost = cost;
        config.prune_below = 0.0F;
        const auto coarse = make_coarse_rows(SparseRows(csr.view()));
        REQUIRE(coarse);
        check_stopping_rule(csr, SparseRows(csr.view()), config, 350);
        check_stopping_rule(csr, SparseRows(csr.view()), config, 350,
                            CsrView{csr.n_rows(), csr.n_cols, coarse->indptr, coarse->indices, coarse->values});
    }
}

TEST_CASE("frequent labels of dense rows obey the stopping rule over all rows") {
    for (const double cost : {0.1, 1.0, 10.0}) {
        const Csr csr = random_rows(600, 21, 1.0, 9);
        OvaConfig config = kConfig;
        config.cost = cost;
        config.prune_below = 0.0F;
        check_stopping_rule(csr, DenseRows(DenseView{600, 21, csr.values}), config, 15);
    }
}

TEST_CASE("the background is the minimum for a label without positives") {
    const Csr csr = short_rows(500, 80, 8);
    const SparseRows rows(csr.view());
    const std::vector<float> mean = mean_row(rows, 1.0F);
    Control control;
    Background found = solve_background(rows, OvaMoments{mean, {}, {}}, kConfig, control);
    std::vector<double> w = found.weights;
    w.push_back(found.shift - 1.0);
    CHECK(naive_gradient_norm(csr, std::vector<char>(500, 0), w, 1.0) ==
          doctest::Approx(found.residual_norm).epsilon(1e-6));
    CHECK(found.residual_norm <= 0.002 * 2.0);
    const double pull = found.pull;
    const Background again{std::move(found).flattened()};
    CHECK(again.weights.size() == 80);
    CHECK(again.pull == pull);
}

TEST_CASE("training stops on request") {
    const Csr csr = random_rows(50, 20, 0.3, 6);
    const std::vector<std::int64_t> indptr{0, 2};
    const std::vector<std::int32_t> row_ids{3, 4};
    const SparseRows rows(csr.view());
    const std::vector<float> mean = mean_row(rows, 1.0F);
    const std::vector<float> margins = row_margins(rows, mean, 1.0F);
    Control control;
    control.cancel();
    const OvaLabels labels{{1, 50, indptr, row_ids}, {}};
    const OvaMoments moments{mean, margins, {}};
    CHECK_THROWS_AS(train_ova(rows, labels, moments, kStart, kConfig, control), Cancelled);
}

TEST_CASE("an index from a file is refused unless it is one") {
    const std::vector<std::int64_t> indptr{0, 2, 3};
    std::vector<std::int32_t> label_ids{0, 1, 1};
    const std::vector<float> weights{1.0F, 2.0F, 3.0F};
    const std::vector<float> biases{0.0F, 0.5F};
    const std::vector<std::int64_t> counts{1, 1};
    OvaIndex index{2, indptr, label_ids, weights, {}, {}, biases, counts, {}};
    CHECK_NOTHROW(check_index(index, 2));
    CHECK_THROWS_AS(check_index(index, 3), std::invalid_argument);
    label_ids[1] = 0;
    CHECK_THROWS_AS(check_index(index, 2), std::invalid_argument);
    label_ids[1] = 2;
    CHECK_THROWS_AS(check_index(index, 2), std::invalid_argument);
}

TEST_CASE("exact weights stand in for codes of zero, for one row and for many alike") {
    Random random(31, 0);
    constexpr std::int64_t kLabels = 90;
    constexpr std::int64_t kCols = 20;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int64_t> exact_indptr{0};
    std::vector<std::int32_t> label_ids;
    std::vector<std::int32_t> exact_label_ids;
    std::vector<std::int8_t> codes;
    std::vector<float> exact_weights;
    std::vector<double> naive(kCols * kLabels, 0.0);
    std::vector<float> scales;
    for (std::int64_t label = 0; label < kLabels; ++label) scales.push_back(0.01F + 0.001F * static_cast<float>(label));
    for (std::int64_t f = 0; f < kCols; ++f) {
        for (std::int32_t label = 0; label < kLabels; ++label) {
            if (random.uniform() < 0.5) continue;
            const bool is_exact = random.uniform() < 0.1;
            label_ids.push_back(label);
            codes.push_back(is_exact ? 0 : static_cast<std::int8_t>(1 + 126.0 * random.uniform()));
            naive[f * kLabels + label] = static_cast<double>(scales[label]) * codes.back();
            if (!is_exact) continue;
            exact_label_ids.push_back(label);
            exact_weights.push_back(static_cast<float>(300.0 * random.uniform()));
            naive[f * kLabels + label] = static_cast<double>(scales[label]) * exact_weights.back();
        }
        indptr.push_back(static_cast<std::int64_t>(label_ids.size()));
        exact_indptr.push_back(static_cast<std::int64_t>(exact_label_ids.size()));
    }
    const std::vector<float> biases(kLabels, 0.25F);
    const std::vector<std::int64_t> counts(kLabels, 1);
    OvaIndex index{kLabels, indptr, label_ids, {}, codes, scales, biases, counts};
    index.exact_indptr = exact_indptr;
    index.exact_label_ids = exact_label_ids;
    index.exact_weights = exact_weights;
    const Csr csr = random_rows(400, kCols, 0.5, 32);
    Control control;
    const TopLabels many = predict_ova(index, csr.view(), kLabels, 1, control);
    for (const std::int64_t row : {0, 7, 399}) {
        Csr one;
        one.n_cols = kCols;
        for (std::int64_t i = csr.indptr[row]; i < csr.indptr[row + 1]; ++i) {
            one.indices.push_back(csr.indices[i]);
            one.values.push_back(csr.values[i]);
        }
        one.indptr.push_back(static_cast<std::int64_t>(one.indices.size()));
        const TopLabels few = predict_ova(index, one.view(), kLabels, 1, control);
        const std::vector<double> x = densify(csr, row, 0.0);
        for (std::int64_t rank = 0; rank < kLabels; ++rank) {
            const std::int32_t label = many.label_ids[row * kLabels + rank];
            double score = 0.25;
            for (std::int64_t f = 0; f < kCols; ++f) score += x[f] * naive[f * kLabels + label];
            CHECK(many.scores[row * kLabels + rank] == doctest::Approx(score).epsilon(1e-5));
            CHECK(few.label_ids[rank] == label);
            CHECK(few.scores[rank] == many.scores[row * kLabels + rank]);
        }
    }
}
