#include "decisions/surface_pairs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/lanes.hpp"
#include "decisions/surface.hpp"

namespace longtail {
namespace {

// Sums of so many pairs are float32, those of more are float64.
constexpr std::size_t kPairsPerSum = 64 * kLanes;

void check_knots(std::span<const double> knots, const char* name) {
    if (knots.size() < 2 || std::adjacent_find(knots.begin(), knots.end(), std::greater_equal<>()) != knots.end())
        throw std::invalid_argument(std::string("SurfacePairs: ") + name + " must be two or more rising numbers");
}

// log(1 + e) for e in [0, 1]: the series of 2 artanh(u) with u = e / (2 + e), error below 1e-7.
Lanes log1p_lanes(const Lanes& e) {
    const Lanes u = e / (e + 2.0F), square = u * u;
    Lanes value = square * (2.0F / 13.0F) + 2.0F / 11.0F;
    value = value * square + 2.0F / 9.0F;
    value = value * square + 2.0F / 7.0F;
    value = value * square + 2.0F / 5.0F;
    value = value * square + 2.0F / 3.0F;
    return (value * square + 2.0F) * u;
}

// The sums over the pairs of one cell, by its four nodes.
struct CellSums {
    double loss = 0.0;
    std::array<double, 4> gradient{};
    std::array<double, 10> hessian{};  // the lower triangle, row by row
};

// Pairs of one cell; n is a multiple of kLanes.
struct CellPairs {
    const float* score_share;
    const float* count_share;
    const float* hits;
    const float* weights;
};

void add_pairs(const CellPairs& pairs, std::size_t n, const std::array<float, 4>& corners, CellSums& sums) {
    Lanes loss{};
    Lanes gradient[4] = {};
    Lanes hessian[10] = {};
    for (std::size_t i = 0; i < n; i += kLanes) {
        Lanes s, c, hit, times;
        load(s, pairs.score_share + i);
        load(c, pairs.count_share + i);
        load(hit, pairs.hits + i);
        load(times, pairs.weights + i);
        const Lanes both = s * c;
        const Lanes shares[4] = {Lanes{} + 1.0F - s - c + both, s - both, c - both, both};
        const Lanes z = shares[0] * corners[0] + shares[1] * corners[1] + shares[2] * corners[2] + both * corners[3];
        // log(1 + exp(z)) and the logistic function without overflow.
        const Lanes e = exp_minus(abs_lanes(z)), inverse = (Lanes{} + 1.0F) / (e + 1.0F);
        const Lanes proba = select(z >= Lanes{}, inverse, e * inverse);
        loss += times * (max_lanes(z, Lanes{}) + log1p_lanes(e) - hit * z);
        const Lanes slope = times * (proba - hit), weight = times * e * inverse * inverse;
        for (int a = 0, at = 0; a < 4; ++a) {
            gradient[a] += slope * shares[a];
            const Lanes weighted = weight * shares[a];
            for (int b = 0; b <= a; ++b) hessian[at++] += weighted * shares[b];
        }
    }
    sums.loss += static_cast<double>(sum(loss));
    for (std::size_t a = 0; a < 4; ++a) sums.gradient[a] += static_cast<double>(sum(gradient[a]));
    for (std::size_t at = 0; at < 10; ++at) sums.hessian[at] += static_cast<double>(sum(hessian[at]));
}

}  // namespace

void check_pairs(const PairsView& pairs, std::span<const double> score_knots, std::span<const double> count_knots) {
    const std::size_t n_pairs = pairs.scores.size();
    if (pairs.log_counts.size() != n_pairs || pairs.hits.size() != n_pairs || pairs.weights.size() != n_pairs ||
        pairs.is_odd.size() != n_pairs)
        throw std::invalid_argument(
            "SurfacePairs: scores, log_counts, hits, weights and is_odd must have the same length");
    check_knots(score_knots, "score_knots");
    check_knots(count_knots, "count_knots");
}

SurfacePairs::SurfacePairs(const PairsView& pairs, std::span<const double> score_knots,
                           std::span<const double> count_knots)
    : n_scores_(score_knots.size()), n_counts_(count_knots.size()) {
    const std::size_t n_columns = n_scores_ - 1, n_cells = n_columns * (n_counts_ - 1);
    std::vector<std::uint32_t> cells(pairs.scores.size());
    std::vector<std::size_t> sizes(2 * n_cells);
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (!(pairs.weights[i] > 0.0F)) continue;
        const bool is_odd = pairs.is_odd[i] != 0;
        const std::size_t row = left_knot(count_knots, pairs.log_counts[i]);
        const std::size_t cell = row * n_columns + left_knot(score_knots, pairs.scores[i]) + (is_odd ? n_cells : 0);
        cells[i] = static_cast<std::uint32_t>(cell);
        ++sizes[cell];
        n_pairs_[is_odd] += static_cast<double>(pairs.weights[i]);
        if (pairs.hits[i] != 0) n_hits_[is_odd] += static_cast<double>(pairs.weights[i]);
    }
    begins_.assign(2 * n_cells + 1, 0);
    for (std::size_t cell = 0; cell < 2 * n_cells; ++cell)
        begins_[cell + 1] = begins_[cell] + (sizes[cell] + kLanes - 1) / kLanes * kLanes;
    for (auto* const part : {&score_share_, &count_share_, &hits_, &weights_}) part->assign(begins_.back(), 0.0F);
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    const auto share = [](std::span<const double> knots, std::size_t left, double x) {
        return (x - knots[left]) / (knots[left + 1] - knots[left]);
    };
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (!(pairs.weights[i] > 0.0F)) continue;
        const std::size_t at = next[cells[i]]++, cell = cells[i] % n_cells;
        score_share_[at] = static_cast<float>(share(score_knots, cell % n_columns, pairs.scores[i]));
        const double along_counts = share(count_knots, cell / n_columns, pairs.log_counts[i]);
        count_share_[at] = static_cast<float>(std::clamp(along_counts, 0.0, 1.0));
        hits_[at] = pairs.hits[i] != 0 ? 1.0F : 0.0F;
        weights_[at] = pairs.weights[i];
    }
}

SurfaceLoss SurfacePairs::loss(std::span<const double> log_odds, Half half, Control& control) const {
    const std::size_t n_columns = n_scores_ - 1, n_cells = n_columns * (n_counts_ - 1);
    SurfaceLoss found;
    found.gradient.assign(n_nodes(), 0.0);
    found.hessian.assign(n_nodes() * n_nodes(), 0.0);
    for (std::size_t cell = 0; cell < n_cells; ++cell) {
        control.throw_if_stopped();
        const std::size_t corner = cell / n_columns * n_scores_ + cell % n_columns;
        const std::array<std::size_t, 4> nodes{corner, corner + 1, corner + n_scores_, corner + n_scores_ + 1};
        std::array<float, 4> corners{};
        for (std::size_t a = 0; a < 4; ++a) corners[a] = static_cast<float>(log_odds[nodes[a]]);
        CellSums sums;
        for (const Half part : {Half::kEven, Half::kOdd}) {
            if (half != Half::kBoth && half != part) continue;
            const std::size_t place = cell + (part == Half::kOdd ? n_cells : 0), end = begins_[place + 1];
            for (std::size_t begin = begins_[place]; begin < end; begin += kPairsPerSum)
                add_pairs({score_share_.data() + begin, count_share_.data() + begin, hits_.data() + begin,
                           weights_.data() + begin},
                          std::min(kPairsPerSum, end - begin), corners, sums);
        }
        found.loss += sums.loss;
        for (std::size_t a = 0, at = 0; a < 4; ++a) {
            found.gradient[nodes[a]] += sums.gradient[a];
            for (std::size_t b = 0; b <= a; ++b, ++at) {
                found.hessian[nodes[a] * n_nodes() + nodes[b]] += sums.hessian[at];
                if (a != b) found.hessian[nodes[b] * n_nodes() + nodes[a]] += sums.hessian[at];
            }
        }
    }
    return found;
}

}  // namespace longtail
