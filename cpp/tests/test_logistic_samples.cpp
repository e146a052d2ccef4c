// The logistic loss with samples of the rows, against Newton steps over all rows and naive sums in float64.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/control.hpp"
#include "csr_rows.hpp"
#include "linear/logistic_samples.hpp"
#include "linear/sampled_logistic.hpp"
#include "linear/train_ova.hpp"

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
    OvaResult train(const OvaConfig& config, const OvaStart& start) const {
        Control control;
        return train_ova(SparseRows(csr.view()), labels(), OvaMoments{mean, mean_margins, {}}, start, config, control);
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
            const std::vector<double> x = csr.dense(row);
            const double margin = std::inner_product(x.begin(), x.end(), w.begin(), bias);
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

TEST_CASE("samples of the rows lead to the minimum of Newton steps over all rows") {
    for (const bool is_weighted : {false, true})
        for (const double scale : {0.3, 2.0}) {
            const Problem problem(1500, 200, 0.05, scale, is_weighted);
            for (const double cost : {0.1, 1.0, 10.0}) {
                const double tolerance = 1e-4;
                const OvaResult ours = problem.train(make_config(cost, true, tolerance), kSeparating);
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

}  // namespace longtail::linear
