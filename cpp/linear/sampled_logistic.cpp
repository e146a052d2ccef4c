#include "linear/sampled_logistic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "linear/lanes.hpp"
#include "linear/losses.hpp"

namespace longtail::linear {

namespace {

constexpr int kMaxNewtonSteps = 60;
constexpr int kMaxCgSteps = 200;
constexpr int kMaxHalvings = 20;
constexpr double kArmijo = 0.01;
constexpr double kCgShare = 0.1;  // of the gradient: what conjugate gradients leave
constexpr double kMostScaled =
    4;  // drawn rows that stand for so many times too much or too little have no mean to speak of

struct SampleRows {
    Lanes margins;
    Lanes costs;
    Lanes targets;
};

// Sixteen rows of a padded sample at a time, each with a value of `others`.
template <class Visit>
void for_each_block(const LogisticSample& sample, const AlignedVector<float>& others, Visit visit) {
    for (std::int64_t i = 0; i < std::ssize(others); i += kLanes) {
        SampleRows rows;
        Lanes values;
        load(rows.margins, sample.margins.data() + i);
        load(rows.costs, sample.costs.data() + i);
        load(rows.targets, sample.targets.data() + i);
        load(values, others.data() + i);
        visit(i, rows, values);
    }
}

std::vector<std::int32_t> first_numbers(std::int64_t n) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(n));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
}

}  // namespace

void LogisticSample::clear() {
    row_ids.clear();
    for (auto* values : {&costs, &targets, &betas, &margins, &drawn, &shift_products, &shift_shares}) values->clear();
    gradient_share = 0.0;
    shift_square = 0.0F;
    gram.clear();
}

void LogisticSample::append(std::int32_t row_id, float cost, float target, float beta, bool is_drawn) {
    row_ids.push_back(row_id);
    costs.push_back(cost);
    targets.push_back(target);
    betas.push_back(beta);
    margins.push_back(0.0F);
    drawn.push_back(is_drawn ? 1.0F : 0.0F);
}

void LogisticSample::match_mean(double slope_sum, double gradient_square, double gradient_product,
                                const std::vector<float>& earlier_margins) {
    const std::int64_t n = size();
    shift_products.assign(static_cast<std::size_t>(GramMatrix::padded(n)), 0.0F);
    shift_shares = shift_products;
    double rest = slope_sum;  // S: what the drawn rows stand for,
    double taken = 0.0;       // and what the sample takes it for
    for (std::int64_t i = 0; i < n; ++i)
        (drawn[i] == 0.0F ? rest : taken) += (drawn[i] == 0.0F ? 1.0 : -1.0) * betas[i];
    if (!(rest * kMostScaled > taken && rest < kMostScaled * taken)) {
        std::fill(drawn.begin(), drawn.end(), 0.0F);
        return;
    }
    // δ = (G - the gradients of the rows that stand for themselves) / S - the mean of the drawn rows.
    gradient_share = 1.0 / rest;
    for (std::int64_t i = 0; i < n; ++i)
        shift_shares[i] = static_cast<float>(betas[i] / (drawn[i] == 0.0F ? rest : taken));
    gram.multiply(first_numbers(n), shift_shares.data(), shift_products.data());
    double square = gradient_square * gradient_share * gradient_share;
    double slope = (gradient_square + gradient_product) * gradient_share;  // δ · (w_k + G)
    for (std::int64_t i = 0; i < n; ++i) {
        const double along_gradient = -margins[i];
        shift_products[i] += static_cast<float>(along_gradient * gradient_share);
        square += shift_shares[i] * (along_gradient * gradient_share + shift_products[i]);
        slope += shift_shares[i] * (along_gradient + earlier_margins[i]);
    }
    shift_square = static_cast<float>(std::max(0.0, square));
    const auto scale = static_cast<float>(rest / taken);
    for (std::int64_t i = 0; i < n; ++i) {
        if (drawn[i] == 0.0F) continue;
        margins[i] -= static_cast<float>(slope);
        costs[i] *= scale;
        betas[i] *= scale;
    }
}

void SampledLogistic::Combination::assign(std::int64_t width) {
    coefficients.assign(static_cast<std::size_t>(width), 0.0F);
    margins.assign(static_cast<std::size_t>(width), 0.0F);
}

int SampledLogistic::solve(LogisticSample& sample, double tolerance) {
    const std::int64_t width = GramMatrix::padded(sample.size());
    for (auto* values : {&sample.costs, &sample.targets, &sample.betas, &sample.margins, &sample.drawn,
                         &sample.shift_products, &curvatures_})
        values->resize(static_cast<std::size_t>(width), 0.0F);  // rows of no cost
    for (auto* combination : {&gradient_, &residual_, &direction_, &step_}) combination->assign(width);
    all_ = first_numbers(sample.size());
    int cg_steps = 0;
    for (int newton_steps = 0; newton_steps < kMaxNewtonSteps; ++newton_steps) {
        const double square = set_gradient(sample);
        if (square <= tolerance * tolerance) break;
        cg_steps += set_step(sample, square, tolerance);
        if (!take_step(sample)) break;
    }
    return cg_steps;
}

// The margins of a combination of shifted rows.
void SampledLogistic::multiply(const LogisticSample& sample, Combination& combination) const {
    const float* const values = combination.coefficients.data();
    float* const out = combination.margins.data();
    sample.gram.multiply(all_, values, out);
    if (sample.gradient_share == 0.0) return;
    const std::int64_t width = std::ssize(curvatures_);
    const float along_drawn = dot(sample.drawn.data(), values, width);
    const float along_shift = dot(sample.shift_products.data(), values, width) + sample.shift_square * along_drawn;
    add_scaled(out, sample.drawn.data(), along_shift, width);
    add_scaled(out, sample.shift_products.data(), along_drawn, width);
}

// The gradient is X_Rᵀγ with γ = β + a φ'(margin). Returns its square, γᵀKγ.
double SampledLogistic::set_gradient(const LogisticSample& sample) {
    const std::int64_t width = std::ssize(curvatures_);
    for_each_block(sample, sample.betas, [&](std::int64_t i, const SampleRows& rows, const Lanes& betas) {
        const Lanes small = exp_minus(abs_lanes(rows.margins));
        const Lanes inverse = 1.0F / (1.0F + small);
        const Lanes chance = select(rows.margins > 0.0F, Lanes{} + 1.0F, small) * inverse;
        store(rows.costs * small * inverse * inverse, curvatures_.data() + i);
        store(betas + rows.costs * (chance - rows.targets), gradient_.coefficients.data() + i);
    });
    multiply(sample, gradient_);
    return dot(gradient_.coefficients.data(), gradient_.margins.data(), width);
}

// Solve (1 + DK) ν = -γ by conjugate gradients in the inner product of K.
int SampledLogistic::set_step(const LogisticSample& sample, double square, double tolerance) {
    const std::int64_t width = std::ssize(curvatures_);
    const double goal = std::max(kCgShare * kCgShare * square, 0.25 * tolerance * tolerance);
    step_.assign(width);
    for (std::int64_t i = 0; i < width; ++i) {
        residual_.coefficients[i] = -gradient_.coefficients[i];
        residual_.margins[i] = -gradient_.margins[i];
    }
    direction_ = residual_;
    int steps = 0;
    while (square > goal && steps < kMaxCgSteps) {
        ++steps;
        // product = p + D(Kp); pᵀK product = (Kp)ᵀ product
        Lanes sums{};
        for (std::int64_t i = 0; i < width; i += kLanes) {
            Lanes coefficients;
            Lanes margins;
            Lanes curvatures;
            load(coefficients, direction_.coefficients.data() + i);
            load(margins, direction_.margins.data() + i);
            load(curvatures, curvatures_.data() + i);
            sums += margins * (coefficients + curvatures * margins);
        }
        const double curvature = sum(sums);
        if (!(curvature > 0.0)) break;
        const float length = static_cast<float>(square / curvature);
        for (std::int64_t i = 0; i < width; ++i) {
            const float product = direction_.coefficients[i] + curvatures_[i] * direction_.margins[i];
            step_.coefficients[i] += length * direction_.coefficients[i];
            step_.margins[i] += length * direction_.margins[i];
            residual_.coefficients[i] -= length * product;
        }
        multiply(sample, residual_);
        const double next = dot(residual_.coefficients.data(), residual_.margins.data(), width);
        const float turn = static_cast<float>(next / square);
        for (std::int64_t i = 0; i < width; ++i) {
            direction_.coefficients[i] = residual_.coefficients[i] + turn * direction_.coefficients[i];
            direction_.margins[i] = residual_.margins[i] + turn * direction_.margins[i];
        }
        square = next;
    }
    return steps;
}

// With w - v = X_Rᵀβ, half the square of w and the linear part of the model are ½ βᵀKβ, up to a constant.
double SampledLogistic::objective_change(const LogisticSample& sample, float share) const {
    const std::int64_t width = std::ssize(curvatures_);
    const double cross = dot(sample.betas.data(), step_.margins.data(), width);
    const double square = dot(step_.coefficients.data(), step_.margins.data(), width);
    double total = share * cross + 0.5 * share * share * square;
    for_each_block(sample, step_.margins, [&](std::int64_t, const SampleRows& rows, const Lanes& moves) {
        const Lanes signs = 2.0F * rows.targets - 1.0F;
        const Lanes before = signs * rows.margins;
        const Lanes after = before + signs * (share * moves);
        total += sum(rows.costs * (Logistic::value(after) - Logistic::value(before)));
    });
    return total;
}

bool SampledLogistic::take_step(LogisticSample& sample) {
    const std::int64_t width = std::ssize(curvatures_);
    const double slope = dot(gradient_.coefficients.data(), step_.margins.data(), width);
    float share = 1.0F;
    for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5F) {
        if (!(objective_change(sample, share) <= kArmijo * share * slope)) continue;
        add_scaled(sample.betas.data(), step_.coefficients.data(), share, width);
        add_scaled(sample.margins.data(), step_.margins.data(), share, width);
        return true;
    }
    return false;
}

}  // namespace longtail::linear
