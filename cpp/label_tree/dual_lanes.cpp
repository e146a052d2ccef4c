#include "label_tree/dual_lanes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace longtail::label_tree {
namespace {

constexpr std::int64_t kRowsPerPoll = 4096;
constexpr int kInnerPasses = 4;

// Squared hinge: the dual adds α²/(4C) and α is not bounded above. A step is exact in closed form.
struct SquaredHinge {
    // New α; `violation` is the projected gradient.
    static Lanes step(const Lanes& z, const Lanes& alpha, const Lanes& cost, float square, Lanes& violation) {
        const Lanes diagonal = 0.5F / cost;
        const Lanes gradient = z - 1.0F + alpha * diagonal;
        violation = select(alpha > 0.0F, gradient, min_lanes(gradient, Lanes{}));
        return max_lanes(alpha - gradient / (square + diagonal), Lanes{});
    }
};

// 1 / (1 + exp(-x)).
Lanes logistic(const Lanes& x) {
    const Lanes small = exp_minus(abs_lanes(x));
    return select(x > 0.0F, Lanes{} + 1.0F, small) / (1.0F + small);
}

// Logistic: the dual adds α log α + (C - α) log(C - α). With α = C·σ(u) the step solves u + a(C·σ(u) - α) + z = 0, a
// monotone equation whose root is bracketed; α = 0 stands for a row that has not been visited.
struct Logistic {
    static Lanes step(const Lanes& z, const Lanes& alpha, const Lanes& cost, float square, Lanes& violation) {
        Lanes low = -z - square * (cost - alpha);
        Lanes high = -z + square * alpha;
        Lanes u = 0.5F * (low + high);
        Lanes previous = Lanes{} + 1e30F;
        for (int step = 0; step < kNewtonSteps; ++step) {
            const Lanes share = logistic(u);
            const Lanes value = u + square * (cost * share - alpha) + z;
            if (!any_above(abs_lanes(value), kResidual)) break;
            const Lanes slope = 1.0F + square * cost * share * (1.0F - share);
            low = select(value < 0.0F, u, low);
            high = select(value > 0.0F, u, high);
            const Lanes next = u - value / slope;
            // Steps may go to and fro across the bend of σ within the bracket: halve it where they gain little.
            const auto is_good = (next >= low) & (next <= high) & (abs_lanes(value) <= 0.5F * previous);
            u = select(is_good, next, 0.5F * (low + high));
            previous = abs_lanes(value);
        }
        const Lanes found = cost * logistic(u);
        violation = square * (found - alpha);  // how far the step moves the margin
        return found;
    }

    // A step that ends early has the wrong fixed point, so the limit is for extreme costs only.
    static constexpr int kNewtonSteps = 40;
    static constexpr float kResidual = 1e-5F;
};

}  // namespace

void DualLanes::solve(const NodeRows& rows, std::span<const std::uint16_t> members, int n_lanes,
                      std::span<const float> positive_costs, Random& random, Control& control) {
    weights_.assign(rows.features.size(), Lanes{});
    bias_ = Lanes{};
    n_visits_ = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        live_[lane] = lane < n_lanes ? 1.0F : 0.0F;
        positive_costs_[lane] = lane < n_lanes ? config_.cost * positive_costs[lane] : config_.cost;
    }
    if (config_.loss == Loss::squared_hinge)
        run<SquaredHinge>(rows, members, random, control);
    else
        run<Logistic>(rows, members, random, control);
}

Lanes DualLanes::margins(const NodeRows& rows, std::int64_t row) const {
    const Lanes* weights = weights_.data();
    const std::int32_t* indices = rows.indices.data();
    const float* values = rows.values.data();
    std::int64_t i = rows.indptr[row];
    const std::int64_t end = rows.indptr[row + 1];
    Lanes sums[4] = {bias_ * config_.bias, Lanes{}, Lanes{}, Lanes{}};
    for (; i + 4 <= end; i += 4)
        for (int part = 0; part < 4; ++part) sums[part] += weights[indices[i + part]] * values[i + part];
    for (; i < end; ++i) sums[0] += weights[indices[i]] * values[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void DualLanes::add(const NodeRows& rows, std::int64_t row, const Lanes& scale) {
    Lanes* weights = weights_.data();
    for (std::int64_t i = rows.indptr[row]; i < rows.indptr[row + 1]; ++i)
        weights[rows.indices[i]] += scale * rows.values[i];
    bias_ += scale * config_.bias;
}

template <class LossKind>
float DualLanes::visit(const NodeRows& rows, std::int64_t row, std::uint32_t positives) {
    const Lanes plus = Lanes{} + 1.0F;
    const Lanes sign = choose(positives, plus, -plus);
    Lanes cost = choose(positives, positive_costs_, Lanes{} + config_.cost);
    if (!rows.weights.empty()) cost *= rows.weights[row];
    Lanes violation;
    const Lanes alpha = alphas_[row];
    const Lanes next = LossKind::step(sign * margins(rows, row), alpha, cost,
                                      rows.squares[row] + config_.bias * config_.bias, violation);
    violation = abs_lanes(violation) * live_;
    if (!any_above(violation, 0.1F * config_.tolerance)) return 0.0F;
    const Lanes change = (next - alpha) * live_;
    alphas_[row] = alpha + change;
    add(rows, row, change * sign);
    return largest(violation);
}

template <class LossKind>
void DualLanes::run(const NodeRows& rows, std::span<const std::uint16_t> members, Random& random, Control& control) {
    const std::int64_t n = rows.n_rows();
    alphas_.assign(n, Lanes{});
    // A full pass finds the rows that still move; passes over only those follow, until another full pass is due.
    // What a pass may cost in all is max_passes full ones.
    const std::int64_t budget = n * config_.max_passes;
    bool is_full = true;
    int n_inner = 0;
    while (n_visits_ < budget) {
        if (is_full) {
            active_.resize(n);
            std::iota(active_.begin(), active_.end(), 0);
        }
        // A new order for every pass: in a fixed one coordinate descent needs several times as many.
        for (std::size_t i = active_.size(); i > 1; --i)
            std::swap(active_[i - 1], active_[random.below(static_cast<std::uint32_t>(i))]);
        n_visits_ += static_cast<std::int64_t>(active_.size());
        std::size_t n_kept = 0;
        float worst = 0.0F;
        for (std::size_t at = 0; at < active_.size(); ++at) {
            if (at % kRowsPerPoll == 0) control.throw_if_stopped();
            const std::int32_t row = active_[at];
            const float violation = visit<LossKind>(rows, row, members[row]);
            worst = std::max(worst, violation);
            if (violation > 0.5F * config_.tolerance) active_[n_kept++] = row;
        }
        active_.resize(n_kept);
        if (is_full && worst <= config_.tolerance) break;
        n_inner = is_full ? 0 : n_inner + 1;
        is_full = active_.empty() || n_inner >= kInnerPasses;
    }
}

}  // namespace longtail::label_tree
