// The logistic loss with samples of the rows, against Newton steps over all rows and naive sums in float64.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "base/control.hpp"
#include "csr_rows.hpp"
#include "linear/logistic_samples.hpp"
#include "linear/sampled_logistic.hpp"
#include "linear/train_ova.hpp"
#include "linear/transpose.hpp"

namespace longtail::linear {
namespace {

constexpr std::int32_t kLabels = 15;  // with one row to fifteen: labels with more rows are trained by Newton steps

struct Problem {
    Csr csr;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> row_ids;
    std::vector<float> positive_weights;
    std::vector<float> row_weights;
    std::vector<float> mean;
    std::vector<float> mean_margins;

    Problem(std::int32_t n_rows, std::int32_t n_features, double density, double scale, bool is_weighted)
        : csr(random_rows(n_rows, n_features, density, 3)) {
        for (float& value : csr.values) value *= static_cast<float>(scale);
        for (std::int32_t label = 0; label < kLabels; ++label) {
            for (std::int32_t row = label; row < n_rows; row += n_rows / (1 + label)) row_ids.push_back(row);
            indptr.push_back(static_cast<std::int64_t>(row_ids.size()));
        }
        for (std::int32_t i = 0; is_weighted && i < kLabels; ++i)
            positive_weights.push_back(1.0F + 0.2F * static_cast<float>(i));
        for (std::int32_t i = 0; is_weighted && i < n_rows; ++i) row_weights.push_back(i % 3 == 0 ? 0.3F : 1.4F);
        mean = mean_row(SparseRows(csr.view()), 1.0F);
        mean_margins = row_margins(SparseRows(csr.view()), mean, 1.0F);
    }
    OvaLabels labels() const { return {{kLabels, csr.n_rows(), indptr, row_ids}, positive_weights, row_weights}; }
    OvaResult train(const OvaConfig& config, const OvaStart& start,
                    const std::optional<RowBlocksView>& blocks = {}) const {
        Control control;
        OvaMoments moments{mean, mean_margins, {}};
        moments.blocks = blocks;
        return train_ova(SparseRows(csr.view()), labels(), moments, start, config, control);
    }
    double objective(const OvaResult& result, std::int64_t label, double cost) const {
        std::vector<double> w(csr.n_cols, 0.0);
        for (std::int64_t i = result.indptr[label]; i < result.indptr[label + 1]; ++i)
            w[result.feature_ids[i]] = result.weights[i];
        const double bias = result.biases[label];
        std::vector<char> is_positive(csr.n_rows(), 0);
        for (std::int64_t i = indptr[label]; i < indptr[label + 1]; ++i) is_positive[row_ids[i]] = 1;
        double total = 0.5 * (std::inner_product(w.begin(), w.end(), w.begin(), 0.0) + bias * bias);
        for (std::int64_t row = 0; row < csr.n_rows(); ++row) {
            const double margin = csr.dot(row, w) + bias;
            const double weight = (positive_weights.empty() || !is_positive[row] ? 1.0 : positive_weights[label]) *
                                  (row_weights.empty() ? 1.0 : row_weights[row]);
            total += cost * weight * std::log1p(std::exp(is_positive[row] ? -margin : margin));
        }
        return total;
    }
};

OvaConfig make_config(double cost, bool samples, double tolerance) {
    return {Loss::logistic, cost, tolerance, 1.0F, true, 0.0F, samples, 200, CgRule::residual, 0.1, false, true};
}

const OvaStart kSeparating{StartKind::mean_separating, 1.0, -3.0, 0.0, {}, {}, {}, {}, {}};

}  // namespace

TEST_CASE("blocks of rows give the margins and gradients of the rows") {
    const Csr csr = random_rows(2 * RowBlocks::kRows + 100, 70, 0.2, 4);  // the last block is not full
    const SparseRows rows(csr.view());
    REQUIRE(RowBlocks::suits(rows));
    const RowBlockParts parts(rows);
    const RowBlocks blocks(rows, parts.view());
    REQUIRE(blocks.size() == 3);
    std::vector<std::vector<double>> weights(kLanes, std::vector<double>(70));
    std::vector<std::vector<double>> gradients = weights;
    AlignedVector<Lanes> table(70);
    AlignedVector<Lanes> sums(70);
    for (int f = 0; f < 70; ++f)
        for (int at = 0; at < kLanes; ++at) {
            weights[at][f] = 0.1 * ((7 * f + 3 * at) % 11) - 0.5;
            table[f][at] = static_cast<float>(weights[at][f]);
            gradients[at][f] = 0.01 * at;
            sums[f][at] = 0.01F * static_cast<float>(at);
        }
    for (std::int64_t block = 0; block < blocks.size(); ++block) {
        AlignedVector<Lanes> of_rows(RowBlocks::kRows, Lanes{} + 0.25F);
        blocks.add_margins(block, table.data(), of_rows.data());
        const std::int64_t begin = block * RowBlocks::kRows;
        for (std::int64_t i = 0; i < RowBlocks::kRows; ++i)
            for (int at = 0; at < kLanes; ++at) {
                const bool is_row = begin + i < rows.n_rows();
                const double margin = 0.25 + (is_row ? csr.dot(begin + i, weights[at]) : 0.0);
                CHECK(of_rows[i][at] == doctest::Approx(margin).epsilon(1e-5));
                if (is_row) csr.add_to(begin + i, margin, gradients[at]);
            }
        blocks.add_gradients(block, of_rows.data(), sums.data());
    }
    for (int f = 0; f < 70; ++f)
        for (int at = 0; at < kLanes; ++at) CHECK(sums[f][at] == doctest::Approx(gradients[at][f]).epsilon(1e-4));
}

TEST_CASE("samples of the rows lead to the minimum of Newton steps over all rows") {
    for (const bool is_weighted : {false, true})
        for (const double scale : {0.3, 2.0}) {
            const Problem problem(1500, 200, 0.05, scale, is_weighted);
            const RowBlockParts parts(SparseRows(problem.csr.view()));
            std::optional<RowBlocksView> blocks;
            if (is_weighted == (scale == 2.0)) blocks = parts.view();  // else passes go row by row
            for (const double cost : {0.1, 1.0, 10.0}) {
                const double tolerance = 5e-4;  // at 1e-4, rounding decides whether some labels converge
                const OvaResult ours = problem.train(make_config(cost, true, tolerance), kSeparating, blocks);
                const OvaResult newton = problem.train(make_config(cost, false, tolerance), kSeparating);
                for (std::int64_t label = 0; label < kLabels; ++label) {
                    CHECK(ours.statistics.converged[label] == 1);
                    const double reached = problem.objective(ours, label, cost);
                    CHECK(reached == doctest::Approx(problem.objective(newton, label, cost)).epsilon(2e-5));
                    CHECK(ours.statistics.last_objective[label] == doctest::Approx(reached).epsilon(1e-4));
                    CHECK(ours.statistics.first_objective[label] >= reached * (1.0 - 1e-5));
                }
            }
        }
}

TEST_CASE("labels that begin at their own weights end where the others end") {
    const Problem problem(1500, 200, 0.05, 0.3, false);
    const OvaConfig config = make_config(1.0, true, 1e-4);
    const OvaResult first = problem.train(config, kSeparating);
    OvaStart own = kSeparating;
    own.kind = StartKind::own;
    own.own_weights = {kLabels, problem.csr.n_cols, first.indptr, first.feature_ids, first.weights};
    own.own_biases = first.biases;
    const OvaResult again = problem.train(config, own);
    for (std::int64_t label = 0; label < kLabels; ++label) {
        CHECK(again.statistics.iterations[label] <= 1);
        CHECK(problem.objective(again, label, 1.0) ==
              doctest::Approx(problem.objective(first, label, 1.0)).epsilon(1e-6));
    }
}

TEST_CASE("a step with all rows in the sample minimises the objective itself") {
    const Csr csr = random_rows(90, 30, 0.3, 5);
    const SparseRows rows(csr.view());
    LogisticSample sample;
    // At w = 0: G = Σ c(½ - t)x, the betas begin at c(t - ½), and x·v + Kβ at -x·G.
    std::vector<double> gradient(31, 0.0);
    for (std::int32_t row = 0; row < 90; ++row) {
        const float cost = row % 4 == 0 ? 3.0F : 0.5F;
        const float target = row % 7 == 0 ? 1.0F : 0.0F;
        sample.append(row, cost, target, cost * (target - 0.5F), false);
        rows.add_to(row, static_cast<double>(cost) * (0.5 - target), gradient.data());
        gradient.back() += static_cast<double>(cost) * (0.5 - target);
    }
    const std::vector<float> first = {sample.betas.begin(), sample.betas.end()};
    for (std::int32_t row = 0; row < 90; ++row) {
        const std::vector<double> x = csr.dense(row);
        sample.margins[row] =
            static_cast<float>(-std::inner_product(x.begin(), x.end(), gradient.begin(), gradient.back()));
    }
    AlignedVector<Lanes> scatter(30 * GramMatrix::kBlocks, Lanes{});
    sample.gram.extend(rows, sample.row_ids, 1.0F, scatter.data());
    SampledLogistic().solve(sample, 1e-4);
    std::vector<double> w(31);
    for (std::size_t f = 0; f < 31; ++f) w[f] = -gradient[f];
    for (std::int32_t row = 0; row < 90; ++row) {
        const double move = static_cast<double>(sample.betas[row]) - first[row];
        rows.add_to(row, move, w.data());
        w.back() += move;
    }
    std::vector<double> left = w;
    for (std::int32_t row = 0; row < 90; ++row) {
        const std::vector<double> x = csr.dense(row);
        const double margin = std::inner_product(x.begin(), x.end(), w.begin(), w.back());
        CHECK(sample.margins[row] == doctest::Approx(margin).epsilon(1e-3));
        const double slope = sample.costs[row] * (1.0 / (1.0 + std::exp(-margin)) - sample.targets[row]);
        rows.add_to(row, slope, left.data());
        left.back() += slope;
    }
    for (const double entry : left) CHECK(std::abs(entry) < 5e-4);
}

TEST_CASE("drawn rows are shifted to the mean of the rows that they stand for") {
    constexpr std::int32_t kRows = 90;
    constexpr std::size_t kWidth = 31;
    const Csr csr = random_rows(kRows, 30, 0.3, 5);
    const SparseRows rows(csr.view());
    std::vector<float> earlier(kWidth);
    for (std::size_t f = 0; f < kWidth; ++f) earlier[f] = 0.1F * static_cast<float>(f % 5) - 0.3F;
    const auto dense = [&](std::int32_t row) {
        std::vector<double> x = csr.dense(row);
        x.resize(kWidth);
        x.back() = 1.0;
        return x;
    };
    const auto chance = [](double margin) { return 1.0 / (1.0 + std::exp(-margin)); };
    const auto product = [](const auto& a, const auto& b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    // Every ninth row is a positive and stands for itself; every third of the others is drawn.
    LogisticSample sample;
    std::vector<float> margins;
    std::vector<double> gradient(kWidth, 0.0);
    std::vector<double> rest(kWidth, 0.0);        // Σ slope · x of the negatives,
    std::vector<double> drawn_rest(kWidth, 0.0);  // and of those drawn
    double slope_sum = 0.0;
    double rest_sum = 0.0;
    double drawn_sum = 0.0;
    std::int32_t n_negatives = 0;
    for (std::int32_t row = 0; row < kRows; ++row) {
        const bool is_positive = row % 9 == 0;
        const std::vector<double> x = dense(row);
        const double margin = product(x, earlier);
        const double slope = chance(margin) - (is_positive ? 1.0 : 0.0);
        const bool is_drawn = !is_positive && n_negatives++ % 3 == 0;
        slope_sum += slope;
        rest_sum += is_positive ? 0.0 : slope;
        drawn_sum += is_drawn ? slope : 0.0;
        for (std::size_t f = 0; f < kWidth; ++f) {
            gradient[f] += slope * x[f];
            rest[f] += is_positive ? 0.0 : slope * x[f];
            drawn_rest[f] += is_drawn ? slope * x[f] : 0.0;
        }
        if (!is_positive && !is_drawn) continue;
        const double cost = is_positive ? 1.0 : 3.0;
        sample.append(row, static_cast<float>(cost), is_positive ? 1.0F : 0.0F, static_cast<float>(-cost * slope),
                      is_drawn);
        margins.push_back(static_cast<float>(margin));
    }
    for (std::int64_t i = 0; i < sample.size(); ++i)
        sample.margins[i] = static_cast<float>(-product(dense(sample.row_ids[i]), gradient));
    AlignedVector<Lanes> scatter(30 * GramMatrix::kBlocks, Lanes{});
    sample.gram.extend(rows, sample.row_ids, 1.0F, scatter.data());
    sample.match_mean(slope_sum, product(gradient, gradient), product(gradient, earlier), margins);

    std::vector<double> shift(kWidth);
    for (std::size_t f = 0; f < kWidth; ++f) shift[f] = rest[f] / rest_sum - drawn_rest[f] / drawn_sum;
    const auto shifted = [&](std::int64_t i) {
        std::vector<double> x = dense(sample.row_ids[i]);
        for (std::size_t f = 0; f < kWidth; ++f) x[f] += sample.drawn[i] * shift[f];
        return x;
    };
    CHECK(sample.shift_square == doctest::Approx(product(shift, shift)).epsilon(1e-4));
    const AlignedVector<float> first = sample.betas;
    SampledLogistic().solve(sample, 1e-4);
    std::vector<double> w(kWidth);
    for (std::size_t f = 0; f < kWidth; ++f) w[f] = -gradient[f];
    for (std::int64_t i = 0; i < sample.size(); ++i) {
        const std::vector<double> x = shifted(i);
        for (std::size_t f = 0; f < kWidth; ++f) w[f] += (static_cast<double>(sample.betas[i]) - first[i]) * x[f];
    }
    // What is left of the model's gradient, with the drawn rows' slopes scaled to their sum.
    std::vector<double> left(kWidth);
    for (std::size_t f = 0; f < kWidth; ++f) left[f] = w[f] + gradient[f];
    for (std::int64_t i = 0; i < sample.size(); ++i) {
        const std::vector<double> x = shifted(i);
        const double margin = margins[i] + product(x, w) - product(x, earlier);
        CHECK(sample.margins[i] == doctest::Approx(margin).epsilon(1e-3));
        const double cost = sample.drawn[i] == 0.0F ? 1.0 : rest_sum / drawn_sum;
        CHECK(sample.costs[i] == doctest::Approx(cost).epsilon(1e-5));
        const double move = cost * (chance(margin) - chance(margins[i]));
        for (std::size_t f = 0; f < kWidth; ++f) left[f] += move * x[f];
    }
    for (const double entry : left) CHECK(std::abs(entry) < 1e-3);
}

TEST_CASE("a Gram matrix keeps the products of the rows that stay") {
    const Csr csr = random_rows(70, 30, 0.3, 5);
    const SparseRows rows(csr.view());
    AlignedVector<Lanes> scatter(30 * GramMatrix::kBlocks, Lanes{});
    std::vector<std::int32_t> row_ids(50);
    std::iota(row_ids.begin(), row_ids.end(), 0);
    GramMatrix kept;
    kept.extend(rows, row_ids, 1.0F, scatter.data());
    const std::vector<std::int32_t> places = {1, 2, 7, 30, 49};
    kept.keep(places);
    row_ids = places;
    for (std::int32_t row = 50; row < 70; ++row) row_ids.push_back(row);
    kept.extend(rows, row_ids, 1.0F, scatter.data());
    GramMatrix fresh;
    fresh.extend(rows, row_ids, 1.0F, scatter.data());
    REQUIRE(kept.size() == fresh.size());
    for (std::int64_t i = 0; i < fresh.size(); ++i)
        for (std::int64_t j = 0; j < GramMatrix::padded(fresh.size()); ++j)
            CHECK(kept.row(i)[j] == doctest::Approx(fresh.row(i)[j]).epsilon(1e-6));
}

TEST_CASE("transpose swaps rows and columns") {
    float from[kLanes][kLanes + 3];
    float to[kLanes][kLanes + 7];
    for (int i = 0; i < kLanes; ++i)
        for (int j = 0; j < kLanes + 3; ++j) from[i][j] = static_cast<float>(100 * i + j);
    transpose([&](int i) { return from[i]; }, [&](int j) { return to[j]; });
    for (int i = 0; i < kLanes; ++i)
        for (int j = 0; j < kLanes; ++j) CHECK(to[j][i] == static_cast<float>(100 * i + j));
}

}  // namespace longtail::linear
