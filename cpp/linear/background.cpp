#include "linear/background.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::linear {

namespace {

constexpr int kMaxNewtonSteps = 100;
constexpr int kMaxCgSteps = 300;
constexpr double kCgShare = 0.1;
constexpr int kMaxHalvings = 12;

// Vectors have n_features + 1 entries, the shift last.
class BackgroundSolver {
public:
    BackgroundSolver(const SparseRows& rows, const OvaConfig& config, Control& control)
        : rows_(rows),
          cost_(config.cost),
          stiffness_(1.0 / (static_cast<double>(config.bias) * config.bias)),
          control_(control),
          n_(static_cast<std::size_t>(rows.n_features())),
          point_(n_ + 1, 0.0) {}

    Background solve(double tolerance) {
        point_[n_] = stiffness_ / (stiffness_ + 2.0 * cost_ * static_cast<double>(rows_.n_rows()));
        gaps_.resize(static_cast<std::size_t>(rows_.n_rows()));
        along_.resize(gaps_.size());
        set_gaps(point_, gaps_);
        double norm = set_gradient();
        for (int step = 0; step < kMaxNewtonSteps && norm > tolerance; ++step) {
            set_step(std::max(kCgShare * norm, 0.3 * tolerance));
            set_gaps(step_, along_);
            const double share = search_line();
            for (std::size_t i = 0; i <= n_; ++i) point_[i] += share * step_[i];
            for (std::size_t row = 0; row < gaps_.size(); ++row) gaps_[row] += share * along_[row];
            norm = set_gradient();
        }
        Background out;
        out.shift = point_[n_];
        out.pull = pull_;
        out.residual_norm = norm;
        point_.pop_back();
        for (const double weight : point_) {
            out.largest = std::max(out.largest, std::abs(weight));
            out.square += weight * weight;
        }
        for (const double gap : gaps_) out.loss += gap > 0.0 ? cost_ * gap * gap : 0.0;
        out.weights = std::move(point_);
        return out;
    }

private:
    double gap(std::int64_t row, const std::vector<double>& v) const {
        double sum = v[n_];
        rows_.for_each(row, [&](std::int32_t feature, float value) { sum += v[feature] * value; });
        return sum;
    }
    void add(std::int64_t row, double scale, std::vector<double>& v) const {
        v[n_] += scale;
        rows_.for_each(row, [&](std::int32_t feature, float value) { v[feature] += scale * value; });
    }

    void set_gaps(const std::vector<double>& v, std::vector<double>& out) const {
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
            if (row % 4096 == 0) control_.throw_if_stopped();
            out[row] = gap(row, v);
        }
    }

    // Where the objective is lowest along the step, to a few per cent; at most the whole step.
    double search_line() const {
        double cross = stiffness_ * (point_[n_] - 1.0) * step_[n_];
        double square = stiffness_ * step_[n_] * step_[n_];
        for (std::size_t i = 0; i < n_; ++i) {
            cross += point_[i] * step_[i];
            square += step_[i] * step_[i];
        }
        const auto slope = [&](double share) {
            double total = cross + share * square;
            for (std::size_t row = 0; row < gaps_.size(); ++row)
                total += 2.0 * cost_ * std::max(0.0, gaps_[row] + share * along_[row]) * along_[row];
            return total;
        };
        if (slope(1.0) <= 0.0) return 1.0;
        double low = 0.0;
        double high = 1.0;
        for (int halving = 0; halving < kMaxHalvings && high - low > 0.05 * high; ++halving) {
            const double middle = 0.5 * (low + high);
            (slope(middle) <= 0.0 ? low : high) = middle;
        }
        return 0.5 * (low + high);
    }

    double set_gradient() {
        gradient_ = point_;
        gradient_[n_] = stiffness_ * (point_[n_] - 1.0);
        diagonal_.assign(n_ + 1, 1.0);
        diagonal_[n_] = stiffness_;
        active_.clear();
        pull_ = 0.0;
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
            if (row % 4096 == 0) control_.throw_if_stopped();
            const double q = gaps_[row];
            if (q <= 0.0) continue;
            active_.push_back(static_cast<std::int32_t>(row));
            add(row, 2.0 * cost_ * q, gradient_);
            pull_ += 2.0 * cost_ * q;
            diagonal_[n_] += 2.0 * cost_;
            rows_.for_each(row, [&](std::int32_t f, float value) { diagonal_[f] += 2.0 * cost_ * value * value; });
        }
        return norm(gradient_);
    }

    // Conjugate gradients, scaled by the diagonal: the entries of a frequent word are thousands of times stiffer.
    void set_step(double goal) {
        step_.assign(n_ + 1, 0.0);
        residual_.resize(n_ + 1);
        direction_.resize(n_ + 1);
        double current = 0.0;
        for (std::size_t i = 0; i <= n_; ++i) {
            residual_[i] = -gradient_[i];
            direction_[i] = residual_[i] / diagonal_[i];
            current += residual_[i] * direction_[i];
        }
        for (int steps = 0; steps < kMaxCgSteps && norm(residual_) > goal; ++steps) {
            control_.throw_if_stopped();
            product_ = direction_;
            product_[n_] *= stiffness_;
            for (const std::int32_t row : active_) add(row, 2.0 * cost_ * gap(row, direction_), product_);
            double curvature = 0.0;
            for (std::size_t i = 0; i <= n_; ++i) curvature += direction_[i] * product_[i];
            if (curvature <= 0.0) return;
            const double length = current / curvature;
            double next = 0.0;
            for (std::size_t i = 0; i <= n_; ++i) {
                step_[i] += length * direction_[i];
                residual_[i] -= length * product_[i];
                next += residual_[i] * residual_[i] / diagonal_[i];
            }
            for (std::size_t i = 0; i <= n_; ++i)
                direction_[i] = residual_[i] / diagonal_[i] + next / current * direction_[i];
            current = next;
        }
    }

    // Of a gradient over (v, bias weight): an entry of the shift is 1/bias of one of the bias weight.
    double norm(const std::vector<double>& v) const {
        double square = 0.0;
        for (std::size_t i = 0; i < n_; ++i) square += v[i] * v[i];
        return std::sqrt(square + v[n_] * v[n_] / stiffness_);
    }

    const SparseRows& rows_;
    double cost_;
    double stiffness_;
    Control& control_;
    std::size_t n_;
    double pull_ = 0.0;
    std::vector<std::int32_t> active_;
    std::vector<double> gaps_;   // of every row
    std::vector<double> along_;  // how the step changes them
    std::vector<double> point_;
    std::vector<double> gradient_;
    std::vector<double> diagonal_;
    std::vector<double> step_;
    std::vector<double> residual_;
    std::vector<double> direction_;
    std::vector<double> product_;
};

}  // namespace

Background::Background(std::span<const double> flat)
    : weights(flat.begin(), flat.end() - 6),
      shift(flat[flat.size() - 6]),
      pull(flat[flat.size() - 5]),
      residual_norm(flat[flat.size() - 4]),
      largest(flat[flat.size() - 3]),
      square(flat[flat.size() - 2]),
      loss(flat[flat.size() - 1]) {}

std::vector<double> Background::flattened() && {
    std::vector<double> out = std::move(weights);
    out.insert(out.end(), {shift, pull, residual_norm, largest, square, loss});
    return out;
}

Background solve_background(const SparseRows& rows, const OvaMoments& moments, const OvaConfig& config,
                            Control& control) {
    constexpr double kShare = 0.1;
    double square = 0.0;  // of the mean row: ‖∇L(0)‖ is 2·cost·n times its length
    for (const float value : moments.mean) square += static_cast<double>(value) * value;
    const double tolerance = kShare * 2.0 * config.cost * config.tolerance * std::sqrt(square);
    return BackgroundSolver(rows, config, control).solve(tolerance);
}

}  // namespace longtail::linear
