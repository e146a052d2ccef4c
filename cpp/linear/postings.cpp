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
constexpr double kFixedShare = 0.4;     // what is left when the largest entries of the others become free
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
      postings_(moments.postings.places.empty() ? own_postings_.emplace(rows).view() : moments.postings),
      rows_(postings_.ordered),
      background_(moments.background.empty() ? solve_background(rows, moments, config, control)
                                             : Background(moments.background)),
      holder_indptr_(static_cast<std::size_t>(rows.n_features()) + 1, 0),
      numbers_(static_cast<std::size_t>(rows.n_features()), -1),
      is_found_(rows.n_rows()),
      is_listed_(rows.n_rows()),
      is_near_(rows.n_rows()),
      fixed_gradient_(static_cast<std::size_t>(rows.n_features()), 0.0),
      is_fixed_(rows.n_features()) {
    std::vector<std::int32_t> holders;
    row_gaps_.reserve(static_cast<std::size_t>(rows.n_rows()));
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        row_gaps_.push_back(static_cast<float>(background_.gap(rows_, row)));
        if (row_gaps_.back() <= 0.0F) continue;
        holders.push_back(static_cast<std::int32_t>(row));
        rows_.for_each(row, [&](std::int32_t feature, float) { ++holder_indptr_[feature + 1]; });
    }
    for (std::int64_t i = 0; i < rows.n_features(); ++i) holder_indptr_[i + 1] += holder_indptr_[i];
    holder_ids_.resize(static_cast<std::size_t>(holder_indptr_.back()));
    std::vector<std::int64_t> cursor(holder_indptr_.begin(), holder_indptr_.end() - 1);
    for (const std::int32_t row : holders)
        rows_.for_each(row, [&](std::int32_t feature, float) { holder_ids_[cursor[feature]++] = row; });
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
    begin_near(core_.point.back() > 0.0);
    int n_switches = 0;
    for (int stage = 0; stage < kMaxStages; ++stage) {
        control_.throw_if_stopped();
        if (record_.iterations >= config_.max_iterations || !solve_near()) return false;
        const bool has_background = near_.has_background;
        const bool is_lifted = !has_background && near_.point.back() > 0.0;  // far rows are above their margin
        if (is_lifted) {
            near_.point.back() = 0.0;
            core_.point.back() = 0.0;
            near_.refresh();
        }
        if (!is_lifted && gather_above(0.0, false)) continue;
        set_fixed_gradient();
        const double bias_part = has_background ? config_.bias * bias_entry() : 0.0;  // else part of the gradient
        const double known = near_.gradient_square() + fixed_square_ + bias_part * bias_part;
        const double rest = has_background ? near_.point.back() * background_.residual_norm : 0.0;
        const double norm = std::sqrt(known) + rest;
        if (norm <= start_.tolerance && !(is_lifted && gather_above(0.0, false))) {
            record_.seconds = std::chrono::duration<double>(Clock::now() - begin_time).count();
            hand_over(label, norm);
            return true;
        }
        if (is_lifted) {
            if (++n_switches > kMaxSwitches) return false;
            begin_near(true);
            continue;
        }
        if (free_words()) continue;
        if (!has_background || near_.point.back() > 0.0 || bias_part <= kWordShare * start_.tolerance) return false;
        begin_near(false);  // the rows here hold the bias weight after all
    }
    return false;
}

// The positives, and the rows with several of their words, as they look through those words; the others are in the
// columns of the words.
void PostingsTrainer::find_rows(std::span<const std::int32_t> positives) {
    core_.clear();
    core_.n_positives = static_cast<std::int64_t>(positives.size());
    for (const std::int32_t row : positives) core_.rows.push_back(postings_.places[row]);
    for (const std::int32_t row : core_.rows) {
        is_found_.add(row);
        is_listed_.add(row);
        rows_.for_each(row, [&](std::int32_t feature, float) {
            if (numbers_[feature] >= 0) return;
            numbers_[feature] = static_cast<std::int32_t>(words_.size());
            words_.push_back(feature);
        });
    }
    n_core_ = static_cast<std::int64_t>(words_.size());
    std::int64_t n_found = core_.n_positives;
    for (const std::int32_t feature : words_) {
        const std::int64_t begin = postings_.indptr[feature];
        const std::int64_t end = postings_.indptr[feature + 1];
        core_.columns.push_back({postings_.values.data() + begin, postings_.sums.data() + begin,
                                 postings_.squares.data() + begin, end - begin});
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int32_t row = postings_.row_ids[i];
            if (is_found_.add(row))
                ++n_found;
            else if (is_listed_.add(row))
                core_.rows.push_back(row);
        }
    }
    for (const std::int32_t row : core_.rows) {
        rows_.for_each(row, [&](std::int32_t feature, float value) {
            if (numbers_[feature] < 0) return;
            core_.places.push_back(numbers_[feature]);
            core_.values.push_back(value);
        });
        core_.begins.push_back(static_cast<std::int64_t>(core_.places.size()));
    }
    core_.config = {config_.cost, start_.positive_cost, 1.0 / (static_cast<double>(config_.bias) * config_.bias),
                    static_cast<double>(rows_.n_rows()) - static_cast<double>(n_found)};
}

// Begin where the mean of the positives has margin 1, and a row without any of their words -1.
void PostingsTrainer::start_words() {
    core_.point.assign(static_cast<std::size_t>(n_core_) + 1, 0.0);
    const std::int64_t end = core_.begins[core_.n_positives];
    for (std::int64_t i = 0; i < end; ++i) core_.point[core_.places[i]] += core_.values[i];
    double square = 0.0;
    for (const double sum : core_.point) square += sum * sum;
    const double scale = square > 0.0 ? 2.0 * static_cast<double>(core_.n_positives) / square : 0.0;
    for (double& sum : core_.point) sum *= scale;
}

// The entry of the gradient that belongs to the shift of all margins, with a background.
double PostingsTrainer::bias_entry() const {
    const double t = near_.point.back();
    return near_.config.stiffness * (t * background_.shift - 1.0) + t * background_.pull + near_.slope_sum();
}

// Solve over the near rows; with a background also find the scale at which the bias weight rests. The rows here hardly
// see it, so that a few turns suffice.
bool PostingsTrainer::solve_near() {
    const double tolerance = kNearShare * start_.tolerance;
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
    }
    return false;
}

// Take the near rows afresh, with the far rows described by the background or by the shift they share. Weights stay.
void PostingsTrainer::begin_near(bool by_background) {
    for (const std::int32_t row : near_ids_) is_near_.remove_around(row);
    near_ids_.clear();
    near_.clear_rows();
    other_begins_.assign(1, 0);
    near_.config = core_.config;
    near_.has_background = by_background;
    near_.n_positives = core_.n_positives;
    near_.n_core = n_core_;
    core_.point.back() = by_background ? 1.0 : std::min(core_.point.back(), 0.0);
    near_.point.resize(words_.size() + 1, 0.0);
    if (static_cast<std::int64_t>(words_.size()) == n_core_) near_.point = core_.point;
    near_.point.back() = core_.point.back();
    gather_above(by_background ? 0.0 : kNearSlack * core_.point.back(), true);
}

// Rows of the postings above `floor` that are not near yet become so; also those that hold the background.
bool PostingsTrainer::gather_above(double floor, bool with_holders) {
    const double t = core_.point.back();
    const bool has_background = near_.has_background;
    const bool holds = with_holders && has_background;
    const std::size_t before = near_ids_.size();
    for (std::size_t i = 0; i < core_.rows.size(); ++i) {
        const float offset = has_background ? row_gaps_[core_.rows[i]] : 1.0F;
        const bool is_positive = static_cast<std::int64_t>(i) < core_.n_positives;
        if (is_positive || t * offset + core_.list_sum(static_cast<std::int64_t>(i)) > floor ||
            (holds && offset > 0.0F))
            add_near(core_.rows[i], offset);
    }
    for (std::int64_t place = 0; place < n_core_; ++place) {
        const WordColumn& column = core_.columns[place];
        const std::int32_t* const row_ids = postings_.row_ids.data() + postings_.indptr[words_[place]];
        const double weight = core_.point[place];
        if (!has_background) {
            const auto [begin, end] = column.above(t, weight, floor);
            for (std::int64_t i = begin; i < end; ++i)
                if (!is_listed_.has(row_ids[i])) add_near(row_ids[i], 1.0F);
            continue;
        }
        for (std::int64_t i = 0; i < column.size; ++i) {
            const float offset = row_gaps_[row_ids[i]];
            if ((t * offset + weight * column.values[i] > floor || (holds && offset > 0.0F)) &&
                !is_listed_.has(row_ids[i]))
                add_near(row_ids[i], offset);
        }
    }
    if (holds)
        for (std::size_t i = static_cast<std::size_t>(n_core_); i < words_.size(); ++i) add_holders(words_[i]);
    if (near_ids_.size() == before) return false;
    const std::size_t n_words = words_.size();
    // With a background a word is free only together with the far rows that it would move.
    if (!has_background && near_ids_.size() <= kFewRows) free_all_words();
    words_.size() == n_words ? describe_near(before) : move_freed();
    return true;
}

void PostingsTrainer::add_near(std::int32_t row, float offset) {
    if (!is_near_.add(row)) return;
    near_ids_.push_back(row);
    near_.offsets.push_back(offset);
}

// The rows with a word that hold the background: once its weight moves they no longer follow it.
void PostingsTrainer::add_holders(std::int32_t feature) {
    for (std::int64_t i = holder_indptr_[feature]; i < holder_indptr_[feature + 1]; ++i)
        add_near(holder_ids_[i], row_gaps_[holder_ids_[i]]);
}

// Let the weights of all words of the near rows move.
void PostingsTrainer::free_all_words() {
    for (const std::int32_t row : near_ids_)
        rows_.for_each(row, [&](std::int32_t feature, float) {
            if (numbers_[feature] >= 0) return;
            numbers_[feature] = static_cast<std::int32_t>(words_.size());
            words_.push_back(feature);
        });
}

// Write down the near rows from `first` on: the words whose weights may move, and the others.
void PostingsTrainer::describe_near(std::size_t first) {
    const double t = near_.point.back();
    near_.point.back() = 0.0;
    near_.point.resize(words_.size() + 1, 0.0);
    near_.point.back() = t;
    near_.begins.resize(first + 1);
    near_.words.resize(static_cast<std::size_t>(near_.begins[first]));
    near_.values.resize(near_.words.size());
    other_begins_.resize(first + 1);
    other_features_.resize(static_cast<std::size_t>(other_begins_[first]));
    other_values_.resize(other_features_.size());
    constexpr std::size_t kFar = 24;
    constexpr std::size_t kNear = 12;
    const std::size_t n = near_ids_.size();
    for (std::size_t i = first; i < n; ++i) {
        if (i + kFar < n) rows_.prefetch_place(near_ids_[i + kFar]);
        if (i + kNear < n) rows_.prefetch(near_ids_[i + kNear]);
        rows_.for_each(near_ids_[i], [&](std::int32_t feature, float value) {
            if (numbers_[feature] >= 0) {
                near_.words.push_back(numbers_[feature]);
                near_.values.push_back(value);
            } else {
                other_features_.push_back(feature);
                other_values_.push_back(value);
            }
        });
        near_.begins.push_back(static_cast<std::int64_t>(near_.words.size()));
        other_begins_.push_back(static_cast<std::int64_t>(other_features_.size()));
    }
    near_.find_runs();
}

// Move the entries of words that have become free from the others to the near rows, and describe the rows that joined.
void PostingsTrainer::move_freed() {
    const std::size_t n_described = near_.begins.size() - 1;
    next_begins_.assign(1, 0);
    next_words_.clear();
    next_values_.clear();
    std::int64_t n_others = 0;
    std::int64_t other = 0;
    for (std::size_t row = 0; row < n_described; ++row) {
        next_words_.insert(next_words_.end(), near_.words.begin() + near_.begins[row],
                           near_.words.begin() + near_.begins[row + 1]);
        next_values_.insert(next_values_.end(), near_.values.begin() + near_.begins[row],
                            near_.values.begin() + near_.begins[row + 1]);
        const std::int64_t end = other_begins_[row + 1];
        for (; other < end; ++other) {
            const std::int32_t number = numbers_[other_features_[other]];
            if (number >= 0) {
                next_words_.push_back(number);
                next_values_.push_back(other_values_[other]);
            } else {
                other_features_[n_others] = other_features_[other];
                other_values_[n_others++] = other_values_[other];
            }
        }
        other_begins_[row + 1] = n_others;
        next_begins_.push_back(static_cast<std::int64_t>(next_words_.size()));
    }
    near_.begins.swap(next_begins_);
    near_.words.swap(next_words_);
    near_.values.swap(next_values_);
    describe_near(n_described);
}

// The gradient over the words of near rows whose weights are kept at zero.
void PostingsTrainer::set_fixed_gradient() {
    for (const std::int32_t feature : fixed_words_) {
        fixed_gradient_[feature] = 0.0;
        is_fixed_.remove_around(feature);
    }
    fixed_words_.clear();
    for (std::size_t row = 0; row < near_ids_.size(); ++row) {
        const double slope = near_.slopes()[row];
        if (slope == 0.0) continue;
        for (std::int64_t i = other_begins_[row]; i < other_begins_[row + 1]; ++i) {
            if (is_fixed_.add(other_features_[i])) fixed_words_.push_back(other_features_[i]);
            fixed_gradient_[other_features_[i]] += slope * other_values_[i];
        }
    }
    fixed_square_ = 0.0;
    for (const std::int32_t feature : fixed_words_)
        fixed_square_ += fixed_gradient_[feature] * fixed_gradient_[feature];
}

// Free the words with the largest entries of the gradient until the others' norm is a share of the tolerance; false
// when it is already.
bool PostingsTrainer::free_words() {
    constexpr int kLevels = 64;  // entries by powers of √2 below the norm
    const double goal = kFixedShare * kFixedShare * start_.tolerance * start_.tolerance;
    if (fixed_square_ <= goal) return false;
    const auto level = [&](std::int32_t feature) {
        const double share = fixed_gradient_[feature] * fixed_gradient_[feature] / fixed_square_;
        return share > 0.0 ? std::min(kLevels - 1, static_cast<int>(-std::log2(share))) : kLevels - 1;
    };
    double squares[kLevels] = {};
    for (const std::int32_t feature : fixed_words_)
        squares[level(feature)] += fixed_gradient_[feature] * fixed_gradient_[feature];
    int last = kLevels - 1;
    for (double left = squares[last]; last > 0 && left <= goal; left += squares[--last]) {}
    for (const std::int32_t feature : fixed_words_) {
        if (level(feature) > last) continue;
        numbers_[feature] = static_cast<std::int32_t>(words_.size());
        words_.push_back(feature);
        if (near_.has_background) add_holders(feature);
    }
    move_freed();
    return true;
}

// L(w) over all rows.
double PostingsTrainer::objective() const {
    if (!near_.has_background) return near_.objective();
    const double t = near_.point.back();
    double penalty = t * t * background_.square;
    for (std::size_t i = 0; i < words_.size(); ++i)
        penalty += near_.point[i] * (near_.point[i] + 2.0 * t * background_.weights[words_[i]]);
    const double shift = t * background_.shift - 1.0;
    double far_loss = background_.loss;
    for (const float offset : near_.offsets)
        far_loss -= offset > 0.0F ? config_.cost * static_cast<double>(offset) * static_cast<double>(offset) : 0.0;
    return 0.5 * (penalty + near_.config.stiffness * shift * shift) + near_.loss() + t * t * far_loss;
}

void PostingsTrainer::hand_over(std::int64_t label, double gradient_norm) {
    const bool has_background = near_.has_background;
    const double t = near_.point.back();
    std::vector<std::pair<std::int32_t, float>> weights;
    if (has_background && config_.prune_below <= t * background_.largest)
        for (std::int32_t feature = 0; feature < rows_.n_features(); ++feature) {
            const double own = numbers_[feature] < 0 ? 0.0 : near_.point[numbers_[feature]];
            weights.emplace_back(feature, static_cast<float>(own + t * background_.weights[feature]));
        }
    else
        for (std::size_t i = 0; i < words_.size(); ++i)
            weights.emplace_back(
                words_[i],
                static_cast<float>(near_.point[i] + (has_background ? t * background_.weights[words_[i]] : 0.0)));
    std::sort(weights.begin(), weights.end());
    record_.last_objective = objective();
    if (!record_.history.empty()) record_.history.back().objective = record_.last_objective;
    record_.gradient_ratio = gradient_norm / start_.zero_gradient;
    const double shift = has_background ? t * background_.shift : t;
    sink_.put(label, weights, static_cast<float>(shift - 1.0), std::move(record_));
}

void PostingsTrainer::forget_label() {
    for (std::int64_t place = 0; place < n_core_; ++place)
        for (std::int64_t i = postings_.indptr[words_[place]]; i < postings_.indptr[words_[place] + 1]; ++i)
            is_found_.remove_around(postings_.row_ids[i]);
    for (std::int64_t i = 0; i < core_.n_positives; ++i) is_found_.remove_around(core_.rows[i]);
    for (const std::int32_t row : core_.rows) is_listed_.remove_around(row);
    for (const std::int32_t row : near_ids_) is_near_.remove_around(row);
    for (const std::int32_t feature : words_) numbers_[feature] = -1;
    core_.clear();
    core_.n_positives = 0;
    near_ids_.clear();
    words_.clear();
    near_.point.clear();
    n_core_ = 0;
}

}  // namespace longtail::linear
