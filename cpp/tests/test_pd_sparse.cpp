#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "pd_sparse/train.hpp"
#include "tests/csr_rows.hpp"

using namespace longtail;
using pd_sparse::Config;
using pd_sparse::Weights;

namespace {

struct Problem {
    Csr x = random_rows(60, 10, 0.6, 3);
    Csr y;
    // The two best of seven random scores are the labels of a row; rows 0 to 2 have none, label 7 has no row.
    Problem() {
        y.n_cols = 8;
        const Csr directions = random_rows(7, 10, 1.0, 4);
        for (std::int64_t row = 0; row < x.n_rows(); ++row) {
            std::vector<std::pair<double, std::int32_t>> scored;
            for (std::int32_t label = 0; label < 7; ++label) {
                double score = 0.0;
                for (std::int64_t i = x.indptr[row]; i < x.indptr[row + 1]; ++i)
                    score += x.values[i] * directions.values[label * 10 + x.indices[i]];
                scored.emplace_back(-score, label);
            }
            std::sort(scored.begin(), scored.end());
            if (row > 2)
                for (const auto label :
                     {std::min(scored[0].second, scored[1].second), std::max(scored[0].second, scored[1].second)})
                    y.indices.push_back(label);
            y.indptr.push_back(static_cast<std::int64_t>(y.indices.size()));
        }
    }
    Weights train(const Config& config) const {
        Control control;
        return pd_sparse::train(x.view(), y.labels(), config, control);
    }
    // ½‖W‖² + λ‖W‖₁ + C Σ max(0, 1 + best other - worst own), over all labels that occur.
    double primal(const Weights& weights, const Config& config) const {
        double sum = 0.0;
        for (const float w : weights.values) sum += 0.5 * w * w + config.l1 * std::abs(w);
        for (std::int64_t row = 0; row < x.n_rows(); ++row) {
            std::vector<double> scores(8, 0.0);
            const auto add = [&](std::int64_t feature, double value) {
                for (std::int64_t i = weights.indptr[feature]; i < weights.indptr[feature + 1]; ++i)
                    scores[weights.label_ids[i]] += value * weights.values[i];
            };
            for (std::int64_t i = x.indptr[row]; i < x.indptr[row + 1]; ++i) add(x.indices[i], x.values[i]);
            add(x.n_cols, 1.0);
            const auto own = y.labels().row_labels(row);
            if (own.empty()) continue;
            double best_other = -1e30;
            double worst_own = 1e30;
            for (std::int32_t label = 0; label < 7; ++label) {
                const bool is_own = std::find(own.begin(), own.end(), label) != own.end();
                if (is_own) worst_own = std::min(worst_own, scores[label]);
                if (!is_own) best_other = std::max(best_other, scores[label]);
            }
            sum += config.cost * std::max(0.0, 1.0 + best_other - worst_own);
        }
        return sum;
    }
};

}  // namespace

TEST_CASE("the dual of PD-Sparse rises to the primal") {
    const Problem problem;
    for (const Config& config : {Config{0.0F, 1.0F, 400, 0.0F, 1, 1}, Config{0.1F, 1.0F, 400, 0.0F, 1, 1},
                                 Config{0.5F, 0.3F, 400, 0.0F, 1, 1}, Config{0.1F, 1.0F, 400, 0.0F, 1, 5}}) {
        const Weights weights = problem.train(config);
        const double last = weights.objectives.back();
        for (std::size_t i = 1; i < weights.objectives.size(); ++i)
            CHECK(weights.objectives[i] >= weights.objectives[i - 1] - 1e-4 * std::abs(last));
        const double primal = problem.primal(weights, config);
        CHECK(last <= primal * (1.0 + 1e-5));
        CHECK(last == doctest::Approx(primal).epsilon(0.03));
    }
}

TEST_CASE("with held-out rows PD-Sparse keeps the weights that rank them best") {
    const Problem problem;
    Config config{0.05F, 1.0F, 20, 0.0F, 0, 4, 15};
    const Weights weights = problem.train(config);
    const std::size_t n_parts = weights.precisions.size() / weights.objectives.size();
    REQUIRE(weights.precisions.size() == weights.objectives.size() * n_parts);
    const auto best = std::max_element(weights.precisions.rbegin(), weights.precisions.rend());
    const auto n_best = static_cast<std::size_t>(weights.precisions.rend() - best);
    config.n_epochs = static_cast<std::int32_t>((n_best + n_parts - 1) / n_parts);
    const Weights shorter = problem.train(config);
    CHECK(shorter.values == weights.values);
    CHECK(shorter.label_ids == weights.label_ids);
}

TEST_CASE("the weights of PD-Sparse are sorted by label, and only labels with rows have any") {
    const Problem problem;
    const Weights weights = problem.train({0.05F, 1.0F, 20, 0.01F, 0, 1});
    REQUIRE(weights.indptr.size() == 12);
    CHECK(weights.indptr.back() == static_cast<std::int64_t>(weights.values.size()));
    for (std::size_t feature = 0; feature < 11; ++feature)
        for (std::int64_t i = weights.indptr[feature]; i < weights.indptr[feature + 1]; ++i) {
            CHECK((weights.label_ids[i] >= 0 && weights.label_ids[i] < 7));
            if (i > weights.indptr[feature]) CHECK(weights.label_ids[i - 1] < weights.label_ids[i]);
        }
}

TEST_CASE("a projection to equal sums is feasible, and nearer than any feasible point beside it") {
    Random random(9, 0);
    for (int attempt = 0; attempt < 200; ++attempt) {
        std::vector<float> first(1 + random.below(4));
        std::vector<float> second(1 + random.below(4));
        for (float& a : first) a = static_cast<float>(random.normal());
        for (float& a : second) a = static_cast<float>(random.normal());
        const std::vector<float> from_first = first;
        const std::vector<float> from_second = second;
        const float limit = 0.7F;
        pd_sparse::project_to_equal_sums(first, second, limit);
        double sums[2] = {0.0, 0.0};
        for (const float a : first) sums[0] += a;
        for (const float a : second) sums[1] += a;
        CHECK(sums[0] == doctest::Approx(sums[1]).epsilon(1e-4));
        CHECK(sums[0] <= limit + 1e-4);
        const auto distance = [&](const std::vector<float>& a, const std::vector<float>& b) {
            double sum = 0.0;
            for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(a[i] - from_first[i], 2);
            for (std::size_t i = 0; i < b.size(); ++i) sum += std::pow(b[i] - from_second[i], 2);
            return sum;
        };
        const double found = distance(first, second);
        // Moves along the constraints: one number of each list up or down together, or weight within a list.
        for (const float step : {-0.01F, 0.01F})
            for (std::size_t i = 0; i < first.size(); ++i)
                for (std::size_t j = 0; j < second.size(); ++j) {
                    auto a = first;
                    auto b = second;
                    a[i] += step;
                    b[j] += step;
                    if (a[i] < 0.0F || b[j] < 0.0F || sums[0] + step > limit) continue;
                    CHECK(found <= distance(a, b) + 1e-5);
                }
    }
}

TEST_CASE("a cancelled run of PD-Sparse stops") {
    const Problem problem;
    Control control;
    control.cancel();
    CHECK_THROWS_AS(pd_sparse::train(problem.x.view(), problem.y.labels(), {0.1F, 1.0F, 5, 0.0F, 0, 1}, control),
                    Cancelled);
}
