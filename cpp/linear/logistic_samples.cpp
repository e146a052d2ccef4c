#include "linear/logistic_samples.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "linear/losses.hpp"
#include "linear/sums.hpp"

namespace longtail::linear {

namespace {

// Tuned on EURLex-4K and wnwords (benchmarks/bench_dismec_cliffs.py): half or twice as much takes about as long.
constexpr double kMostDrawn = 400.0;   // a sample has at most about so many rows besides the positives,
constexpr double kDrawnEntries = 3.6;  // and no more than give its Gram matrix so many entries for each row of X,
constexpr double kLeastDrawn = 200.0;  // or this,
constexpr int kSmallSteps = 4;         // in so many steps: labels that need more get more rows
// More positives make samples as costly as passes over all rows: Newton steps in lanes are then faster. A Gram matrix of
// the sample takes time in proportion to the square of its rows, times the words of a row; a pass, to all rows' words.
constexpr std::int64_t kFewPositives = 16;  // always few enough
constexpr double kGramEntries = 35.0;       // for each row of X: a larger matrix is too large
constexpr std::int64_t kMostKept = 1000;    // rows of a sample whose Gram matrix is kept for the next step
constexpr double kInnerShare = 0.02;        // of the gradient that a step leaves in its model,
constexpr double kLeastShare = 0.1;         // or this of the tolerance
constexpr double kNearShare = 0.3;          // of the tolerance: this is always near enough to the minimum
constexpr double kMostGap = 1e-3;           // or such a share of ½‖w‖² above it, at most
constexpr double kMostSlope = 0.9;
constexpr int kMaxHalvings = 10;
constexpr int kMaxRounds = 30;
constexpr int kBackgroundRounds = 8;
constexpr std::size_t kCachedBytes = 1 << 20;  // a greater table is not in the second-level cache

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double chance_at(double margin) { return 1.0 / (1.0 + std::exp(-margin)); }
double loss_at(double z) { return std::max(-z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

}  // namespace

LogisticSampleTrainer::LogisticSampleTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                             const OvaStart& start, const OvaConfig& config, LabelSink& sink,
                                             Control& control)
    : rows_(rows),
      labels_(labels),
      moments_(moments),
      start_(start),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      width_(rows.n_features() + 1),
      most_drawn_(std::clamp(std::sqrt(kDrawnEntries * static_cast<double>(rows.n_rows())), kLeastDrawn, kMostDrawn)),
      lanes_(kLanes) {
    table_.assign(static_cast<std::size_t>(2 * rows.n_features()), Lanes{});
    if (moments.blocks) blocks_.emplace(rows, *moments.blocks);
    is_cached_ = blocks_ || table_.size() * sizeof(Lanes) <= kCachedBytes;
    gradients_ = table_.data() + (is_cached_ ? rows.n_features() : 1);
    scatter_.assign(static_cast<std::size_t>(rows.n_features() * GramMatrix::kBlocks), Lanes{});
    for (Lane& lane : lanes_)
        for (auto* vector : {&lane.weights, &lane.earlier, &lane.gradient})
            vector->assign(static_cast<std::size_t>(width_), 0.0F);
    squares_.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        float square = config.bias * config.bias;
        rows.for_each(row, [&](std::int32_t, float value) { square += value * value; });
        squares_.push_back(square);
        // Multiples of the golden ratio: every stretch of rows has thresholds of all sizes.
        const double multiple = 0.6180339887498949 * static_cast<double>(row + 1);
        thresholds_.push_back(static_cast<float>(multiple - std::floor(multiple)));
    }
}

bool LogisticSampleTrainer::knows(const OvaConfig& config) {
    return config.loss == Loss::logistic && config.working_sets && config.regularize_bias;
}

bool LogisticSampleTrainer::suits(const OvaStart& start, const OvaConfig& config) {
    return knows(config) && (start.kind == StartKind::mean_separating || start.kind == StartKind::own);
}

std::vector<std::int32_t> LogisticSampleTrainer::train(std::span<const std::int32_t> label_ids) {
    std::vector<std::int32_t> refused;
    if (label_ids.empty()) return refused;
    solve_background();
    const double sample_rows = std::sqrt(kGramEntries * static_cast<double>(rows_.n_rows()));
    const std::int64_t most_positives = std::max(kFewPositives, static_cast<std::int64_t>(sample_rows - kMostDrawn));
    std::size_t next = 0;
    for (;;) {
        int n_busy = 0;
        for (int at = 0; at < kLanes; ++at) {
            while (!lanes_[at].is_busy && next < label_ids.size()) {
                const std::int32_t label = label_ids[next++];
                const std::int64_t n_positives = std::ssize(labels_.positives.row_labels(label));
                if (n_positives > most_positives)
                    refused.push_back(label);
                else
                    begin(at, label);
            }
            n_busy += lanes_[at].is_busy ? 1 : 0;
        }
        if (n_busy == 0) return refused;
        const auto pass_begin = Clock::now();
        pass();
        const double pass_share = seconds_since(pass_begin) / n_busy;
        for (int at = 0; at < kLanes; ++at) {
            Lane& lane = lanes_[at];
            if (!lane.is_busy) continue;
            const auto lane_begin = Clock::now();
            const Outcome outcome = judge(lane, at);
            if (outcome == Outcome::goes_on) step(lane);
            control_.throw_if_stopped();
            lane.record.seconds += pass_share + seconds_since(lane_begin);
            if (outcome == Outcome::goes_on || outcome == Outcome::halved) continue;
            if (outcome == Outcome::refused) {
                refused.push_back(static_cast<std::int32_t>(lane.label));
            } else {
                sink_.put(lane.label, lane.weights.data(), rows_.n_features(), std::move(lane.record));
                control_.add_done(1);
            }
            lane.is_busy = false;
            negative_costs_[at] = 0.0F;
            positive_costs_[at] = 0.0F;
        }
    }
}

// Any weights will do: what labels take from here is exact wherever it is.
void LogisticSampleTrainer::solve_background() {
    double total_weight = 0.0;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row) total_weight += labels_.row_weight(row);
    double weight = 0.0;  // of the bias alone
    for (int round = 0; round < 50; ++round) {
        const double chance = chance_at(config_.bias * weight);
        const double slope = weight + config_.cost * total_weight * config_.bias * chance;
        const double curvature =
            1.0 + config_.cost * total_weight * config_.bias * config_.bias * chance * (1.0 - chance);
        weight -= slope / curvature;
    }
    begin_lane(0, -1, config_.cost);
    Lane& lane = lanes_[0];
    lane.positives = {};
    std::fill(lane.weights.begin(), lane.weights.end(), 0.0F);
    lane.weights.back() = static_cast<float>(weight);
    double mean_square = 0.0;
    for (const float value : moments_.mean) mean_square += static_cast<double>(value) * value;
    lane.start = {};
    lane.start.zero_gradient = 0.5 * config_.cost * total_weight * std::sqrt(mean_square);
    lane.start.tolerance = config_.tolerance / total_weight * lane.start.zero_gradient;  // of a label with one row
    for (int round = 0;; ++round) {
        pass();
        const Outcome outcome = judge(lane, 0);
        if (outcome == Outcome::halved) continue;
        if (outcome != Outcome::goes_on || round >= kBackgroundRounds) break;
        step(lane);
    }
    background_.weights = lane.weights;
    background_.gradient = lane.gradient;
    background_.slope_sum = lane.slope_sum;
    background_.objective = lane.record.last_objective;
    background_.drawn = lane.drawn;
    for (const Drawn& drawn : background_.drawn) background_.row_ids.push_back(drawn.row_id);
    background_.gram.extend(rows_, background_.row_ids, config_.bias, scatter_.data());
    lane.is_busy = false;
    negative_costs_[0] = 0.0F;
    positive_costs_[0] = 0.0F;
}

void LogisticSampleTrainer::begin_lane(int at, std::int64_t label, double positive_cost) {
    Lane& lane = lanes_[at];
    lane.is_busy = true;
    lane.label = label;
    lane.has_step = false;
    lane.is_at_background = false;
    lane.meets_rule = false;
    lane.n_halvings = 0;
    lane.record = {};
    lane.gram.clear();
    lane.gram_rows.clear();
    negative_costs_[at] = static_cast<float>(config_.cost);
    positive_costs_[at] = static_cast<float>(positive_cost);
}

// Put a label into an empty lane; false when there is nothing to train.
bool LogisticSampleTrainer::begin(int at, std::int64_t label) {
    Lane& lane = lanes_[at];
    lane.positives = labels_.positives.row_labels(label);
    const bool is_asked = config_.train_empty || !lane.positives.empty();
    if (is_asked) lane.start = starter_.prepare(label);
    if (!is_asked || lane.start.tolerance <= 0.0) {  // no positives, or w = 0 meets the rule
        std::fill(lane.weights.begin(), lane.weights.end(), 0.0F);
        sink_.put(label, lane.weights.data(), rows_.n_features(), {});
        control_.add_done(1);
        return false;
    }
    begin_lane(at, label, lane.start.positive_cost);
    const auto begin_time = Clock::now();
    if (start_.kind == StartKind::own && (start_.own_weights.row_size(label) > 0 || start_.own_biases[label] != 0.0F)) {
        std::fill(lane.weights.begin(), lane.weights.end(), 0.0F);
        starter_.set_weights(label, lane.start, lane.weights.data());
    } else {
        begin_at_background(lane);
    }
    lane.record.seconds += seconds_since(begin_time);
    return true;
}

// The first step: from the background, whose gradient differs only in the label's positives.
void LogisticSampleTrainer::begin_at_background(Lane& lane) {
    lane.is_at_background = true;
    lane.weights = background_.weights;
    lane.gradient = background_.gradient;
    lane.slope_sum = background_.slope_sum;
    lane.record.first_objective = background_.objective;
    lane.drawn = background_.drawn;
    for (const std::int32_t row : lane.positives) {
        const double margin = rows_.dot(row, lane.weights.data()) + config_.bias * lane.weights.back();
        const double cost = cost_of(lane, row, true);
        const double negative_cost = cost_of(lane, row, false);
        const double move = cost * (chance_at(margin) - 1.0) - negative_cost * chance_at(margin);
        rows_.add_to(row, static_cast<float>(move), lane.gradient.data());
        lane.gradient.back() += static_cast<float>(move) * config_.bias;
        lane.slope_sum += move;
        lane.record.first_objective += cost * loss_at(margin) - negative_cost * loss_at(-margin);
    }
    lane.gradient_norm = gradient_norm(lane);
    if (config_.keep_history)
        lane.record.history.push_back({lane.record.first_objective, static_cast<std::int32_t>(rows_.n_rows()), 0.0F});
    std::erase_if(lane.drawn, [&](const Drawn& drawn) {
        return std::binary_search(lane.positives.begin(), lane.positives.end(), drawn.row_id);
    });
    step(lane);
}

double LogisticSampleTrainer::cost_of(const Lane& lane, std::int32_t row, bool is_positive) const {
    return (is_positive ? lane.start.positive_cost : config_.cost) * labels_.row_weight(row);
}

// The drawn rows and the positives, and their Gram matrix: rows of the last sample come first, where it has them.
void LogisticSampleTrainer::set_sample(Lane& lane) {
    // A label's first sample has most of its rows from the background.
    const bool is_first = lane.is_at_background;
    const std::vector<std::int32_t>& known_rows = is_first ? background_.row_ids : lane.gram_rows;
    const std::size_t n_drawn = lane.drawn.size();
    const auto find = [&](std::int32_t row) -> std::int64_t {  // its place among drawn rows and positives, or -1
        const auto positive = std::lower_bound(lane.positives.begin(), lane.positives.end(), row);
        if (positive != lane.positives.end() && *positive == row)
            return static_cast<std::int64_t>(n_drawn) + (positive - lane.positives.begin());
        const auto drawn = std::lower_bound(lane.drawn.begin(), lane.drawn.end(), row,
                                            [](const Drawn& a, std::int32_t id) { return a.row_id < id; });
        return drawn != lane.drawn.end() && drawn->row_id == row ? drawn - lane.drawn.begin() : -1;
    };
    sample_.clear();
    earlier_margins_.clear();
    const auto append = [&](std::size_t place) {
        const bool is_positive = place >= n_drawn;
        Drawn row = {};
        if (is_positive) {
            row.row_id = lane.positives[place - n_drawn];
            row.margin = rows_.dot(row.row_id, lane.weights.data()) + config_.bias * lane.weights.back();
            row.size = 1.0F;
        } else {
            row = lane.drawn[place];
        }
        const double cost = cost_of(lane, row.row_id, is_positive) / row.chance();
        const float target = is_positive ? 1.0F : 0.0F;
        sample_.append(row.row_id, static_cast<float>(cost), target,
                       static_cast<float>(cost * (target - chance_at(row.margin))), row.size < 1.0F);
        earlier_margins_.push_back(row.margin);
    };
    places_.clear();
    is_placed_.assign(n_drawn + lane.positives.size(), 0);
    for (std::size_t at = 0; at < known_rows.size(); ++at) {
        const std::int64_t place = find(known_rows[at]);
        if (place < 0) continue;
        places_.push_back(static_cast<std::int32_t>(at));
        is_placed_[place] = 1;
        append(static_cast<std::size_t>(place));
    }
    for (std::size_t place = 0; place < is_placed_.size(); ++place)
        if (is_placed_[place] == 0) append(place);
    std::swap(sample_.gram, lane.gram);
    if (is_first)
        sample_.gram.copy(background_.gram, places_, sample_.size());
    else
        sample_.gram.keep(places_);
    sample_.gram.extend(rows_, sample_.row_ids, config_.bias, scatter_.data());
}

// Minimise the model at the lane's weights, whose gradient and drawn rows are known.
void LogisticSampleTrainer::step(Lane& lane) {
    set_sample(lane);
    solve_sample(lane);
    if (sample_.size() > kMostKept) {
        lane.gram = {};
        lane.gram_rows.clear();
    }
    ++lane.record.iterations;
    lane.is_at_background = false;
    lane.slope = slope_along_step(lane, lane.earlier.data());
    lane.has_step = true;
    lane.n_halvings = 0;
}

void LogisticSampleTrainer::solve_sample(Lane& lane) {
    lane.earlier = lane.weights;
    // The betas begin at -aφ', so x_i · v + (Kβ)_i begins at -x_i · G.
    walk_rows(rows_, sample_.row_ids.data(), sample_.size(), [&](std::int64_t i) {
        sample_.margins[i] =
            -(rows_.dot(sample_.row_ids[i], lane.gradient.data()) + config_.bias * lane.gradient.back());
    });
    const float* const gradient = lane.gradient.data();
    const float* const earlier = lane.earlier.data();
    const double gradient_square = sum_of_squares(gradient, width_);
    const double gradient_product =
        sum_of(width_, [&](std::int64_t f) { return static_cast<double>(gradient[f]) * earlier[f]; });
    sample_.match_mean(lane.slope_sum, gradient_square, gradient_product, earlier_margins_);
    first_betas_ = sample_.betas;
    const double tolerance = std::max(kLeastShare * lane.start.tolerance, kInnerShare * lane.gradient_norm);
    lane.record.cg_steps += solver_.solve(sample_, tolerance);
    float* const weights = lane.weights.data();
    double along_shift = 0.0;  // how much of δ there is in the step
    for (std::int64_t i = 0; i < sample_.size(); ++i)
        along_shift += sample_.drawn[i] * (static_cast<double>(sample_.betas[i]) - first_betas_[i]);
    const auto gradient_scale = static_cast<float>(along_shift * sample_.gradient_share - 1.0);
    for (std::int64_t f = 0; f < width_; ++f) weights[f] = gradient_scale * lane.gradient[f];
    walk_rows(rows_, sample_.row_ids.data(), sample_.size(), [&](std::int64_t i) {
        const float scale =
            sample_.betas[i] - first_betas_[i] + static_cast<float>(along_shift) * sample_.shift_shares[i];
        rows_.add_to(sample_.row_ids[i], scale, weights);
        weights[width_ - 1] += scale * config_.bias;
    });
    std::swap(sample_.gram, lane.gram);
    lane.gram_rows = sample_.row_ids;
}

// (w + G) · (w' - w''): the gradient at `at` along the lane's last step.
double LogisticSampleTrainer::slope_along_step(const Lane& lane, const float* at) const {
    const float* const gradient = lane.gradient.data();
    const float* const weights = lane.weights.data();
    const float* const earlier = lane.earlier.data();
    return sum_of(width_, [&](std::int64_t f) {
        return (static_cast<double>(at[f]) + gradient[f]) * (static_cast<double>(weights[f]) - earlier[f]);
    });
}

double LogisticSampleTrainer::gradient_norm(const Lane& lane) const {
    const float* const gradient = lane.gradient.data();
    const float* const weights = lane.weights.data();
    return std::sqrt(sum_of(width_, [&](std::int64_t f) {
        const double slope = static_cast<double>(weights[f]) + gradient[f];
        return slope * slope;
    }));
}

// Of a lane that meets the stopping rule. What steps with samples leave of the gradient lies where the curvature is low, and
// L - L* ≤ ½‖∇L‖² is then not far from equality: labels with many positives take one more step.
bool LogisticSampleTrainer::is_near_minimum(const Lane& lane) const {
    return lane.gradient_norm <= kNearShare * lane.start.tolerance ||
           lane.gradient_norm * lane.gradient_norm <= kMostGap * sum_of_squares(lane.weights.data(), width_);
}

// What a pass says about the weights of a lane.
auto LogisticSampleTrainer::judge(Lane& lane, int at) -> Outcome {
    const double norm = gradient_norm(lane);
    const bool is_converged = norm <= lane.start.tolerance;
    // L is convex along the step: where its slope at the end is not steeper upwards than it was downwards at the
    // beginning, L has fallen (exactly so if quadratic).
    if (lane.has_step && !is_converged && !(slope_along_step(lane, lane.weights.data()) <= -kMostSlope * lane.slope)) {
        if (++lane.n_halvings > kMaxHalvings || lane.slope >= 0.0) return Outcome::refused;
        for (std::int64_t f = 0; f < width_; ++f) lane.weights[f] = 0.5F * (lane.weights[f] + lane.earlier[f]);
        lane.slope *= 0.5;
        return Outcome::halved;
    }
    if (config_.keep_history) {
        const double objective = 0.5 * sum_of_squares(lane.weights.data(), width_) + losses_.total[at];
        lane.record.last_objective = objective;
        if (lane.record.history.empty()) lane.record.first_objective = objective;
        lane.record.history.push_back({objective, static_cast<std::int32_t>(rows_.n_rows()),
                                       lane.has_step ? std::ldexp(1.0F, -lane.n_halvings) : 0.0F});
    }
    lane.gradient_norm = norm;
    lane.record.gradient_ratio = lane.gradient_norm / lane.start.zero_gradient;
    if (is_converged && (lane.meets_rule || is_near_minimum(lane))) return Outcome::finished;
    lane.meets_rule = is_converged;
    if (lane.record.iterations >= config_.max_iterations) {
        lane.record.converged = is_converged;
        return Outcome::finished;
    }
    if (lane.record.iterations >= kMaxRounds) return Outcome::refused;
    thin(lane.drawn, lane.record.iterations < kSmallSteps ? most_drawn_ : kMostDrawn);
    return Outcome::goes_on;
}

}  // namespace longtail::linear
