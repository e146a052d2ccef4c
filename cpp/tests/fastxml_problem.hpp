#pragma once

// Random problems and a slow, plain l1 solver for the tests of FastXML.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "base/views.hpp"
#include "fastxml/grow_tree.hpp"
#include "fastxml/l1_logistic.hpp"

namespace longtail::fastxml {

// A small random problem: labels go with a few features of their own.
struct Problem {
    std::int64_t n_rows;
    std::int64_t n_features;
    std::int64_t n_labels;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    std::vector<float> dense;
    std::vector<std::int64_t> label_indptr{0};
    std::vector<std::int32_t> label_ids;

    CsrView x() const { return {n_rows, n_features, indptr, indices, values}; }
    DenseView dense_x() const { return {n_rows, n_features, dense}; }
    LabelsView y() const { return {n_rows, n_labels, label_indptr, label_ids}; }
};

inline Problem make_problem(std::uint64_t seed, std::int64_t n_rows, std::int64_t n_features, std::int64_t n_labels,
                            double density, bool with_negative = true) {
    Random random(seed, 99);
    Problem p{n_rows, n_features, n_labels, {0}, {}, {}, {}, {0}, {}};
    p.dense.assign(static_cast<std::size_t>(n_rows * n_features), 0.0F);
    for (std::int64_t i = 0; i < n_rows; ++i) {
        const auto topic = static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(n_labels)));
        for (std::int64_t j = 0; j < n_features; ++j) {
            const bool own = j % n_labels == topic;
            if (random.uniform() > (own ? 0.8 : density)) continue;
            const auto value =
                static_cast<float>(random.uniform() + 0.2) * (with_negative && random.coin() && !own ? -1.0F : 1.0F);
            p.indices.push_back(static_cast<std::int32_t>(j));
            p.values.push_back(value);
            p.dense[static_cast<std::size_t>(i * n_features + j)] = value;
        }
        p.indptr.push_back(static_cast<std::int64_t>(p.indices.size()));
        if (i % 11 != 10)  // some rows have no label
            for (std::int64_t l = 0; l < n_labels; ++l)
                if (l == topic || random.uniform() < 0.1) p.label_ids.push_back(static_cast<std::int32_t>(l));
        p.label_indptr.push_back(static_cast<std::int64_t>(p.label_ids.size()));
    }
    return p;
}

using Rows = std::vector<std::int32_t>;

inline Rows all_rows(const Problem& p) {
    Rows rows;
    for (std::int64_t i = 0; i < p.n_rows; ++i) rows.push_back(static_cast<std::int32_t>(i));
    return rows;
}

inline AlignedVector<float> padded_costs(const std::vector<double>& a) {
    AlignedVector<float> out(static_cast<std::size_t>(NodeColumns::padded(static_cast<std::int64_t>(a.size()))), 0.0F);
    std::copy(a.begin(), a.end(), out.begin());
    return out;
}

inline const L1Config kConverged{2000, 200, 1e-7F};
inline const RankConfig kRanking{SplitLoss::ndcg, 0, 1.0F, true};
inline const TreeConfig kTree{10, 20, 1, 1.0F, 1.0F, 1.0F, false, true, kRanking, {10, 10, 0.01F}, 0, 0};

inline double naive_objective(const Problem& p, const Rows& rows, const std::vector<double>& w,
                              const std::vector<double>& a) {
    double sum = 0.0;
    for (const double weight : w) sum += std::fabs(weight);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        double score = w.back();
        for (std::int64_t j = 0; j < p.n_features; ++j)
            score += w[static_cast<std::size_t>(j)] * p.dense[static_cast<std::size_t>(rows[i] * p.n_features + j)];
        sum += std::fabs(a[i]) * std::log1p(std::exp(a[i] > 0 ? -score : score));
    }
    return sum;
}

// Exact coordinate minimisation by bisection on the derivative: slow and plain.
// `closest` falls to the distance from one of the derivative along a weight at zero: how nearly it is not zero.
inline std::vector<double> naive_l1_logistic(const Problem& p, const Rows& rows, const std::vector<double>& a,
                                             double& closest) {
    std::vector<double> w(static_cast<std::size_t>(p.n_features) + 1, 0.0);
    std::vector<double> scores(rows.size(), 0.0);
    const auto value = [&](std::size_t i, std::size_t j) {
        return j < static_cast<std::size_t>(p.n_features)
                   ? static_cast<double>(p.dense[static_cast<std::size_t>(rows[i] * p.n_features) + j])
                   : 1.0;
    };
    for (int sweep = 0; sweep < 3000; ++sweep) {
        double moved = 0.0;
        double border = 1e9;
        for (std::size_t j = 0; j < w.size(); ++j) {
            const auto slope_at = [&](double u) {
                double g = 0.0;
                for (std::size_t i = 0; i < rows.size(); ++i) {
                    const double s = scores[i] + (u - w[j]) * value(i, j);
                    g -= a[i] * value(i, j) / (1.0 + std::exp(a[i] > 0 ? s : -s));
                }
                return g;
            };
            const double g0 = slope_at(0.0);
            border = std::min(border, std::fabs(std::fabs(g0) - 1.0));
            double u = 0.0;
            if (std::fabs(g0) > 1.0) {
                const double sign = g0 < 0.0 ? 1.0 : -1.0;  // of the solution
                double low = 0.0;
                double high = sign;
                while ((slope_at(high) + sign) * sign < 0.0) high *= 2.0;
                for (int k = 0; k < 60; ++k) {
                    const double mid = 0.5 * (low + high);
                    ((slope_at(mid) + sign) * sign < 0.0 ? low : high) = mid;
                }
                u = 0.5 * (low + high);
            }
            for (std::size_t i = 0; i < rows.size(); ++i) scores[i] += (u - w[j]) * value(i, j);
            moved = std::max(moved, std::fabs(u - w[j]));
            w[j] = u;
        }
        if (moved < 1e-7) {
            closest = std::min(closest, border);
            break;
        }
    }
    return w;
}

}  // namespace longtail::fastxml
