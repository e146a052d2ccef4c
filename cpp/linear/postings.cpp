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
constexpr double kWordShare = 0.3;   // of the tolerance, for the problem over the positives' words
constexpr double kNearShare = 0.1;   // for the free words of the near rows: the scale of the background needs it
constexpr double kFixedShare = 0.4;  // what is left when the largest entries of the others become free

using Clock = std::chrono::steady_clock;

}  // namespace

Postings::Postings(const SparseRows& rows)
    : indptr(static_cast<std::size_t>(rows.n_features()) + 1, 0),
      row_ids(static_cast<std::size_t>(rows.n_stored())),
      values(row_ids.size()) {
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float) { ++indptr[feature + 1]; });
    for (std::int64_t feature = 0; feature < rows.n_features(); ++feature) indptr[feature + 1] += indptr[feature];
    std::vector<std::int64_t> cursor(indptr.begin(), indptr.end() - 1);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        rows.for_each(row, [&](std::int32_t feature, float value) {
            row_ids[cursor[feature]] = static_cast<std::int32_t>(row);
            values[cursor[feature]++] = value;
        });
}

PostingsTrainer::PostingsTrainer(const SparseRows& rows, const OvaLabels& labels, const OvaMoments& moments,
                                 const OvaStart& start, const OvaConfig& config, LabelSink& sink, Control& control)
    : rows_(rows),
      labels_(labels),
      config_(config),
      sink_(sink),
      control_(control),
      starter_(rows, labels, moments, start, config),
      postings_(rows),
      background_(moments.background.empty() ? solve_background(rows, moments, config, control)
                                             : Background(moments.background)),
      slots_(static_cast<std::size_t>(rows.n_rows()), -1),
      numbers_(static_cast<std::size_t>(rows.n_features()), -1) {
    row_gaps_.reserve(slots_.size());
    for (std::int64_t row = 0; row < rows.n_rows(); ++row)
        row_gaps_.push_back(static_cast<float>(background_.gap(rows, row)));
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
    start_words(positives);
    if (!solve_words()) return false;
    gather_near();
    int n_switches = 0;
    for (int stage = 0; stage < kMaxStages; ++stage) {
        control_.throw_if_stopped();
        if (record_.iterations >= config_.max_iterations || !solve_near()) return false;
        const bool has_background = near_.config.has_background;
        const bool is_lifted = !has_background && near_.point.back() > 0.0;  // far rows are above their margin
        if (is_lifted) {
            near_.point.back() = 0.0;
            core_.point.back() = 0.0;
            near_.refresh();
        }
        if (!is_lifted && gather_violators()) continue;
        const double bias_part = has_background ? config_.bias * bias_entry() : 0.0;  // else part of the gradient
        const double known = near_.gradient_square() + near_.fixed_square() + bias_part * bias_part;
        const double rest = has_background ? near_.point.back() * background_.residual_norm : 0.0;
        const double norm = std::sqrt(known) + rest;
        if (norm <= start_.tolerance && !(is_lifted && gather_violators())) {
            record_.seconds = std::chrono::duration<double>(Clock::now() - begin_time).count();
            hand_over(label, norm);
            return true;
        }
        if (is_lifted) {
            if (++n_switches > kMaxSwitches) return false;
            set_far_rows(true);
            gather_near();
            continue;
        }
        if (has_background && near_.point.back() == 0.0 && bias_part > kWordShare * start_.tolerance) {
            // The rows here hold the bias weight after all; but only if they still do with more of their words.
            if (free_words(0.1)) continue;
            set_far_rows(false);
            gather_near();
            continue;
        }
        if (!free_words(kFixedShare)) return false;
    }
    return false;
}

// The positives and all rows in the postings of their words, as they look through those words.
void PostingsTrainer::find_rows(std::span<const std::int32_t> positives) {
    core_.clear();
    core_.n_positives = static_cast<std::int64_t>(positives.size());
    for (const std::int32_t row : positives) {
        slots_[row] = static_cast<std::int32_t>(row_ids_.size());
        row_ids_.push_back(row);
        rows_.for_each(row, [&](std::int32_t feature, float value) {
            if (numbers_[feature] < 0) {
                numbers_[feature] = static_cast<std::int32_t>(words_.size());
                words_.push_back(feature);
            }
            core_.places.push_back(numbers_[feature]);
            core_.values.push_back(value);
        });
        core_.begins.push_back(static_cast<std::int64_t>(core_.places.size()));
        core_.rows.push_back(row);
    }
    n_core_ = static_cast<std::int64_t>(words_.size());
    struct Entry {
        std::int32_t slot;
        std::int32_t place;
        float value;
    };
    std::vector<Entry> firsts;
    std::vector<Entry> others;  // further words of rows that are there already
    for (std::int32_t place = 0; place < n_core_; ++place) {
        const std::int32_t feature = words_[place];
        for (std::int64_t i = postings_.indptr[feature]; i < postings_.indptr[feature + 1]; ++i) {
            std::int32_t& slot = slots_[postings_.row_ids[i]];
            if (slot >= 0) {
                if (slot >= core_.n_positives) others.push_back({slot, place, postings_.values[i]});
                continue;
            }
            slot = static_cast<std::int32_t>(row_ids_.size());
            row_ids_.push_back(postings_.row_ids[i]);
            firsts.push_back({slot, place, postings_.values[i]});
        }
    }
    std::stable_sort(others.begin(), others.end(), [](const Entry& a, const Entry& b) { return a.slot < b.slot; });
    core_.single_begins.assign(static_cast<std::size_t>(n_core_) + 1, 0);
    std::size_t other = 0;
    for (const Entry& first : firsts) {  // slots, and so places, increase
        const std::int32_t row = row_ids_[first.slot];
        if (other == others.size() || others[other].slot != first.slot) {
            core_.single_values.push_back(first.value);
            core_.single_rows.push_back(row);
            ++core_.single_begins[first.place + 1];
            continue;
        }
        core_.places.push_back(first.place);
        core_.values.push_back(first.value);
        for (; other < others.size() && others[other].slot == first.slot; ++other) {
            core_.places.push_back(others[other].place);
            core_.values.push_back(others[other].value);
        }
        core_.begins.push_back(static_cast<std::int64_t>(core_.places.size()));
        core_.rows.push_back(row);
    }
    for (std::int64_t i = 0; i < n_core_; ++i) core_.single_begins[i + 1] += core_.single_begins[i];
    is_near_.assign(row_ids_.size(), 0);
    core_.config = {config_.cost, start_.positive_cost, 1.0 / (static_cast<double>(config_.bias) * config_.bias),
                    static_cast<double>(rows_.n_rows()) - static_cast<double>(row_ids_.size()), false};
    core_.offsets.assign(core_.rows.size(), 1.0F);
    core_.single_offsets.assign(core_.single_rows.size(), 1.0F);
}

// Begin where the mean of the positives has margin 1, and a row without any of their words -1.
void PostingsTrainer::start_words(std::span<const std::int32_t> positives) {
    core_.point.assign(static_cast<std::size_t>(n_core_) + 1, 0.0);
    const std::int64_t end = core_.begins[core_.n_positives];
    for (std::int64_t i = 0; i < end; ++i) core_.point[core_.places[i]] += core_.values[i];
    double square = 0.0;
    for (const double sum : core_.point) square += sum * sum;
    const double scale = square > 0.0 ? 2.0 * static_cast<double>(positives.size()) / square : 0.0;
    for (double& sum : core_.point) sum *= scale;
}

// Describe the far rows by the background, or by the shift they share; keeps the weights.
void PostingsTrainer::set_far_rows(bool by_background) {
    core_.config.has_background = by_background;
    for (std::size_t i = 0; i < core_.rows.size(); ++i)
        core_.offsets[i] = by_background ? row_gaps_[core_.rows[i]] : 1.0F;
    for (std::size_t i = 0; i < core_.single_rows.size(); ++i)
        core_.single_offsets[i] = by_background ? row_gaps_[core_.single_rows[i]] : 1.0F;
    core_.point.back() = by_background ? 1.0 : 0.0;
}

bool PostingsTrainer::solve_words() {
    const double tolerance = kWordShare * start_.tolerance;
    const int max_steps = config_.max_iterations;
    if (!core_.descend(tolerance, max_steps, config_.keep_history, record_)) return false;
    if (core_.point.back() <= 0.0) return true;
    set_far_rows(true);
    return core_.descend(tolerance, max_steps, config_.keep_history, record_);
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
        if (!near_.config.has_background) return true;
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

// Take the near rows afresh, with the weights of the positives' words as they are.
void PostingsTrainer::gather_near() {
    for (std::size_t i = static_cast<std::size_t>(n_core_); i < words_.size(); ++i) numbers_[words_[i]] = -1;
    words_.resize(static_cast<std::size_t>(n_core_));
    for (const std::int32_t row : far_rows_) slots_[row] = -1;
    far_rows_.clear();
    std::fill(is_near_.begin(), is_near_.end(), 0);
    near_.clear();
    near_.config = core_.config;
    near_.n_positives = core_.n_positives;
    near_.n_core = n_core_;
    near_.point = core_.point;
    near_.is_free.assign(static_cast<std::size_t>(n_core_), 1);
    gather_above(core_.config.has_background ? 0.0 : kNearSlack * core_.point.back(), true);
}

// Rows of the postings above `floor` that are not near yet become so; also those that hold the background.
bool PostingsTrainer::gather_above(double floor, bool with_background) {
    const double t = core_.point.back();
    const std::size_t before = near_.offsets.size();
    const bool holds = with_background && core_.config.has_background;
    for (std::size_t i = 0; i < core_.rows.size(); ++i) {
        const bool is_positive = static_cast<std::int64_t>(i) < core_.n_positives;
        const double margin = t * core_.offsets[i] + core_.list_sum(static_cast<std::int64_t>(i));
        if (is_positive || margin > floor || (holds && core_.offsets[i] > 0.0F))
            add_near(core_.rows[i], core_.offsets[i]);
    }
    for (std::int64_t place = 0; place < n_core_; ++place) {
        const float weight = static_cast<float>(core_.point[place]);
        const float shift = static_cast<float>(t);
        for (std::int64_t i = core_.single_begins[place]; i < core_.single_begins[place + 1]; ++i) {
            const float offset = core_.single_offsets[i];
            if (shift * offset + weight * core_.single_values[i] > static_cast<float>(floor) ||
                (holds && offset > 0.0F))
                add_near(core_.single_rows[i], offset);
        }
    }
    return near_.offsets.size() > before;
}

bool PostingsTrainer::gather_violators() { return gather_above(0.0, false); }

void PostingsTrainer::add_near(std::int32_t row, float offset) {
    char& is_near = is_near_[slots_[row]];
    if (is_near) return;
    is_near = 1;
    near_.offsets.push_back(offset);
    rows_.for_each(row, [&](std::int32_t feature, float value) {
        if (numbers_[feature] < 0) {
            numbers_[feature] = static_cast<std::int32_t>(words_.size());
            words_.push_back(feature);
            near_.point.insert(near_.point.end() - 1, 0.0);
            // With a background a word is free only together with the far rows that it would move.
            near_.is_free.push_back(core_.config.has_background ? 0 : 1);
        }
        near_.words.push_back(numbers_[feature]);
        near_.values.push_back(value);
    });
    near_.begins.push_back(static_cast<std::int64_t>(near_.words.size()));
}

// Free the words with the largest entries of the gradient until the others' norm is `share` of the tolerance; false
// when it is already. The far rows with such a word
// that hold the background come here: they no longer follow it.
bool PostingsTrainer::free_words(double share) {
    std::vector<std::int32_t> fixed;
    for (std::size_t i = 0; i < words_.size(); ++i)
        if (!near_.is_free[i]) fixed.push_back(static_cast<std::int32_t>(i));
    const std::vector<double>& gradient = near_.gradient();
    std::sort(fixed.begin(), fixed.end(), [&](std::int32_t a, std::int32_t b) {
        const double left = std::abs(gradient[a]);
        const double right = std::abs(gradient[b]);
        return left > right || (left == right && a < b);
    });
    double square = near_.fixed_square();
    const double goal = share * share * start_.tolerance * start_.tolerance;
    std::size_t n_freed = 0;
    for (; n_freed < fixed.size() && square > goal; ++n_freed) {
        near_.is_free[fixed[n_freed]] = 1;
        square -= gradient[fixed[n_freed]] * gradient[fixed[n_freed]];
    }
    for (std::size_t i = 0; i < n_freed; ++i) {
        const std::int32_t feature = words_[fixed[i]];
        for (std::int64_t j = postings_.indptr[feature]; j < postings_.indptr[feature + 1]; ++j) {
            const std::int32_t row = postings_.row_ids[j];
            if (row_gaps_[row] <= 0.0F) continue;
            if (slots_[row] < 0) {
                slots_[row] = static_cast<std::int32_t>(is_near_.size());
                is_near_.push_back(0);
                far_rows_.push_back(row);
            }
            add_near(row, row_gaps_[row]);
        }
    }
    return n_freed > 0;
}

// L(w) over all rows.
double PostingsTrainer::objective() const {
    if (!near_.config.has_background) return near_.objective();
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
    const bool has_background = near_.config.has_background;
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
    for (const std::int32_t row : row_ids_) slots_[row] = -1;
    for (const std::int32_t row : far_rows_) slots_[row] = -1;
    for (const std::int32_t feature : words_) numbers_[feature] = -1;
    row_ids_.clear();
    far_rows_.clear();
    words_.clear();
}

}  // namespace longtail::linear
