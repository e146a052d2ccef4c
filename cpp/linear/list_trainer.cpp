#include "linear/list_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "linear/end_rule.hpp"

namespace longtail::linear {

namespace {

// Tuned on wnwords.
constexpr double kFirstFloor = 0.25;   // a first set has rows that the start lifts by this (less at low costs),
constexpr double kFirstRows = 192.0;   // at most so many, or
constexpr double kFirstShare = 16.0;   // so many for each positive, and more at low costs
constexpr double kRoundShare = 0.1;    // a round need not reduce its gradient further than this
constexpr double kInnerShare = 0.2;    // nor below this share of the tolerance,
constexpr double kSmallerShare = 0.3;  // unless that is not enough
constexpr int kMaxStalls = 5;
// What is left of the gradient at the best bias lies in the other weights, where it counts for more in the objective, the
// higher the cost. So a label ends at this share of its tolerance (end_rule.hpp), or at more below cost 1/kEndShare.
constexpr double kEndShare = 0.4;
// At lower costs too many rows are active; at higher ones the dual takes too many visits.
constexpr double kMinCost = 0.05;
constexpr double kMaxCost = 16.0;
// Rows suit that have at least this share of their square in words which are at no level frequent, if the lists of these
// words of one row have at most one in so many of all entries: a pass for 64 labels costs each of them about as much.
constexpr double kRareShare = 0.75;
constexpr double kListShare = 128.0;
// What is found in lists grows with the square of the words of a row: each word brings rows, whose words are all multiplied.
// A pass grows with the rows and their words. On ten sets of 10 to 90 words per row (wnwords, glosses of it put together,
// texts with pairs of words, synthetic rows), lists are quicker where the square is at most one in so many of the rows.
constexpr double kWordSquares = 40.0;
constexpr std::int64_t kSampleStride = 8;  // the square is taken of one row in so many

using Clock = std::chrono::steady_clock;

}  // namespace

ListTrainer::ListTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                         const OvaStart& start, const OvaConfig& config, LabelSink& sink, Control& control)
    : rows_(rows),
      labels_(labels),
      config_(config),
      sink_(sink),
      control_(control),
      moments_(moments),
      starter_(rows, labels, moments, start, config),
      lists_(moments.has_word_lists() ? moments.postings : parts_.emplace(rows).view()),
      finder_(lists_),
      dual_(rows.n_features(), config),
      local_(rows.n_features()),
      is_member_(rows.n_rows()),
      in_order_(rows.n_features()),
      weights_(static_cast<std::size_t>(rows.n_features()) + 1, 0.0F),
      by_feature_(static_cast<std::size_t>(rows.n_features()), 0.0F) {}

bool ListTrainer::suits(const SparseRows& rows, const OvaConfig& config) {
    if (config.loss != Loss::squared_hinge || !config.working_sets || !config.regularize_bias || config.bias <= 0.0F ||
        config.cost < kMinCost || config.cost > kMaxCost)
        return false;
    const auto n_rows = static_cast<double>(rows.n_rows());
    const auto n_entries = static_cast<double>(rows.n_stored());
    if (kWordSquares * n_entries * n_entries > n_rows * n_rows * n_rows) return false;
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(rows.n_features()), 0);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++sizes[feature]; });
    const std::int64_t limit = WordLists::frequent_size(rows.n_rows());
    double n_read = 0.0;  // in the lists of all rows' rare words
    for (const std::int64_t size : sizes)
        n_read += size <= limit ? static_cast<double>(size) * static_cast<double>(size) : 0.0;
    if (kListShare * n_read > n_rows * n_entries) return false;
    double square = 0.0;
    double rare_square = 0.0;
    for (std::int64_t row = 0; row < rows.n_rows(); row += kSampleStride)
        rows.for_each(row, [&](std::int32_t feature, float value) {
            const double own = static_cast<double>(value) * value;
            square += own;
            rare_square += sizes[feature] <= limit ? own : 0.0;
        });
    if (square <= 0.0 || rare_square < kRareShare * square) return false;
    bool is_negative = false;
    for (std::int64_t row = 0; row < rows.n_rows() && !is_negative; ++row)
        rows.for_each(row, [&](std::int32_t, float value) { is_negative = is_negative || value < 0.0F; });
    return !is_negative;
}

std::vector<std::int32_t> ListTrainer::train(std::span<const std::int32_t> label_ids) {
    std::vector<std::int32_t> refused;
    for (const std::int32_t label : label_ids) {
        control_.throw_if_stopped();
        if (!labels_.positives.row_labels(label).empty() && train_label(label))
            control_.add_done(1);
        else
            refused.push_back(label);
        forget_label();
    }
    return refused;
}

// False when the label must be trained another way.
bool ListTrainer::train_label(std::int64_t label) {
    const auto begin_time = Clock::now();
    start_ = starter_.prepare(label);
    if (start_.tolerance <= 0.0 || start_.positive_cost > kMaxCost || !begin_set(labels_.positives.row_labels(label)))
        return false;
    if (config_.keep_history) {
        gradient_norm();
        record_round(0.0F);
    }
    double inner_share = kInnerShare;
    const double end_share = std::clamp(1.0 / config_.cost, kEndShare, 1.0);
    double tolerance = start_.tolerance * exactness_for(labels_.positives.row_labels(label).size());
    for (int n_stalls = 0; record_.iterations < config_.max_iterations && n_stalls < kMaxStalls;) {
        const InnerResult inner = dual_.solve(problem_, local_, weights_.data(), inner_share * tolerance, kRoundShare);
        ++record_.iterations;
        record_.cg_steps += inner.cg_steps;
        const std::int64_t n_before = problem_.size();
        const float shift = dual_.bias_shift();
        move_bias(shift);
        if (!find_rows()) return false;
        const bool may_end = knows_all_ && n_outside_ == 0;
        const double norm = may_end || config_.keep_history ? gradient_norm() : 0.0;
        if (config_.keep_history) record_round(1.0F);
        if (may_end) tolerance = std::min(tolerance, most_end_norm(record_.last_objective) / end_share);
        if (may_end && norm <= end_share * tolerance) {
            record_.seconds = std::chrono::duration<double>(Clock::now() - begin_time).count();
            hand_over(label, norm);
            return true;
        }
        move_bias(-shift);
        if (problem_.size() > n_before || inner.gradient_norm > tolerance) continue;
        inner_share *= kSmallerShare;
        ++n_stalls;
    }
    return false;
}

// Add to all margins. The solver needs weights that are the sum of the betas' rows, but leaves small errors that add up
// in the bias: rows are sought, and the stopping rule is judged, at the best bias.
void ListTrainer::move_bias(float shift) {
    bias_weight() += shift / config_.bias;
    for (float& margin : problem_.margins) margin += shift;
}

void ListTrainer::append(std::int32_t row, float sign, double cost, float margin) {
    problem_.append(row, sign, static_cast<float>(cost), margin);
    local_.append(lists_.row(row), config_.bias);
    is_member_.add(row);
}

// The positives, and the rows that the mean of the positives lifts most by rare words. It begins where that mean has
// margin 1, and a row without any of its words -1.
bool ListTrainer::begin_set(std::span<const std::int32_t> positives) {
    for (const std::int32_t row : positives) append(lists_.place(row), 1.0F, start_.positive_cost, 0.0F);
    n_core_ = static_cast<std::int64_t>(local_.features().size());
    const auto n_positives = static_cast<std::int64_t>(positives.size());
    for (std::int64_t i = 0; i < n_positives; ++i) local_.add_to(i, 1.0F, weights_.data());
    double square = 0.0;
    for (std::int64_t i = 0; i < n_core_; ++i) square += static_cast<double>(weights_[i]) * weights_[i];
    if (square <= 0.0) return false;
    const auto scale = static_cast<float>(2.0 * static_cast<double>(n_positives) / square);
    for (std::int64_t i = 0; i < n_core_; ++i) weights_[i] *= scale;
    for (std::int64_t i = 0; i < n_positives; ++i) problem_.margins[i] = local_.dot(i, weights_.data()) - 1.0F;
    list_words();
    spent_ += finder_.plan_rare(words_, kFirstFloor * std::min(1.0, config_.cost));
    checked_.clear();
    for (const FoundRow& found : finder_.find(by_feature_.data()))
        if (!is_member_.has(found.row_id)) checked_.push_back(found);
    const double n_first = std::max(kFirstRows, kFirstShare * static_cast<double>(positives.size()));
    const auto most = static_cast<std::size_t>(n_first / std::sqrt(std::min(1.0, config_.cost)));
    if (checked_.size() > most) {
        std::nth_element(checked_.begin(), checked_.begin() + static_cast<std::ptrdiff_t>(most), checked_.end(),
                         is_above);
        checked_.resize(most);
    }
    for (const FoundRow& found : checked_) append(found.row_id, -1.0F, config_.cost, found.value - 1.0F);
    begin_betas();
    return true;
}

// Betas that belong to the margins, at the length where the dual is largest along them, and their weights.
void ListTrainer::begin_betas() {
    std::fill(weights_.begin(), weights_.begin() + n_core_, 0.0F);
    double total = 0.0;
    double square = 0.0;
    for (std::int64_t i = 0; i < problem_.size(); ++i) {
        const float gap = std::max(0.0F, 1.0F - problem_.signs[i] * problem_.margins[i]);
        const float alpha = 2.0F * problem_.costs[i] * gap;
        problem_.betas[i] = problem_.signs[i] * alpha;
        total += alpha;
        square += static_cast<double>(alpha) * gap;
        local_.add_to(i, problem_.betas[i], weights_.data());
        bias_weight() += problem_.betas[i] * config_.bias;
    }
    const std::span<float> word_weights = std::span(weights_).first(local_.features().size());
    for (const float weight : word_weights) square += static_cast<double>(weight) * weight;
    square += static_cast<double>(bias_weight()) * bias_weight();
    const float scale = square > 0.0 ? static_cast<float>(total / square) : 0.0F;
    for (float& beta : problem_.betas) beta *= scale;
    for (float& weight : word_weights) weight *= scale;
    bias_weight() *= scale;
    for (std::int64_t i = 0; i < problem_.size(); ++i)
        problem_.margins[i] = local_.dot(i, weights_.data()) + config_.bias * bias_weight();
}

// Over the rows of the set, in float64. Their margins are those that the solver ended with, fresh products for all.
double ListTrainer::gradient_norm() {
    const std::size_t n_words = local_.features().size();
    gradient_.assign(weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(n_words));
    double bias_entry = bias_weight();
    double penalty = bias_entry * bias_entry;
    for (const double weight : gradient_) penalty += weight * weight;
    double loss = 0.0;
    for (std::int64_t i = 0; i < problem_.size(); ++i) {
        const double gap = 1.0 - static_cast<double>(problem_.signs[i]) * problem_.margins[i];
        if (gap <= 0.0) continue;
        const double slope = -2.0 * problem_.costs[i] * problem_.signs[i] * gap;
        loss += problem_.costs[i] * gap * gap;
        local_.add_to(i, slope, gradient_.data());
        bias_entry += slope * config_.bias;
    }
    record_.last_objective = 0.5 * penalty + loss + outside_loss_;
    double square = bias_entry * bias_entry;
    for (const double entry : gradient_) square += entry * entry;
    return std::sqrt(square);
}

// The objective of rounds that do not know all rows above their margin is too low by the loss of the others.
void ListTrainer::record_round(float step_size) {
    std::int32_t n_active = n_outside_;
    for (std::int64_t i = 0; i < problem_.size(); ++i)
        n_active += problem_.signs[i] * problem_.margins[i] < 1.0F ? 1 : 0;
    if (record_.history.empty()) record_.first_objective = record_.last_objective;
    record_.history.push_back({record_.last_objective, n_active, step_size});
}

void ListTrainer::hand_over(std::int64_t label, double norm) {
    std::vector<std::pair<std::int32_t, float>> weights;
    weights.reserve(local_.features().size());
    // A bit set yields them in order; sorting thousands of words takes several times as long.
    for (const std::int32_t feature : local_.features()) in_order_.add(feature);
    in_order_.take_all([&](std::int64_t feature) {
        const float weight = weights_[local_.number(feature)];
        if (std::abs(weight) >= config_.prune_below) weights.emplace_back(static_cast<std::int32_t>(feature), weight);
    });
    record_.gradient_ratio = norm / start_.zero_gradient;
    sink_.put(label, weights, config_.bias * bias_weight(), std::move(record_));
}

void ListTrainer::forget_label() {
    for (const std::int32_t row : problem_.row_ids) is_member_.remove_around(row);
    std::fill(weights_.begin(), weights_.begin() + std::ssize(local_.features()), 0.0F);
    bias_weight() = 0.0F;
    problem_.clear();
    local_.clear();
    record_ = {};
    seeks_all_ = false;
    has_far_rows_ = false;
    knows_all_ = false;
    n_outside_ = 0;
    outside_loss_ = 0.0;
    near_reach_ = 0.0F;
    spent_ = 0;
}

}  // namespace longtail::linear
