// Conjugate gradients at low costs, against Newton steps over all rows and naive sums in float64.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/control.hpp"
#include "csr_rows.hpp"
#include "linear/conjugate.hpp"
#include "linear/train_ova.hpp"

namespace longtail::linear {
namespace {

constexpr std::int64_t kRows = 900;
constexpr std::int64_t kLabels = 20;  // more than lanes; label l has l rows, and the last one half of all
const OvaStart kSeparating{StartKind::mean_separating, 1.0, -3.0, 0.0, {}, {}, {}, {}, {}};

OvaConfig make_config(double cost, bool working_sets, double tolerance) {
    return {Loss::squared_hinge, cost, tolerance,        1.0F, true,  0.0F,
            working_sets,        200,  CgRule::residual, 0.1,  false, true};
}

struct Problem {
    Csr csr = random_rows(kRows, 120, 0.1, 7);
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> row_ids;
    std::vector<float> positive_weights;
    std::vector<float> mean;
    std::vector<float> mean_margins;

    Problem() {
        for (float& value : csr.values) value *= 0.3F;
        csr.indptr.push_back(csr.indptr.back());  // a row without words
        for (std::int64_t label = 0; label < kLabels; ++label) {
            const std::int64_t n_rows = label + 1 < kLabels ? label : kRows / 2;
            for (std::int64_t i = 0; i < n_rows; ++i) row_ids.push_back(static_cast<std::int32_t>(i * kRows / n_rows));
            if (label == 3) row_ids.push_back(kRows);
            indptr.push_back(static_cast<std::int64_t>(row_ids.size()));
            positive_weights.push_back(label % 4 == 0 ? 3.0F : 1.0F);
        }
        mean = mean_row(SparseRows(csr.view()), 1.0F);
        mean_margins = row_margins(SparseRows(csr.view()), mean, 1.0F);
    }

    OvaResult train(const OvaConfig& config, std::int64_t first, std::int64_t last) const {
        Control control;
        const OvaLabels labels{
            {last - first, csr.n_rows(), std::span(indptr).subspan(first, last - first + 1), row_ids},
            std::span(positive_weights).subspan(first, last - first)};
        return train_ova(SparseRows(csr.view()), labels, OvaMoments{mean, mean_margins, {}}, kSeparating, config,
                         control);
    }

    struct Value {
        double objective;
        double gradient_norm;
    };
    double objective(const OvaResult& result, std::int64_t label, double cost) const {
        return value(result, label, cost, 1.0).objective;
    }
    // At the weights of a label times `scale`.
    Value value(const OvaResult& result, std::int64_t label, double cost, double scale) const {
        std::vector<double> w(csr.n_cols, 0.0);
        for (std::int64_t i = result.indptr[label]; i < result.indptr[label + 1]; ++i)
            w[result.feature_ids[i]] = scale * result.weights[i];
        const double bias = scale * result.biases[label];
        double total = 0.5 * (std::inner_product(w.begin(), w.end(), w.begin(), 0.0) + bias * bias);
        std::vector<double> gradient = w;
        gradient.push_back(bias);
        for (std::int64_t row = 0; row < csr.n_rows(); ++row) {
            const bool is_positive =
                std::binary_search(row_ids.begin() + indptr[label], row_ids.begin() + indptr[label + 1], row);
            const double margin = csr.dot(row, w) + bias;
            const double gap = std::max(0.0, 1.0 - (is_positive ? margin : -margin));
            const double row_cost = cost * (is_positive ? positive_weights[label] : 1.0F);
            total += row_cost * gap * gap;
            const double slope = (is_positive ? -2.0 : 2.0) * row_cost * gap;
            csr.add_to(row, slope, gradient);
            gradient.back() += slope;
        }
        return {total, std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0))};
    }
};

}  // namespace

TEST_CASE("conjugate gradients end within 1e-4 of the minimum, whatever the cost and the label") {
    const Problem problem;
    for (const double cost : {0.01, 0.1, 0.2}) {
        REQUIRE(ConjugateTrainer::suits(SparseRows(problem.csr.view()), kSeparating, make_config(cost, true, 0.01)));
        const OvaResult ours = problem.train(make_config(cost, true, 0.01), 0, kLabels);
        const OvaResult exact = problem.train(make_config(cost, false, 1e-6), 0, kLabels);
        for (std::int64_t label = 1; label < kLabels; ++label) {
            CHECK(ours.statistics.converged[label] == 1);
            const double reached = problem.objective(ours, label, cost);
            CHECK(reached <= (1.0 + 1e-4) * problem.objective(exact, label, cost));
            CHECK(ours.statistics.last_objective[label] == doctest::Approx(reached).epsilon(1e-5));
            CHECK(ours.statistics.first_objective[label] >= reached * (1.0 - 1e-5));
        }
        CHECK(ours.indptr[1] == 0);  // the label without rows
    }
}

TEST_CASE("frequent labels of long rows end within 1e-4 of the minimum at higher costs too") {
    Csr csr = random_rows(400, 150, 0.4, 3);
    for (float& value : csr.values) value *= 0.15F;
    const SparseRows rows(csr.view());
    std::vector<std::int32_t> row_ids;
    for (std::int32_t row = 0; row < 400; row += 2) row_ids.push_back(row);
    const std::vector<std::int64_t> indptr{0, 200};
    const OvaLabels labels{{1, 400, indptr, row_ids}, {}};
    const std::vector<float> mean = mean_row(rows, 1.0F);
    const std::vector<float> margins = row_margins(rows, mean, 1.0F);
    const OvaMoments moments{mean, margins, {}};
    for (const double cost : {1.0, 10.0}) {
        const OvaConfig config = make_config(cost, true, 0.01);
        REQUIRE(ConjugateTrainer::suits_frequent(rows, kSeparating, config));
        Control control;
        LabelSink sink(1, config);
        CHECK(ConjugateTrainer(rows, labels, moments, kSeparating, config, sink, control)
                  .train(std::vector<std::int32_t>{0})
                  .empty());
        const double ours = sink.finish().statistics.last_objective[0];
        const OvaConfig tight = make_config(cost, false, 1e-6);
        const double least = train_ova(rows, labels, moments, kSeparating, tight, control).statistics.last_objective[0];
        CHECK(ours <= (1.0 + 1e-4) * least);
        CHECK(ours >= (1.0 - 1e-5) * least);
    }
    CHECK(!ConjugateTrainer::suits_frequent(SparseRows(random_rows(50, 100, 0.2, 4).view()), kSeparating,
                                            make_config(1.0, true, 0.01)));
}

TEST_CASE("long rows are trained by conjugate gradients only at lower costs than short ones") {
    const Csr long_rows = random_rows(50, 100, 0.6, 4);
    const Csr short_rows = random_rows(50, 100, 0.2, 4);
    for (const double cost : {0.1, 0.2, 0.3, 0.4, 0.5}) {
        const OvaConfig config = make_config(cost, true, 0.01);
        CHECK(ConjugateTrainer::suits(SparseRows(long_rows.view()), kSeparating, config) == (cost < 0.25));
        CHECK(ConjugateTrainer::suits(SparseRows(short_rows.view()), kSeparating, config) == (cost < 0.45));
    }
}

TEST_CASE("a label has the same weights whichever labels are trained beside it") {
    const Problem problem;
    const OvaConfig config = make_config(0.1, true, 0.01);
    const OvaResult all = problem.train(config, 0, kLabels);
    for (const std::int64_t label : {1, 3, 12, 19}) {
        const OvaResult alone = problem.train(config, label, label + 1);
        const std::vector<float> weights(all.weights.begin() + all.indptr[label],
                                         all.weights.begin() + all.indptr[label + 1]);
        CHECK(alone.weights == weights);
        CHECK(alone.biases[0] == all.biases[label]);
    }
}

TEST_CASE("the reported gradient is that of the weights, though most labels end without an exact check") {
    const Problem problem;
    for (const double cost : {0.01, 0.2}) {
        const OvaResult result = problem.train(make_config(cost, true, 0.01), 0, kLabels);
        for (std::int64_t label = 1; label < kLabels; ++label) {
            const double ratio = problem.value(result, label, cost, 1.0).gradient_norm /
                                 problem.value(result, label, cost, 0.0).gradient_norm;
            CHECK(result.statistics.gradient_ratio[label] == doctest::Approx(ratio).epsilon(0.02));
        }
    }
}

TEST_CASE("tighter tolerances bring smaller gradients") {
    const Problem problem;
    const OvaResult loose = problem.train(make_config(0.1, true, 0.01), 0, kLabels);
    const OvaResult tight = problem.train(make_config(0.1, true, 1e-4), 0, kLabels);
    for (std::int64_t label = 1; label < kLabels; ++label) {
        CHECK(tight.statistics.converged[label] == 1);
        CHECK(tight.statistics.gradient_ratio[label] < loose.statistics.gradient_ratio[label]);
    }
}

}  // namespace longtail::linear
