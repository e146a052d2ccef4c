#include "linear/dense_newton.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "linear/cholesky.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kMaxFeatures = 256;
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kTile = 4;  // times sixteen: as many sums as AVX2 has registers for
constexpr double kArmijo = 0.01;   // the paper's η
constexpr int kMaxHalvings = 20;
constexpr double kFreeBias = 1e-8;  // on the diagonal for a bias that is not regularised: never singular

}  // namespace

DenseNewtonTrainer::DenseNewtonTrainer(const DenseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                       const OvaStart& start, const OvaConfig& config, LabelSink& sink,
                                       Control& control)
    : rows_(rows),
      labels_(labels),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      width_(rows.n_features() + 1) {
    for (auto* per_row : {&signs_, &costs_, &margins_, &along_, &held_}) per_row->assign(rows.n_rows(), 0.0F);
    weights_.assign(width_, 0.0F);
    gradient_.assign(width_, 0.0);
    row_.assign((width_ + kLanes - 1) / kLanes * kLanes, 0.0F);
    right_.assign(row_.size() * kBlockRows, 0.0F);
    left_.assign(row_.size() * kBlockRows, 0.0F);
}

bool DenseNewtonTrainer::suits(const DenseRows& rows, const OvaConfig& config) {
    return config.working_sets && rows.n_features() <= kMaxFeatures;
}

void DenseNewtonTrainer::train(std::span<const std::int32_t> label_ids) {
    for (const std::int32_t label : label_ids) train_label(label);
}

void DenseNewtonTrainer::train_label(std::int64_t label) {
    const auto begin_time = std::chrono::steady_clock::now();
    const auto positives = labels_.positives.row_labels(label);
    LabelRecord record;
    std::fill(weights_.begin(), weights_.end(), 0.0F);
    const bool is_asked = config_.train_empty || !positives.empty();
    const LabelStart start = is_asked ? starter_.prepare(label) : LabelStart{};
    if (is_asked && start.tolerance > 0.0) {
        starter_.set_weights(label, start, weights_.data());
        std::fill(signs_.begin(), signs_.end(), -1.0F);
        for (const std::int32_t row : positives) signs_[row] = 1.0F;
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row)
            costs_[row] =
                static_cast<float>((signs_[row] > 0.0F ? start.positive_cost : config_.cost) * labels_.row_weight(row));
        const AlignedVector<float> first_weights = weights_;
        record.converged = descend(record, start.tolerance);
        record.gradient_ratio = gradient_norm() / start.zero_gradient;
        double square = 0.0;
        for (std::int64_t f = 0; f < width_; ++f) {
            const double moved = static_cast<double>(weights_[f]) - first_weights[f];
            square += moved * moved;
        }
        record.distance = std::sqrt(square);
        record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();
    }
    sink_.put(label, weights_.data(), rows_.n_features(), std::move(record));
    control_.add_done(1);
}

bool DenseNewtonTrainer::descend(LabelRecord& record, double tolerance) {
    set_margins(weights_.data(), margins_.data());
    choose_base();
    float step_size = 0.0F;
    bool is_fresh = false;
    for (;;) {
        const bool asks = record.iterations == 0 || gradient_norm() <= tolerance || step_size == 0.0F;
        if (!is_fresh && (asks || config_.keep_history)) {
            refresh(record);
            is_fresh = true;
            if (record.iterations == 0) record.first_objective = record.last_objective;
            if (config_.keep_history) {
                const auto n_active = std::count_if(held_.begin(), held_.end(), [](float cost) { return cost > 0.0F; });
                record.history.push_back({record.last_objective, static_cast<std::int32_t>(n_active), step_size});
            }
        }
        if (is_fresh && gradient_norm() <= tolerance) return true;
        if (record.iterations >= config_.max_iterations) break;
        factor_ = hessian_;
        if (!solve_newton_step(factor_, gradient_, step_)) break;
        step_size = take_step();
        if (step_size == 0.0F && is_fresh) break;  // no step lowers the objective any more
        if (step_size == 0.0F) continue;
        ++record.iterations;
        for (double& entry : gradient_) entry *= 1.0 - static_cast<double>(step_size);
        update(true);
        is_fresh = false;
    }
    if (!is_fresh) refresh(record);
    return false;
}

// Margins, Hessian, gradient and objective at the weights, the last two in float64.
void DenseNewtonTrainer::refresh(LabelRecord& record) {
    if (record.iterations > 0) set_margins(weights_.data(), margins_.data());
    update(false);
    std::copy(weights_.begin(), weights_.end(), gradient_.begin());
    if (!config_.regularize_bias) gradient_.back() = 0.0;
    double objective = 0.0;
    for (const double entry : gradient_) objective += 0.5 * entry * entry;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (held_[row] == 0.0F) continue;
        const double gap = static_cast<double>(signs_[row]) - margins_[row];
        objective += held_[row] * gap * gap;
        rows_.add_to(row, -2.0 * held_[row] * gap, gradient_.data());
        gradient_.back() -= 2.0 * held_[row] * gap * config_.bias;
    }
    record.last_objective = objective;
}

void DenseNewtonTrainer::set_margins(const float* weights, float* margins) {
    const float constant = config_.bias * weights[rows_.n_features()];
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        if (row % 4096 == 0) control_.throw_if_stopped();
        margins[row] = rows_.dot(row, weights) + constant;
    }
}

// Begin the Hessian at no rows or at all rows.
void DenseNewtonTrainer::choose_base() {
    std::int64_t n_active = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) n_active += signs_[row] * margins_[row] < 1.0F ? 1 : 0;
    std::fill(held_.begin(), held_.end(), 0.0F);
    hessian_.assign(width_ * width_, 0.0);
    if (2 * n_active > rows_.n_rows()) {
        if (all_rows_.empty()) set_all_rows();
        hessian_ = all_rows_;
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row)
            held_[row] = static_cast<float>(config_.cost * labels_.row_weight(row));
    }
    for (std::int64_t f = 0; f < width_; ++f) hessian_[f * width_ + f] += 1.0;
    if (!config_.regularize_bias && config_.bias != 0.0F) hessian_.back() += kFreeBias - 1.0;
}

void DenseNewtonTrainer::set_all_rows() {
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row)
        add_row(row, 2.0 * static_cast<float>(config_.cost * labels_.row_weight(row)));
    add_block();
    all_rows_ = hessian_;
}

// Bring the Hessian, and on request the gradient, to the rows that are active at the margins.
void DenseNewtonTrainer::update(bool moves_gradient) {
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        const float wanted = signs_[row] * margins_[row] < 1.0F ? costs_[row] : 0.0F;
        if (wanted == held_[row]) continue;
        const double weight = 2.0 * (static_cast<double>(wanted) - held_[row]);
        if (moves_gradient) {
            const double slope = weight * (static_cast<double>(margins_[row]) - signs_[row]);
            rows_.add_to(row, slope, gradient_.data());
            gradient_.back() += slope * config_.bias;
        }
        held_[row] = wanted;
        add_row(row, weight);
    }
    add_block();
}

void DenseNewtonTrainer::add_row(std::int64_t row, double weight) {
    rows_.for_each(row, [&](std::int32_t f, float value) { row_[f] = value; });
    row_[rows_.n_features()] = config_.bias;
    for (std::int64_t f = 0; f < std::ssize(row_); f += kLanes) {
        Lanes entries;
        load(entries, row_.data() + f);
        store(entries, right_.data() + f * kBlockRows + block_size_ * kLanes);
        float weighted[kLanes];
        store(entries * static_cast<float>(weight), weighted);
        for (std::int64_t part = 0; part < kLanes; part += kTile)
            std::copy(weighted + part, weighted + part + kTile,
                      left_.data() + (f + part) * kBlockRows + block_size_ * kTile);
    }
    if (++block_size_ == kBlockRows) add_block();
}

// Add the rows of the block, times their weights, to the Hessian.
void DenseNewtonTrainer::add_block() {
    const std::int64_t n = std::exchange(block_size_, 0);
    if (n == 0) return;
    control_.throw_if_stopped();
    for (std::int64_t j = 0; j < width_; j += kLanes) {
        const float* const right = right_.data() + j * kBlockRows;
        for (std::int64_t i = j; i < width_; i += kTile) {
            const float* const left = left_.data() + i * kBlockRows;
            Lanes sums[kTile] = {};
            for (std::int64_t at = 0; at < n; ++at) {
                Lanes entries;
                load(entries, right + at * kLanes);
                for (int part = 0; part < kTile; ++part) sums[part] += left[at * kTile + part] * entries;
            }
            for (std::int64_t part = 0; part < std::min(kTile, width_ - i); ++part) {
                float products[kLanes];
                store(sums[part], products);
                double* const out = hessian_.data() + (i + part) * width_;
                for (std::int64_t f = j; f < std::min(j + kLanes, i + part + 1); ++f) out[f] += products[f - j];
            }
        }
    }
}

// Move along step_, halving until the objective falls enough; returns the share taken, 0 when it cannot.
float DenseNewtonTrainer::take_step() {
    float_step_.assign(step_.begin(), step_.end());
    set_margins(float_step_.data(), along_.data());
    double cross = 0.0;
    double square = 0.0;
    double slope = 0.0;
    for (std::int64_t f = 0; f < width_; ++f) {
        slope += gradient_[f] * step_[f];
        if (f + 1 == width_ && !config_.regularize_bias) continue;
        cross += weights_[f] * step_[f];
        square += step_[f] * step_[f];
    }
    float share = 1.0F;
    for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5F) {
        // Differences, not values, are added up: near the minimum they are what is left of the digits.
        double change = share * cross + 0.5 * share * share * square;
        for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
            const float before = std::max(0.0F, 1.0F - signs_[row] * margins_[row]);
            const float after = std::max(0.0F, 1.0F - signs_[row] * (margins_[row] + share * along_[row]));
            change += static_cast<double>(costs_[row]) * (after - before) * (after + before);
        }
        if (change > kArmijo * share * slope) continue;
        add_scaled(weights_.data(), float_step_.data(), share, width_);
        add_scaled(margins_.data(), along_.data(), share, rows_.n_rows());
        return share;
    }
    return 0.0F;
}

double DenseNewtonTrainer::gradient_norm() const {
    double square = 0.0;
    for (const double entry : gradient_) square += entry * entry;
    return std::sqrt(square);
}

}  // namespace longtail::linear
