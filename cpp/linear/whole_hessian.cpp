#include "linear/whole_hessian.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "linear/cholesky.hpp"

namespace longtail::linear {

namespace {

constexpr std::int64_t kMaxFeatures = 256;
constexpr std::int64_t kBlockRows = 256;
constexpr std::int64_t kTile = 4;   // times sixteen: as many sums as AVX2 has registers for
constexpr double kFreeBias = 1e-8;  // on the diagonal for a bias that is not regularised: never singular

std::uint32_t bits_unequal(const Lanes& a, const Lanes& b) { return bits_greater(a, b) | bits_greater(b, a); }

}  // namespace

WholeHessians::WholeHessians(const DenseRows& rows, const OvaLabels& labels, const OvaConfig& config, Control& control)
    : rows_(rows), labels_(labels), config_(config), control_(control), width_(rows.n_features() + 1) {
    held_.assign(rows.n_rows(), Lanes{});
    gradient_.assign(width_, 0.0);
    row_.assign((width_ + kLanes - 1) / kLanes * kLanes, 0.0F);
    right_.assign(row_.size() * kBlockRows, 0.0F);
    left_.assign(row_.size() * kBlockRows, 0.0F);
}

bool WholeHessians::suits(const DenseRows& rows, const OvaConfig& config) {
    return config.loss == Loss::squared_hinge && config.working_sets && rows.n_features() <= kMaxFeatures;
}

// Of an active negative, rounded as the trainer rounds it.
float WholeHessians::base_curvature(std::int64_t row) const {
    return 2.0F * (static_cast<float>(config_.cost) * static_cast<float>(labels_.row_weight(row)));
}

void WholeHessians::update(const AlignedVector<Lanes>& curvatures, std::uint32_t busy) {
    for (int at = 0; at < kLanes; ++at)
        if ((busy >> at & 1U) != 0 && is_new_[at]) choose_base(curvatures, at);
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        const std::uint32_t bits = bits_unequal(curvatures[row], held_[row]) & busy;
        if (bits == 0) continue;
        float moves[kLanes];
        store(curvatures[row] - held_[row], moves);
        for (std::uint32_t left = bits; left != 0; left &= left - 1) {
            const int at = std::countr_zero(left);
            moves_[at].push_back({static_cast<std::int32_t>(row), moves[at]});
        }
        held_[row] = choose(bits, curvatures[row], held_[row]);
    }
    for (int at = 0; at < kLanes; ++at) {
        for (const Move& move : moves_[at]) add_row(move.row, move.curvature, matrices_[at]);
        add_block(matrices_[at]);
        moves_[at].clear();
    }
}

// Begin a matrix at no rows or at all rows.
void WholeHessians::choose_base(const AlignedVector<Lanes>& curvatures, int at) {
    std::int64_t n_from_none = 0;
    std::int64_t n_from_all = 0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) {
        const float base = base_curvature(row);
        n_from_none += bits_unequal(curvatures[row], Lanes{}) >> at & 1U;
        n_from_all += bits_unequal(curvatures[row], Lanes{} + base) >> at & 1U;
    }
    const bool takes_all = n_from_all <= n_from_none;
    if (takes_all && all_rows_.empty()) set_all_rows();
    if (takes_all)
        matrices_[at] = all_rows_;
    else
        matrices_[at].assign(width_ * width_, 0.0);
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) held_[row][at] = takes_all ? base_curvature(row) : 0.0F;
    for (std::int64_t f = 0; f < width_; ++f) matrices_[at][f * width_ + f] += 1.0;
    if (!config_.regularize_bias && config_.bias != 0.0F) matrices_[at].back() += kFreeBias - 1.0;
    is_new_[at] = false;
}

void WholeHessians::set_all_rows() {
    all_rows_.assign(width_ * width_, 0.0);
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) add_row(row, base_curvature(row), all_rows_);
    add_block(all_rows_);
}

void WholeHessians::add_row(std::int64_t row, float curvature, std::vector<double>& matrix) {
    rows_.for_each(row, [&](std::int32_t f, float value) { row_[f] = value; });
    row_[rows_.n_features()] = config_.bias;
    for (std::int64_t f = 0; f < std::ssize(row_); f += kLanes) {
        Lanes entries;
        load(entries, row_.data() + f);
        store(entries, right_.data() + f * kBlockRows + block_size_ * kLanes);
        float weighted[kLanes];
        store(entries * curvature, weighted);
        for (std::int64_t part = 0; part < kLanes; part += kTile)
            std::copy(weighted + part, weighted + part + kTile,
                      left_.data() + (f + part) * kBlockRows + block_size_ * kTile);
    }
    if (++block_size_ == kBlockRows) add_block(matrix);
}

// Add the rows of the block, times their curvatures, to a matrix.
void WholeHessians::add_block(std::vector<double>& matrix) {
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
                double* const out = matrix.data() + (i + part) * width_;
                for (std::int64_t f = j; f < std::min(j + kLanes, i + part + 1); ++f) out[f] += products[f - j];
            }
        }
    }
}

void WholeHessians::solve(int at, const AlignedVector<Lanes>& gradient, AlignedVector<Lanes>& step) {
    for (std::int64_t f = 0; f < width_; ++f) gradient_[f] = gradient[f][at];
    factor_ = matrices_[at];
    if (!solve_newton_step(factor_, gradient_, step_)) {  // by rounding only: go downhill, as far as is safe
        double trace = 0.0;
        for (std::int64_t f = 0; f < width_; ++f) trace += matrices_[at][f * width_ + f];
        for (std::int64_t f = 0; f < width_; ++f) step_[f] = -gradient_[f] / trace;
    }
    for (std::int64_t f = 0; f < width_; ++f) step[f][at] = static_cast<float>(step_[f]);
}

}  // namespace longtail::linear
