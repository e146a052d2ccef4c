#include "linear/near_rows.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linear/double_lanes.hpp"

namespace longtail::linear {

namespace {
constexpr int kMaxCgSteps = 100;
constexpr double kCgShare = 0.1;
constexpr double kArmijo = 0.01;
constexpr int kMaxHalvings = 20;
constexpr int kMaxLifted = 3;        // steps in a row that end with far rows above their margin
constexpr double kRounding = 1e-13;  // of the objective: what sums over many rows may be off by

// What the rows of a run add up to. `kHolds`: there is a background, so that a part is taken off their slopes.
template <bool kHolds>
struct RunSums {
    DoubleLanes squares = {};
    DoubleLanes slopes = {};
    DoubleLanes pulls = {};
    DoubleLanes held_margins = {};
    DoubleLanes n = {};    // active rows,
    DoubleLanes own = {};  // their values
    DoubleLanes own_squares = {};

    // Add rows with these offsets and values; return their slopes.
    DoubleLanes add(const DoubleLanes& offset, const DoubleLanes& value, double t, double weight, double twice) {
        const DoubleLanes margin = t * offset + weight * value;
        const DoubleLanes gap = above_zero(margin);
        const DoubleLanes active_value = margin > DoubleLanes{} ? value : DoubleLanes{};
        DoubleLanes slope = twice * gap;
        if constexpr (kHolds) {
            const DoubleLanes taken_off = twice * t * above_zero(offset);
            slope -= taken_off;
            held_margins += taken_off * margin;
        }
        squares += gap * gap;
        slopes += slope;
        pulls += slope * value;
        n += margin > DoubleLanes{} ? DoubleLanes{} + 1.0 : DoubleLanes{};
        own += active_value;
        own_squares += active_value * value;
        return slope;
    }
};
}  // namespace

void NearRows::clear_rows() {
    begins.assign(1, 0);
    words.clear();
    values.clear();
    offsets.clear();
    runs_.clear();
    first_pair = 0;
    last_pair = 0;
}

double NearRows::norm_square(const std::vector<double>& v) const {
    double square = 0.0;
    for (std::size_t i = 0; i + 1 < v.size(); ++i) square += v[i] * v[i];
    return has_background ? square : square + v.back() * v.back() / config.stiffness;
}

void NearRows::add_run(std::int64_t first_row, std::int64_t last_row, std::int32_t word) {
    if (first_row < last_row) runs_.push_back({first_row, last_row, word});
}

void NearRows::resize_point(std::size_t n_words) {
    const double t = point.back();
    point.back() = 0.0;
    point.resize(n_words + 1, 0.0);
    point.back() = t;
}

void NearRows::evaluate(Evaluation& out) const {
    const std::size_t n_words = point.size() - 1;
    const double t = point[n_words];
    out.gradient = point;
    out.slopes.resize(offsets.size());
    out.active.clear();
    out.run_diagonal.assign(n_words + 1, 0.0);
    out.run_cross.assign(n_words + 1, 0.0);
    out.objective = 0.0;
    out.loss = 0.0;
    out.slope_sum = 0.0;
    out.n_active = 0;
    for (std::size_t i = 0; i < n_words; ++i) out.objective += 0.5 * point[i] * point[i];
    evaluate_rows(0, n_positives, out);
    for (const Run& run : runs_) has_background ? evaluate_run<true>(run, out) : evaluate_run<false>(run, out);
    const std::size_t n_before = out.active.size();
    evaluate_pairs(out);
    out.n_active += static_cast<std::int64_t>(out.active.size() - n_before);
    evaluate_rows(last_pair, static_cast<std::int64_t>(offsets.size()), out);
    out.objective += out.loss;
    out.gradient[n_words] = 0.0;
    if (!has_background) {
        out.objective += 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
        out.gradient[n_words] = config.stiffness * (t - 1.0) + out.slope_sum;
        if (t > 0.0) {
            out.objective += config.cost * config.n_far * t * t;
            out.gradient[n_words] += 2.0 * config.cost * config.n_far * t;
        }
    }
    out.gradient_square = norm_square(out.gradient);
}

void NearRows::evaluate_rows(std::int64_t begin, std::int64_t end, Evaluation& out) const {
    const double t = point.back();
    const double held = has_background ? 2.0 * config.cost * t : 0.0;  // what an offset above zero takes off the slope
    double loss = 0.0;  // sums of their own: writes to the gradient would make the compiler store them at every row
    double held_margins = 0.0;
    double slope_sum = 0.0;
    for (std::int64_t row = begin; row < end; ++row) {
        double margin = t * offsets[row];
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) margin += point[words[i]] * values[i];
        const bool is_positive = row < n_positives;
        const double gap = is_positive ? 2.0 - margin : margin;
        const double taken_off = held * std::max(0.0F, offsets[row]);
        double slope = -taken_off;
        if (gap > 0.0) {
            const double cost = is_positive ? config.positive_cost : config.cost;
            slope += (is_positive ? -2.0 : 2.0) * cost * gap;
            loss += cost * gap * gap;
            ++out.n_active;
            out.active.push_back(static_cast<std::int32_t>(row));
        }
        out.slopes[row] = slope;
        if (slope == 0.0) continue;
        held_margins += taken_off * margin;
        slope_sum += slope;
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) out.gradient[words[i]] += slope * values[i];
    }
    out.loss += loss;
    out.objective -= held_margins;
    out.slope_sum += slope_sum;
}

template <bool kHolds>
void NearRows::evaluate_run(const Run& run, Evaluation& out) const {
    RunSums<kHolds> sums;
    const double t = point.back();
    const double weight = point[run.word];
    const double twice = 2.0 * config.cost;
    const float* const own_values = values.data() + begins[run.first_row];
    const float* const own_offsets = offsets.data() + run.first_row;
    double* const own_slopes = out.slopes.data() + run.first_row;
    const std::int64_t size = run.last_row - run.first_row;
    std::int64_t i = 0;
    for (; i + kDoubleLanes <= size; i += kDoubleLanes)
        store(sums.add(load_doubles(own_offsets + i), load_doubles(own_values + i), t, weight, twice), own_slopes + i);
    if (i < size) {
        float last_offsets[kDoubleLanes] = {};  // zeros add nothing
        float last_values[kDoubleLanes] = {};
        double last_slopes[kDoubleLanes];
        std::copy(own_offsets + i, own_offsets + size, last_offsets);
        std::copy(own_values + i, own_values + size, last_values);
        store(sums.add(load_doubles(last_offsets), load_doubles(last_values), t, weight, twice), last_slopes);
        std::copy(last_slopes, last_slopes + (size - i), own_slopes + i);
    }
    out.loss += config.cost * sum(sums.squares);
    out.objective -= sum(sums.held_margins);
    out.slope_sum += sum(sums.slopes);
    out.gradient[run.word] += sum(sums.pulls);
    const double n = sum(sums.n);
    out.n_active += static_cast<std::int64_t>(n);
    out.run_diagonal.back() += twice * n;
    out.run_diagonal[run.word] += twice * sum(sums.own_squares);
    out.run_cross[run.word] += twice * sum(sums.own);
}

void NearRows::evaluate_pairs(Evaluation& out) const {
    const double t = point.back();
    const double twice = 2.0 * config.cost;
    const double held = has_background ? twice * t : 0.0;
    double squares = 0.0;
    double held_margins = 0.0;
    double slope_sum = 0.0;
    std::int64_t i = begins[first_pair];
    for (std::int64_t row = first_pair; row < last_pair; ++row, i += 2) {
        const double offset = offsets[row];
        const double margin = t * offset + point[words[i]] * values[i] + point[words[i + 1]] * values[i + 1];
        const double gap = std::max(margin, 0.0);
        const double taken_off = held * std::max(offset, 0.0);
        const double slope = twice * gap - taken_off;
        out.slopes[row] = slope;
        if (slope == 0.0 && gap == 0.0) continue;
        if (gap > 0.0) out.active.push_back(static_cast<std::int32_t>(row));
        squares += gap * gap;
        held_margins += taken_off * margin;
        slope_sum += slope;
        out.gradient[words[i]] += slope * values[i];
        out.gradient[words[i + 1]] += slope * values[i + 1];
    }
    out.loss += config.cost * squares;
    out.objective -= held_margins;
    out.slope_sum += slope_sum;
}

// The active rows as the Hessian sees them, and its diagonal. Rows of one word only add to the entries of that word and
// the shift: most rows are such, and are no longer looked at one by one.
void NearRows::set_active_rows(double own_shift) {
    pair_words_.clear();
    pair_values_.clear();
    active_begins_.assign(1, 0);
    active_words_.clear();
    active_values_.clear();
    active_bends_.clear();
    diagonal_ = at_.run_diagonal;
    for (double& entry : diagonal_) entry += 1.0;
    cross_ = at_.run_cross;
    double alone = own_shift + at_.run_diagonal.back();
    double together = 0.0;
    for (const std::int32_t row : at_.active) {
        const double bend = 2.0 * (row < n_positives ? config.positive_cost : config.cost);
        const std::int64_t begin = begins[row];
        const std::int64_t end = begins[row + 1];
        if (row >= first_pair && row < last_pair) {
            together += bend;
            pair_words_.insert(pair_words_.end(), {words[begin], words[begin + 1]});
            pair_values_.insert(pair_values_.end(), {values[begin], values[begin + 1]});
            continue;
        }
        if (end - begin <= 1) {
            alone += bend;
            if (begin == end) continue;
            diagonal_[words[begin]] += bend * values[begin] * values[begin];
            cross_[words[begin]] += bend * values[begin];
            continue;
        }
        together += bend;
        active_words_.insert(active_words_.end(), words.begin() + begin, words.begin() + end);
        active_values_.insert(active_values_.end(), values.begin() + begin, values.begin() + end);
        active_begins_.push_back(static_cast<std::int64_t>(active_words_.size()));
        active_bends_.push_back(bend);
    }
    own_diagonal_ = diagonal_;
    own_diagonal_.back() = alone;
    for (std::size_t i = 0; i < pair_words_.size(); ++i)
        diagonal_[pair_words_[i]] += 2.0 * config.cost * pair_values_[i] * pair_values_[i];
    for (std::size_t row = 0; row < active_bends_.size(); ++row)
        for (std::int64_t i = active_begins_[row]; i < active_begins_[row + 1]; ++i)
            diagonal_[active_words_[i]] += active_bends_[row] * active_values_[i] * active_values_[i];
    diagonal_.back() = has_background ? 1.0 : alone + together;
}

// product_ = H · direction_, whose shift is `shift`.
void NearRows::set_product(double shift) {
    const std::size_t n = point.size();
    product_.resize(n);
    double shift_product = own_diagonal_.back() * shift;
    for (std::size_t i = 0; i + 1 < n; ++i) {
        product_[i] = own_diagonal_[i] * direction_[i] + cross_[i] * shift;
        shift_product += cross_[i] * direction_[i];
    }
    const double twice = 2.0 * config.cost;
    for (std::size_t i = 0; i < pair_words_.size(); i += 2) {
        const std::int32_t first = pair_words_[i];
        const std::int32_t second = pair_words_[i + 1];
        const double bend =
            twice * (shift + direction_[first] * pair_values_[i] + direction_[second] * pair_values_[i + 1]);
        shift_product += bend;
        product_[first] += bend * pair_values_[i];
        product_[second] += bend * pair_values_[i + 1];
    }
    for (std::size_t row = 0; row < active_bends_.size(); ++row) {
        const std::int64_t end = active_begins_[row + 1];
        double sum = shift;
        for (std::int64_t i = active_begins_[row]; i < end; ++i)
            sum += direction_[active_words_[i]] * active_values_[i];
        const double bend = active_bends_[row] * sum;
        shift_product += bend;
        for (std::int64_t i = active_begins_[row]; i < end; ++i) product_[active_words_[i]] += bend * active_values_[i];
    }
    product_.back() = has_background ? 0.0 : shift_product;
}

// Conjugate gradients on H p = -g, scaled by the diagonal.
void NearRows::set_step(double tolerance) {
    const std::size_t n = point.size();
    const double own_shift = config.stiffness + (point.back() > 0.0 ? 2.0 * config.cost * config.n_far : 0.0);
    set_active_rows(has_background ? 0.0 : own_shift);
    step_.assign(n, 0.0);
    residual_.resize(n);
    direction_.resize(n);
    double current = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        residual_[i] = -at_.gradient[i];
        direction_[i] = residual_[i] / diagonal_[i];
        current += residual_[i] * direction_[i];
    }
    const double goal = std::max(kCgShare * kCgShare * at_.gradient_square, 0.1 * tolerance * tolerance);
    for (int steps = 0; steps < kMaxCgSteps && norm_square(residual_) > goal; ++steps) {
        set_product(has_background ? 0.0 : direction_.back());  // offsets are 1 where t moves
        double curvature = 0.0;
        for (std::size_t i = 0; i < n; ++i) curvature += direction_[i] * product_[i];
        if (curvature <= 0.0) return;
        const double length = current / curvature;
        double next = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            step_[i] += length * direction_[i];
            residual_[i] -= length * product_[i];
            next += residual_[i] * residual_[i] / diagonal_[i];
        }
        for (std::size_t i = 0; i < n; ++i)
            direction_[i] = residual_[i] / diagonal_[i] + next / current * direction_[i];
        current = next;
    }
}

bool NearRows::descend(double tolerance, int max_steps, bool keeps_history, LabelRecord& record) {
    const std::size_t n = point.size();
    evaluate(at_);
    int n_lifted = 0;
    for (int steps = 0; at_.gradient_square > tolerance * tolerance; ++steps) {
        if (steps >= max_steps) return false;
        if (stops_when_lifted && !has_background && n_lifted >= kMaxLifted) return true;
        set_step(tolerance);
        double slope = 0.0;
        for (std::size_t i = 0; i < n; ++i) slope += at_.gradient[i] * step_[i];
        before_ = point;
        double share = 1.0;
        bool is_lower = false;
        for (int halving = 0; halving <= kMaxHalvings; ++halving, share *= 0.5) {
            for (std::size_t i = 0; i < n; ++i) point[i] = before_[i] + share * step_[i];
            for (std::size_t i = static_cast<std::size_t>(n_core); i + 1 < n; ++i) point[i] = std::min(point[i], 0.0);
            evaluate(trial_);
            is_lower =
                trial_.objective <= at_.objective + kArmijo * share * slope + kRounding * std::abs(at_.objective);
            if (is_lower) break;
        }
        if (!is_lower) return false;
        std::swap(at_, trial_);
        n_lifted = point.back() > 0.0 ? n_lifted + 1 : 0;
        ++record.iterations;
        if (keeps_history)
            record.history.push_back(
                {at_.objective, static_cast<std::int32_t>(at_.n_active), static_cast<float>(share)});
    }
    return true;
}

}  // namespace longtail::linear
