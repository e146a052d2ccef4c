#include "linear/postings.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace longtail::linear {

namespace {

constexpr double kMaxMeanRowSize = 8.0;  // in longer rows few of those that share a word are near the margin
constexpr double kNearSlack = 0.1;       // rows above -1 - this share of what the bias lies below it are near
constexpr int kMaxStages = 30;
constexpr int kMaxSwitches = 3;  // from a shift of the far rows to the background
constexpr int kMaxBalances = 20;
constexpr double kWordShare = 0.3;      // of the tolerance, for the problem over the positives' words
constexpr double kNearShare = 0.1;      // for the near rows: the scale of the background needs it
constexpr double kLeastShare = 0.005;   // for the near rows when the scale is not found
constexpr double kFixedShare = 0.4;     // what is left when the largest entries of the others become free
constexpr std::size_t kGrowth = 4;      // so many times the near rows may join at once
constexpr std::size_t kFewRows = 4000;  // up to so many near rows all their words are free at once

using Clock = std::chrono::steady_clock;

}  // namespace

PostingsTrainer::PostingsTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                 const OvaStart& start, const OvaConfig& config, LabelSink& sink, Control& control)
    : labels_(labels),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      background_(moments.background.empty() ? solve_background(rows, moments, config, control)
                                             : Background(moments.background)),
      postings_(moments.postings.places.empty()
                    ? own_postings_.emplace(rows, background_.weights, background_.shift).view()
                    : moments.postings),
      rows_(postings_.ordered),
      is_core_(rows.n_features()),
      is_seen_(rows.n_rows()),
      is_listed_(rows.n_rows()),
      near_words_(postings_) {
    near_.stops_when_lifted = true;
    // From here on features have the numbers of the postings.
    std::vector<double> weights;
    weights.reserve(postings_.features.size());
    for (const std::int32_t feature : postings_.features) weights.push_back(background_.weights[feature]);
    background_.weights = std::move(weights);
}

bool PostingsTrainer::suits(const SparseRows& rows, const OvaConfig& config) {
    if (config.loss != Loss::squared_hinge || !config.working_sets || !config.regularize_bias || config.bias <= 0.0F ||
        rows.n_rows() == 0 ||
        static_cast<double>(rows.n_stored()) > kMaxMeanRowSize * static_cast<double>(rows.n_rows()))
        return false;
    bool is_negative = false;
    for (std::int64_t row = 0; row < rows.n_rows() && !is_negative; ++row)
        rows.for_each(row, [&](std::int32_t, float value) { is_negative = is_negative || value < 0.0F; });
    return !is_negative;
}

std::vector<std::int32_t> PostingsTrainer::train(std::span<const std::int32_t> label_ids) {
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
bool PostingsTrainer::train_label(std::int64_t label) {
    const auto begin_time = Clock::now();
    record_ = {};
    start_ = starter_.prepare(label);
    if (start_.tolerance <= 0.0) return false;
    const auto positives = labels_.positives.row_labels(label);
    find_rows(positives);
    start_words();
    if (!core_.descend(kWordShare * start_.tolerance, config_.max_iterations, config_.keep_history, record_))
        return false;
    if (!begin_near(core_.point.back() > 0.0)) return false;
    int n_switches = 0;
    for (int stage = 0; stage < kMaxStages; ++stage) {
        control_.throw_if_stopped();
        if (record_.iterations >= config_.max_iterations || (!has_columns_ && !solve_near())) return false;
        const bool is_background = near_.has_background;
        const bool is_lifted = !is_background && near_.point.back() > 0.0;  // far rows are above their margin
        const double lift = near_.point.back();
        if (is_lifted) {
            near_.point.back() = 0.0;
            core_.point.back() = 0.0;
            near_.refresh();
        }
        if (is_background && near_.point.back() == 0.0 && config_.bias * bias_entry() > kWordShare * start_.tolerance) {
            begin_near(false);  // the rows here hold the bias weight after all
            continue;
        }
        const double floor = is_background ? 0.0 : few_above();
        if (!has_columns_ && gather_above(floor)) {
            // Many new rows may push the far ones back below their margin.
            if (is_lifted && floor == 0.0 && 2 * joining_.size() < near_words_.n_rows()) {
                if (++n_switches > kMaxSwitches) return false;
                switch_to_background(lift);
            } else {
                add_joining();
            }
            continue;
        }
        const double fixed_square = near_words_.set_fixed_gradient(has_columns_ ? column_slopes_ : near_.slopes());
        const double bias_part = is_background ? config_.bias * bias_entry() : 0.0;  // else part of the gradient
        const double known = near_.gradient_square() + fixed_square + bias_part * bias_part;
        const double rest = is_background ? near_.point.back() * background_.residual_norm : 0.0;
        const double norm = std::sqrt(known) + rest;
        if (norm <= start_.tolerance) {
            record_.seconds = std::chrono::duration<double>(Clock::now() - begin_time).count();
            hand_over(label, norm);
            return true;
        }
        if (is_lifted) {
            if (++n_switches > kMaxSwitches) return false;
            switch_to_background(lift);
            continue;
        }
        if (!free_words()) return false;
    }
    return false;
}

// Begin where the mean of the positives has margin 1, and a row without any of their words -1. Words with many rows get
// small weights: large ones would lift all these rows above their margin.
void PostingsTrainer::start_words() {
    core_.point.assign(static_cast<std::size_t>(n_core_) + 1, 0.0);
    const std::int64_t end = core_.begins[core_.n_positives];
    for (std::int64_t i = 0; i < end; ++i) core_.point[core_.places[i]] += core_.values[i];
    double square = 0.0;
    for (std::int64_t place = 0; place < n_core_; ++place) {
        const WordColumn& column = core_.columns[place];
        const double sum = core_.point[place];
        core_.point[place] = sum / (1.0 + 2.0 * config_.cost * (column.squares[column.size] - column.squares[0]));
        square += sum * core_.point[place];
    }
    const double scale = square > 0.0 ? 2.0 * static_cast<double>(core_.n_positives) / square : 0.0;
    for (double& weight : core_.point) weight *= scale;
}

// Solve over the near rows; with a background also find the scale at which the bias weight rests. The rows here hardly
// see it, so that a few turns suffice.
bool PostingsTrainer::solve_near() {
    double tolerance = kNearShare * start_.tolerance;
    const int max_steps = config_.max_iterations;
    double pull = background_.pull;
    double last_t = 0.0;
    double last_entry = 0.0;
    for (int turn = 0; turn < kMaxBalances; ++turn) {
        if (!near_.descend(tolerance, max_steps, config_.keep_history, record_)) return false;
        std::copy(near_.point.begin(), near_.point.begin() + n_core_, core_.point.begin());
        core_.point.back() = near_.point.back();
        if (!near_.has_background) return true;
        const double entry = bias_entry();
        if (std::abs(entry) * config_.bias <= kWordShare * start_.tolerance) return true;
        const double t = near_.point.back();
        if (t == 0.0 && entry > 0.0) return true;
        if (turn > 0 && t != last_t)  // the secant; rows that came here no longer pull as in the background
            pull = std::clamp((entry - last_entry) / (t - last_t), 0.1 * background_.pull, 2.0 * background_.pull);
        last_t = t;
        last_entry = entry;
        near_.point.back() = std::max(0.0, t - entry / pull);
        // What is left of the gradient hides how the entry depends on the scale.
        if (turn > 0) tolerance = std::max(0.5 * tolerance, kLeastShare * start_.tolerance);
    }
    return false;
}

// Take the near rows afresh, with the far rows described by the background or by the shift they share. Weights stay; with
// a background only those of the positives' words.
bool PostingsTrainer::begin_near(bool by_background) {
    near_words_.forget_rows();
    near_.config = core_.config;
    near_.has_background = by_background;
    near_.n_positives = core_.n_positives;
    near_.n_core = n_core_;
    core_.point.back() = by_background ? 1.0 : std::min(core_.point.back(), 0.0);
    if (by_background) near_words_.forget_words(static_cast<std::size_t>(n_core_));
    if (by_background || near_.point.empty()) near_.point = core_.point;
    near_.point.back() = core_.point.back();
    near_words_.add_rows(std::span(core_.rows).first(core_.n_positives),
                         by_background ? postings_.row_gaps : std::span<const float>());
    if (by_background) return solve_columns();
    gather_above(kNearSlack * core_.point.back());
    add_joining();
    return true;
}

// Make the rows that were found near ones.
void PostingsTrainer::add_joining() {
    near_words_.add_postings(joining_, near_.has_background ? postings_.posting_gaps : std::span<const float>());
    joining_.clear();
    has_columns_ = false;
    // With a background a word is free only together with the far rows that it would move.
    if (!near_.has_background && near_words_.n_rows() <= kFewRows) near_words_.make_all_free();
    near_words_.arrange(near_);
}

// Find rows of the postings above `floor` that are not near yet.
bool PostingsTrainer::gather_above(double floor) {
    const double t = core_.point.back();
    const bool has_background = near_.has_background;
    const auto n_listed = static_cast<std::int64_t>(core_.rows.size());
    for (std::int64_t i = core_.n_positives; i < n_listed; ++i) {
        const std::int32_t row = core_.rows[i];
        if (t * offset(row) + core_.list_sum(i) > floor && !near_words_.has_row(row)) joining_.push_back(listed_[i]);
    }
    for (std::int64_t place = 0; place < n_core_; ++place) {
        const WordColumn& column = core_.columns[place];
        const std::int64_t first = postings_.indptr[near_words_.free_features()[place]];
        const std::int32_t* const row_ids = postings_.row_ids.data() + first;
        const float* const gaps = postings_.posting_gaps.data() + first;
        const double weight = core_.point[place];
        const auto join = [&](std::int64_t i) {
            if (!is_listed_.has(row_ids[i]) && !near_words_.has_row(row_ids[i])) joining_.push_back(first + i);
        };
        if (!has_background) {
            const auto [begin, end] = column.above(t, weight, floor);
            for (std::int64_t i = begin; i < end; ++i) join(i);
            continue;
        }
        for (std::int64_t i = 0; i < column.size; ++i)
            if (t * gaps[i] + weight * column.values[i] > floor) join(i);
    }
    return !joining_.empty();
}

// Without a background: 0, or where that is below many more rows than are near, a floor above which there are fewer: a
// solution over the worst of them often leaves the others where they are.
double PostingsTrainer::few_above() const {
    const double t = core_.point.back();
    const auto most = static_cast<std::int64_t>(std::max(kFewRows, kGrowth * near_words_.n_rows()));
    double high = 0.0;  // no row of one word is above
    const auto is_many = [&](double floor) {
        std::int64_t n = 0;
        for (std::int64_t place = 0; place < n_core_; ++place) {
            const auto [begin, end] = core_.columns[place].above(t, core_.point[place], floor);
            n += end - begin;
            if (end > 0) high = std::max(high, t + core_.point[place] * core_.columns[place].values[0]);
        }
        return n > most;
    };
    if (!is_many(0.0)) return 0.0;
    double low = 0.0;
    for (int halving = 0; halving < 20; ++halving) {
        const double middle = 0.5 * (low + high);
        (is_many(middle) ? low : high) = middle;
    }
    return low;
}

// Free the fixed words with the largest entries of the gradient; false when the rest is small already.
bool PostingsTrainer::free_words() {
    const double goal = kFixedShare * kFixedShare * start_.tolerance * start_.tolerance;
    const std::size_t before = near_words_.free_features().size();
    if (near_words_.free_largest(goal) == 0) return false;
    if (near_.has_background)
        for (std::size_t i = before; i < near_words_.free_features().size(); ++i)
            find_holders(near_words_.free_features()[i]);
    add_joining();
    return true;
}

// L(w) over all rows.
double PostingsTrainer::objective() const {
    if (!near_.has_background) return near_.objective();
    const double t = near_.point.back();
    double penalty = t * t * background_.square;
    const std::vector<std::int32_t>& features = near_words_.free_features();
    for (std::size_t i = 0; i < features.size(); ++i)
        penalty += near_.point[i] * (near_.point[i] + 2.0 * t * background_.weights[features[i]]);
    const double shift = t * background_.shift - 1.0;
    double far_loss = background_.loss;
    for (const float offset : near_.offsets)
        far_loss -= offset > 0.0F ? config_.cost * static_cast<double>(offset) * static_cast<double>(offset) : 0.0;
    return 0.5 * (penalty + near_.config.stiffness * shift * shift) + near_.loss() + t * t * far_loss;
}

void PostingsTrainer::hand_over(std::int64_t label, double gradient_norm) {
    const bool has_background = near_.has_background;
    const double t = near_.point.back();
    const std::vector<std::int32_t>& features = near_words_.free_features();
    std::vector<std::pair<std::int32_t, float>> weights;
    if (has_background && config_.prune_below <= t * background_.largest)
        for (std::int32_t feature = 0; feature < rows_.n_features(); ++feature) {
            const std::int32_t number = near_words_.number(feature);
            const double own = number < 0 ? 0.0 : near_.point[number];
            weights.emplace_back(postings_.features[feature],
                                 static_cast<float>(own + t * background_.weights[feature]));
        }
    else
        for (std::size_t i = 0; i < features.size(); ++i)
            weights.emplace_back(
                postings_.features[features[i]],
                static_cast<float>(near_.point[i] + (has_background ? t * background_.weights[features[i]] : 0.0)));
    std::sort(weights.begin(), weights.end());
    record_.last_objective = objective();
    if (!record_.history.empty()) record_.history.back().objective = record_.last_objective;
    record_.gradient_ratio = gradient_norm / start_.zero_gradient;
    const double shift = has_background ? t * background_.shift : t;
    sink_.put(label, weights, static_cast<float>(shift - 1.0), std::move(record_));
}

void PostingsTrainer::forget_label() {
    for (const std::int32_t feature : std::span(near_words_.free_features()).first(n_core_))
        is_core_.remove_around(feature);
    for (const std::int32_t row : core_.rows) is_listed_.remove_around(row);
    near_words_.forget_all();
    core_.clear();
    core_.n_positives = 0;
    near_.point.clear();
    joining_.clear();
    has_columns_ = false;
    n_core_ = 0;
}

}  // namespace longtail::linear
