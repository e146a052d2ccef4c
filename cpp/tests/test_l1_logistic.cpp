#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "fastxml/l1_logistic.hpp"
#include "fastxml/node_builder.hpp"
#include "tests/fastxml_problem.hpp"

using namespace longtail;
using namespace longtail::fastxml;

namespace {

// The solver's steps in double and dense, with every derivative computed anew: the same models, passes, working sets and
// order of columns. `closest` falls to the distance of the nearest decision about a working set from its border.
class NaiveNewton {
public:
    std::vector<double> w;
    double closest = 1e9;

    NaiveNewton(std::vector<std::vector<double>> columns, std::vector<double> a)
        : x_(std::move(columns)), a_(std::move(a)) {}

    void solve(const L1Config& config, Random& random) {
        const std::size_t n = a_.size();
        w.assign(x_.size(), 0.0);
        double margin = kInfinity;
        double start = -1.0;
        double inner_tolerance = 1.0;
        for (std::int32_t model = 0; model < config.max_newton; ++model) {
            set_model();
            std::vector<std::size_t> working;
            double total = 0.0;
            double largest = 0.0;
            for (std::size_t j = 0; j < x_.size(); ++j) {
                const double v = violation(w[j], slope(j));
                if (is_outside(v, margin)) continue;
                working.push_back(j);
                total += std::max(v, 0.0);
                largest = std::max(largest, v);
            }
            if (start < 0.0) start = total;
            if (is_small(total, config.tolerance * start)) break;
            margin = largest / static_cast<double>(n);
            if (descend(working, inner_tolerance * start, config.max_passes, random) == 1) inner_tolerance *= 0.25;
            search();
        }
    }

private:
    static constexpr double kInfinity = std::numeric_limits<double>::infinity();

    bool is_outside(double v, double margin) {
        if (v >= 0.0) return false;
        closest = std::min(closest, std::fabs(v + margin));
        return v < -margin;
    }
    bool is_small(double total, double bound) {
        closest = std::min(closest, std::fabs(total - bound));
        return total <= bound;
    }

    double score(std::size_t i, const std::vector<double>& weights) const {
        double sum = 0.0;
        for (std::size_t j = 0; j < x_.size(); ++j) sum += weights[j] * x_[j][i];
        return sum;
    }

    double objective(const std::vector<double>& weights) const {
        double sum = 0.0;
        for (const double weight : weights) sum += std::fabs(weight);
        for (std::size_t i = 0; i < a_.size(); ++i) {
            const double s = score(i, weights);
            sum += std::fabs(a_[i]) * std::log1p(std::exp(a_[i] > 0.0 ? -s : s));
        }
        return sum;
    }

    void set_model() {
        target_ = w;
        scores_.clear();
        r_.clear();
        h_.clear();
        for (std::size_t i = 0; i < a_.size(); ++i) {
            scores_.push_back(score(i, w));
            const double wrong = 1.0 / (1.0 + std::exp(a_[i] > 0.0 ? scores_[i] : -scores_[i]));
            r_.push_back(-a_[i] * wrong);
            h_.push_back(std::fabs(a_[i]) * wrong * (1.0 - wrong));
        }
    }

    // Derivative of the quadratic model along column j, at the present target. Rows without the feature add nothing, and
    // under sanitizers their scores would take minutes.
    double slope(std::size_t j) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < a_.size(); ++i)
            if (x_[j][i] != 0.0) sum += x_[j][i] * (r_[i] + h_[i] * (score(i, target_) - scores_[i]));
        return sum;
    }

    // Negative inside the interval where zero is optimal.
    static double violation(double u, double g) {
        return u == 0.0 ? std::fabs(g) - 1.0 : std::fabs(g + (u > 0.0 ? 1.0 : -1.0));
    }

    std::int32_t descend(const std::vector<std::size_t>& working, double tolerance, std::int32_t max_passes,
                         Random& random) {
        std::vector<std::size_t> active = working;
        std::vector<std::size_t> shrunk;
        double margin = kInfinity;
        std::int32_t pass = 0;
        while (pass < max_passes) {
            for (std::size_t k = active.size(); k > 1; --k)
                std::swap(active[k - 1], active[random.below(static_cast<std::uint32_t>(k))]);
            double total = 0.0;
            double largest = 0.0;
            std::vector<std::size_t> kept;
            for (const std::size_t j : active) {
                const double g = slope(j);
                const double u = target_[j];
                const double v = violation(u, g);
                if (is_outside(v, margin)) {
                    shrunk.push_back(j);
                    continue;
                }
                kept.push_back(j);
                total += std::max(v, 0.0);
                largest = std::max(largest, v);
                double h = 1e-7;
                for (std::size_t i = 0; i < a_.size(); ++i) h += x_[j][i] * x_[j][i] * h_[i];
                const double free = u - g / h;  // where the model without penalty is least
                const double best = free > 1.0 / h ? free - 1.0 / h : (free < -1.0 / h ? free + 1.0 / h : 0.0);
                target_[j] = std::min(u + 10.0, std::max(u - 10.0, best));
            }
            active = kept;
            margin = largest / static_cast<double>(a_.size());
            ++pass;
            if (!is_small(total, tolerance)) continue;
            if (shrunk.empty()) break;
            active.insert(active.end(), shrunk.begin(), shrunk.end());
            shrunk.clear();
            margin = kInfinity;
        }
        return pass;
    }

    void search() {
        set_slope();
        for (double step = 1.0; step > 1e-6; step *= 0.5) {
            std::vector<double> tried = target_;
            for (std::size_t j = 0; step < 1.0 && j < w.size(); ++j) tried[j] = w[j] + step * (target_[j] - w[j]);
            if (objective(tried) - objective(w) > 0.01 * step * slope_) continue;
            w = tried;
            return;
        }
    }

    void set_slope() {
        slope_ = 0.0;
        for (std::size_t j = 0; j < w.size(); ++j) {
            double g = 0.0;
            for (std::size_t i = 0; i < a_.size(); ++i) g += x_[j][i] * r_[i];
            slope_ += g * (target_[j] - w[j]) + std::fabs(target_[j]) - std::fabs(w[j]);
        }
    }

    std::vector<std::vector<double>> x_;  // by column
    std::vector<double> a_;
    std::vector<double> target_;  // w at the minimum of the model
    std::vector<double> scores_;  // of the rows, with the w that the model was made at
    std::vector<double> r_;
    std::vector<double> h_;
    double slope_ = 0.0;
};

std::vector<std::vector<double>> columns_of(const Problem& p, const Rows& rows, std::span<const std::int32_t> ids) {
    std::vector<std::vector<double>> columns;
    for (const std::int32_t id : ids) {
        columns.emplace_back();
        for (const std::int32_t row : rows)
            columns.back().push_back(id == p.n_features ? 1.0
                                                        : p.dense[static_cast<std::size_t>(row * p.n_features + id)]);
    }
    return columns;
}

}  // namespace

TEST_CASE("the l1 solver takes the steps of a naive one, model by model") {
    int n_compared = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Problem p =
            make_problem(seed, 60 + static_cast<std::int64_t>(seed) * 7, 40, 5, seed % 2 == 0 ? 0.05 : 0.4);
        const Rows rows = all_rows(p);
        Random signs(seed, 3);
        std::vector<double> a;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const bool is_first_topic = !p.y().row_labels(rows[i]).empty() && p.y().row_labels(rows[i])[0] == 0;
            a.push_back(is_first_topic != (signs.below(8) == 0) ? 1.5 : -0.75);
        }
        const AlignedVector<float> costs = padded_costs(a);
        NodeBuilder builder(p.x(), 1.0F);
        REQUIRE(builder.build(rows, costs, false));
        for (const std::int32_t n_models : {1, 2, 3, 5, 10}) {
            const L1Config config{n_models, 10, 0.01F};
            L1Logistic solver;
            Random order(seed, 4);
            solver.solve(builder.columns(), costs, builder.starts(), config, order);
            NaiveNewton naive(columns_of(p, rows, builder.columns().feature_ids), a);
            Random naive_order(seed, 4);
            naive.solve(config, naive_order);
            if (naive.closest < 3e-5) break;  // what is on the border may fall either way
            CAPTURE(seed);
            CAPTURE(n_models);
            ++n_compared;
            for (std::size_t j = 0; j < naive.w.size(); ++j)
                CHECK(solver.weights[j] == doctest::Approx(naive.w[j]).epsilon(1e-3).scale(1.0));
        }
    }
    CHECK(n_compared >= 100);
}

TEST_CASE("the l1 solver reaches the minimum of a naive one, sparse and dense alike") {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Problem p =
            make_problem(seed, 30 + static_cast<std::int64_t>(seed) * 9, 12, 4, seed % 2 == 0 ? 0.15 : 0.6);
        const Rows rows = all_rows(p);
        Random random(seed, 3);
        std::vector<double> a;
        for (std::size_t i = 0; i < rows.size(); ++i) a.push_back(random.coin() ? 1.5 : -2.5);
        double border = 1.0;
        const std::vector<double> naive = naive_l1_logistic(p, rows, a, border);
        const double minimum = naive_objective(p, rows, naive, a);
        const AlignedVector<float> costs = padded_costs(a);
        for (const bool dense : {false, true}) {
            NodeBuilder builder(dense ? FeaturesView(p.dense_x()) : FeaturesView(p.x()), 1.0F);
            REQUIRE(builder.build(rows, costs, false));
            L1Logistic solver;
            solver.solve(builder.columns(), costs, builder.starts(), kConverged, random);
            CHECK(solver.objective(costs) == doctest::Approx(minimum).epsilon(1e-4));
            std::vector<double> w(naive.size(), 0.0);
            for (std::int32_t j = 0; j < builder.columns().n_columns; ++j)
                w[static_cast<std::size_t>(builder.columns().feature_ids[j])] = solver.weights[j];
            CHECK(naive_objective(p, rows, w, a) == doctest::Approx(minimum).epsilon(1e-4));
        }
    }
}

TEST_CASE("features left out of a node are zero in the solution") {
    const Problem p = make_problem(4, 60, 30, 6, 0.05);
    const Rows rows = all_rows(p);
    std::vector<double> a;
    for (std::size_t i = 0; i < rows.size(); ++i) a.push_back(i % 2 == 0 ? 0.3 : -0.3);
    const AlignedVector<float> costs = padded_costs(a);
    NodeBuilder builder(p.x(), 1.0F);
    REQUIRE(builder.build(rows, costs, false));
    L1Logistic solver;
    Random random(4, 3);
    solver.solve(builder.columns(), costs, builder.starts(), kConverged, random);
    double border = 1.0;
    const std::vector<double> w = naive_l1_logistic(p, rows, a, border);
    std::vector<bool> kept(w.size(), false);
    for (const std::int32_t feature_id : builder.columns().feature_ids)
        kept[static_cast<std::size_t>(feature_id)] = true;
    CHECK(builder.columns().n_columns < p.n_features);
    for (std::size_t j = 0; j < w.size(); ++j)
        if (!kept[j]) CHECK(w[j] == 0.0);
}
