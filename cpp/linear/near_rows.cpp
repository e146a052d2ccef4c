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
    size_begins.fill(0);
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
    if (out.active.size() < offsets.size() + 1) out.active.resize(offsets.size() + 1);
    if (out.moving.size() < offsets.size() + 1) out.moving.resize(offsets.size() + 1);
    out.n_alone = 0;
    out.n_moving = 0;
    out.run_diagonal.assign(n_words + 1, 0.0);
    out.run_cross.assign(n_words + 1, 0.0);
    out.objective = 0.0;
    out.loss = 0.0;
    out.slope_sum = 0.0;
    out.n_active = 0;
    for (std::size_t i = 0; i < n_words; ++i) out.objective += 0.5 * point[i] * point[i];
    evaluate_rows<true>(0, n_positives, out);
    for (const Run& run : runs_) has_background ? evaluate_run<true>(run, out) : evaluate_run<false>(run, out);
    evaluate_sized<2>(out);
    evaluate_sized<3>(out);
    evaluate_sized<4>(out);
    evaluate_rows<false>(size_begins[kSizes], static_cast<std::int64_t>(offsets.size()), out);
    out.n_active += out.n_alone;
    out.objective += out.loss;
    if (has_background) return;
    out.objective += 0.5 * config.stiffness * (t - 1.0) * (t - 1.0);
    if (t > 0.0) out.objective += config.cost * config.n_far * t * t;
}

// Rows follow one another that share a word, and would wait for each other's sum: so every other row has its own.
void NearRows::finish(Evaluation& out) {
    other_gradient_.assign(point.size(), 0.0);
    double* sums = out.gradient.data();
    double* other_sums = other_gradient_.data();
    for (std::int64_t place = 0; place < out.n_moving; ++place) {
        const std::int32_t row = out.moving[place];
        const double slope = out.slopes[row];
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) sums[words[i]] += slope * values[i];
        std::swap(sums, other_sums);
    }
    for (std::size_t i = 0; i + 1 < point.size(); ++i) out.gradient[i] += other_gradient_[i];
    const double t = point.back();
    out.gradient.back() = has_background ? 0.0 : config.stiffness * (t - 1.0) + out.slope_sum;
    if (!has_background && t > 0.0) out.gradient.back() += 2.0 * config.cost * config.n_far * t;
    out.gradient_square = norm_square(out.gradient);
}

// Rows of any number of words.
template <bool kPositive>
void NearRows::evaluate_rows(std::int64_t begin, std::int64_t end, Evaluation& out) const {
    const double t = point.back();
    const double held = has_background ? 2.0 * config.cost * t : 0.0;  // what an offset above zero takes off the slope
    const double cost = kPositive ? config.positive_cost : config.cost;
    for (std::int64_t row = begin; row < end; ++row) {
        double margin = t * offsets[row];
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) margin += point[words[i]] * values[i];
        const double gap = std::max(kPositive ? 2.0 - margin : margin, 0.0);
        const double taken_off = held * std::max(0.0F, offsets[row]);
        const double slope = (kPositive ? -2.0 : 2.0) * cost * gap - taken_off;
        out.slopes[row] = slope;
        out.loss += cost * gap * gap;
        out.objective -= taken_off * margin;
        out.slope_sum += slope;
        out.active[out.n_alone] = static_cast<std::int32_t>(row);
        out.n_alone += gap > 0.0 ? 1 : 0;
        out.moving[out.n_moving] = static_cast<std::int32_t>(row);
        out.n_moving += slope != 0.0 ? 1 : 0;
    }
}

// Negatives that all have so many words. Which of them are above their margin cannot be foreseen: so there are no
// branches, and rows are written to the lists in any case.
template <int kWords>
void NearRows::evaluate_sized(Evaluation& out) const {
    const double t = point.back();
    const double twice = 2.0 * config.cost;
    const double held = has_background ? twice * t : 0.0;
    const std::int64_t end = size_begins[kWords - kFirstSize + 1];
    const std::int64_t begin = size_begins[kWords - kFirstSize];
    const double* const weights = point.data();
    const std::int32_t* own_words = words.data() + begins[begin];
    const float* own_values = values.data() + begins[begin];
    double* const slopes = out.slopes.data();
    std::int32_t* active = out.active.data() + out.n_alone;
    std::int32_t* moving = out.moving.data() + out.n_moving;
    double squares = 0.0;
    double held_margins = 0.0;
    double slope_sum = 0.0;
    for (std::int64_t row = begin; row < end; ++row, own_words += kWords, own_values += kWords) {
        const double offset = offsets[row];
        double margin = t * offset;
        for (int i = 0; i < kWords; ++i) margin += weights[own_words[i]] * own_values[i];
        const double gap = std::max(margin, 0.0);
        const double taken_off = held * std::max(offset, 0.0);
        const double slope = twice * gap - taken_off;
        slopes[row] = slope;
        squares += gap * gap;
        held_margins += taken_off * margin;
        slope_sum += slope;
        *active = static_cast<std::int32_t>(row);
        active += margin > 0.0 ? 1 : 0;
        *moving = static_cast<std::int32_t>(row);
        moving += slope != 0.0 ? 1 : 0;
    }
    out.n_alone = active - out.active.data();
    out.n_moving = moving - out.moving.data();
    out.loss += config.cost * squares;
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

// The active rows as the Hessian sees them, and its diagonal. Rows of one word only add to the entries of that word and
// the shift: most rows are such, and are no longer looked at one by one.
void NearRows::set_active_rows(double own_shift) {
    const std::int32_t* const active = at_.active.data();
    const std::int32_t* const active_end = active + at_.n_alone;
    const std::int64_t first = std::lower_bound(active, active_end, size_begins[0]) - active;
    const std::int64_t last = std::lower_bound(active, active_end, size_begins[1]) - active;
    active_begins_.assign(1, 0);
    active_words_.clear();
    active_values_.clear();
    active_bends_.clear();
    own_diagonal_ = at_.run_diagonal;
    for (double& entry : own_diagonal_) entry += 1.0;
    own_diagonal_.back() = own_shift + at_.run_diagonal.back();
    cross_ = at_.run_cross;
    set_active_pairs(first, last);
    double together = 0.0;
    diagonal_ = own_diagonal_;
    for (std::int64_t place = 0; place < at_.n_alone; ++place) {
        if (place == first) place = last;
        if (place == at_.n_alone) break;
        const std::int32_t row = active[place];
        const double bend = 2.0 * (row < n_positives ? config.positive_cost : config.cost);
        together += bend;
        active_bends_.push_back(bend);
        for (std::int64_t i = begins[row]; i < begins[row + 1]; ++i) {
            active_words_.push_back(words[i]);
            active_values_.push_back(values[i]);
            diagonal_[words[i]] += bend * values[i] * values[i];
        }
        active_begins_.push_back(static_cast<std::int64_t>(active_words_.size()));
    }
    diagonal_.back() = has_background ? 1.0 : own_diagonal_.back() + together;
}

// The part of the Hessian that active rows with two words add, those between two places of the list: to the diagonal, to
// what is shared with the shift, and one entry for each row, by the smaller of its words.
void NearRows::set_active_pairs(std::int64_t first, std::int64_t last) {
    const double twice = 2.0 * config.cost;
    entry_begins_.assign(point.size() + 1, 0);
    for (std::int64_t place = first; place < last; ++place) {
        const std::int64_t i = begins[at_.active[place]];
        ++entry_begins_[std::min(words[i], words[i + 1]) + 2];
    }
    for (std::size_t word = 2; word < entry_begins_.size(); ++word) entry_begins_[word] += entry_begins_[word - 1];
    if (entries_.size() < static_cast<std::size_t>(last - first))
        entries_.resize(static_cast<std::size_t>(last - first));
    for (std::int64_t place = first; place < last; ++place) {
        const std::int64_t i = begins[at_.active[place]];
        const double value = values[i];
        const double other_value = values[i + 1];
        own_diagonal_[words[i]] += twice * value * value;
        own_diagonal_[words[i + 1]] += twice * other_value * other_value;
        cross_[words[i]] += twice * value;
        cross_[words[i + 1]] += twice * other_value;
        entries_[entry_begins_[std::min(words[i], words[i + 1]) + 1]++] = {std::max(words[i], words[i + 1]),
                                                                           twice * value * other_value};
    }
    own_diagonal_.back() += twice * static_cast<double>(last - first);
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
    for (std::size_t word = 0; word + 1 < n; ++word) {
        if (entry_begins_[word] == entry_begins_[word + 1]) continue;
        const double own = direction_[word];
        double sum = 0.0;
        for (std::int64_t i = entry_begins_[word]; i < entry_begins_[word + 1]; ++i) {
            sum += entries_[i].bend * direction_[entries_[i].word];
            product_[entries_[i].word] += entries_[i].bend * own;
        }
        product_[word] += sum;
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
    refresh();
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
        finish(trial_);
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
