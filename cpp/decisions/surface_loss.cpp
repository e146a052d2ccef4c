#include "decisions/surface_loss.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <string>

namespace longtail {
namespace {

constexpr std::size_t kPairsPerLook = 1 << 16;

// The sums over the pairs of one cell, by its four nodes.
struct CellSums {
    std::array<double, 4> gradient{};
    std::array<double, 10> hessian{};  // the lower triangle, row by row
};

}  // namespace

void check_pairs(const PairsView& pairs, std::int64_t n_score_knots, std::int64_t n_count_knots) {
    const std::size_t n_pairs = pairs.cells.size();
    if (n_score_knots < 2 || n_count_knots < 2)
        throw std::invalid_argument("surface_loss: log_odds must have two or more nodes along either axis");
    if (pairs.score_share.size() != n_pairs || pairs.count_share.size() != n_pairs || pairs.hits.size() != n_pairs ||
        pairs.weights.size() != n_pairs)
        throw std::invalid_argument("surface_loss: cells, shares, hits and weights must have the same length");
    const std::int64_t n_cells = (n_score_knots - 1) * (n_count_knots - 1);
    for (const std::int32_t cell : pairs.cells)
        if (cell < 0 || cell >= n_cells)
            throw std::invalid_argument("surface_loss: cells must be in 0 .. " + std::to_string(n_cells - 1) +
                                        ", got " + std::to_string(cell));
}

SurfaceLoss surface_loss(const PairsView& pairs, std::span<const double> log_odds, std::int64_t n_score_knots,
                         Control& control) {
    const auto n_scores = static_cast<std::size_t>(n_score_knots), n_nodes = log_odds.size();
    const std::size_t n_columns = n_scores - 1, n_cells = n_columns * (n_nodes / n_scores - 1);
    const auto corner_of = [&](std::size_t cell) { return cell / n_columns * n_scores + cell % n_columns; };
    std::vector<CellSums> sums(n_cells);
    std::vector<std::array<double, 4>> at_corners(n_cells);
    for (std::size_t cell = 0; cell < n_cells; ++cell) {
        const double* low = log_odds.data() + corner_of(cell);
        at_corners[cell] = {low[0], low[1], low[n_scores], low[n_scores + 1]};
    }
    SurfaceLoss found;
    for (std::size_t i = 0; i < pairs.cells.size(); ++i) {
        if (i % kPairsPerLook == 0) control.throw_if_stopped();
        const auto cell = static_cast<std::size_t>(pairs.cells[i]);
        const double s = pairs.score_share[i], n = pairs.count_share[i];
        const std::array<double, 4> shares{(1 - s) * (1 - n), s * (1 - n), (1 - s) * n, s * n};
        const auto& corners = at_corners[cell];
        const double z =
            shares[0] * corners[0] + shares[1] * corners[1] + shares[2] * corners[2] + shares[3] * corners[3];
        // log(1 + exp(z)) and the logistic function without overflow.
        const double e = std::exp(-std::abs(z)), proba = (z >= 0 ? 1.0 : e) / (1.0 + e);
        const double hit = pairs.hits[i] != 0 ? 1.0 : 0.0;
        const double times = pairs.weights[i];
        found.loss += times * (std::max(z, 0.0) + std::log1p(e) - hit * z);
        const double slope = times * (proba - hit), weight = times * proba * (1.0 - proba);
        CellSums& sum = sums[cell];
        for (std::size_t a = 0, at = 0; a < 4; ++a) {
            sum.gradient[a] += slope * shares[a];
            for (std::size_t b = 0; b <= a; ++b) sum.hessian[at++] += weight * shares[a] * shares[b];
        }
    }
    found.gradient.assign(n_nodes, 0.0);
    found.hessian.assign(n_nodes * n_nodes, 0.0);
    for (std::size_t cell = 0; cell < n_cells; ++cell) {
        const std::size_t corner = corner_of(cell);
        const std::array<std::size_t, 4> nodes{corner, corner + 1, corner + n_scores, corner + n_scores + 1};
        for (std::size_t a = 0, at = 0; a < 4; ++a) {
            found.gradient[nodes[a]] += sums[cell].gradient[a];
            for (std::size_t b = 0; b <= a; ++b, ++at) {
                found.hessian[nodes[a] * n_nodes + nodes[b]] += sums[cell].hessian[at];
                if (a != b) found.hessian[nodes[b] * n_nodes + nodes[a]] += sums[cell].hessian[at];
            }
        }
    }
    return found;
}

}  // namespace longtail
