#include "pd_sparse/train.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "base/random.hpp"

namespace longtail::pd_sparse {

namespace {

// Passes without a better precision on the held-out rows after which training ends.
constexpr std::size_t kPatience = 3;
// The precision is measured after each part of a pass: W swings with the last rows, some states rank far better.
constexpr std::size_t kParts = 20;
// What a right label at a rank adds to the mean of P@1, P@3 and P@5.
constexpr std::array kRankWeights{23.0 / 45.0, 8.0 / 45.0, 8.0 / 45.0, 1.0 / 15.0, 1.0 / 15.0};

struct Entry {
    std::int32_t label_id;
    float value;
};

float shrunk(float value, float l1) { return value > l1 ? value - l1 : value < -l1 ? value + l1 : 0.0F; }

// Σ max(a - μ, 0)
double sum_above(const std::vector<float>& numbers, double mu) {
    double sum = 0.0;
    for (const float a : numbers) sum += std::max(a - mu, 0.0);
    return sum;
}

// The root of a function that falls, by bisection; 60 halvings reach the last bit of a float.
template <class Falling>
double root_of(const Falling& falling, double low, double high) {
    for (int step = 0; step < 60; ++step) {
        const double middle = 0.5 * (low + high);
        (falling(middle) > 0.0 ? low : high) = middle;
    }
    return 0.5 * (low + high);
}

void subtract_and_cut(std::vector<float>& numbers, double mu) {
    for (float& a : numbers) a = static_cast<float>(std::max(a - mu, 0.0));
}

class Trainer {
public:
    Trainer(const CsrView& x, const LabelsView& y, const Config& config)
        : x_(x),
          y_(y),
          config_(config),
          l1_(config.l1),
          random_(config.seed, 0),
          by_feature_(x.n_cols + 1),
          rows_(x.n_rows),
          scores_(y.n_labels),
          deltas_(y.n_labels),
          score_stamps_(y.n_labels, -1),
          found_stamps_(y.n_labels, -1),
          is_taken_(y.n_labels) {
        // Labels without positives would only be pushed down.
        std::vector<std::uint8_t> is_seen(y.n_labels);
        for (const std::int32_t label_id : y.indices) is_seen[label_id] = 1;
        for (std::int64_t label_id = 0; label_id < y.n_labels; ++label_id) {
            if (is_seen[label_id]) seen_.push_back(static_cast<std::int32_t>(label_id));
        }
    }

    Weights run(Control& control) {
        order_.resize(x_.n_rows);
        std::iota(order_.begin(), order_.end(), 0);
        shuffle(order_);
        held_out_.assign(order_.end() - config_.n_held_out, order_.end());
        order_.resize(order_.size() - held_out_.size());
        Weights weights;
        weights.objectives = train_phase(weights, control);
        if (!config_.post_train || l1_ == 0.0F) return weights;
        keep_support(weights);
        train_phase(weights, control);
        return weights;
    }

private:
    // Make passes; returns the dual objective after each. The weights are the best so far by the held-out rows, those of
    // an earlier phase included, or the last ones without such rows.
    std::vector<double> train_phase(Weights& weights, Control& control) {
        std::vector<double> objectives;
        std::size_t n_parts = 0;
        std::size_t last_better = 0;
        for (std::int32_t epoch = 0; epoch < config_.n_epochs; ++epoch) {
            shuffle(order_);
            float largest = 0.0F;
            for (std::size_t part = 0; part < kParts; ++part) {
                for (std::size_t i = order_.size() * part / kParts; i < order_.size() * (part + 1) / kParts; ++i) {
                    control.throw_if_stopped();
                    largest = std::max(largest, visit(order_[i]));
                }
                if (held_out_.empty()) continue;
                weights.precisions.push_back(precision(control));
                ++n_parts;
                const double found = weights.precisions.back();
                // Later states of a phase are better trained; the first ones of a second phase are not.
                if (found < best_precision_ || (found == best_precision_ && last_better == 0)) continue;
                best_precision_ = found;
                last_better = n_parts;
                collect(weights);
            }
            objectives.push_back(dual_objective());
            if (largest <= config_.tolerance) break;
            if (!held_out_.empty() && n_parts - last_better >= kPatience * kParts) break;
        }
        if (held_out_.empty()) collect(weights);
        return objectives;
    }

    // Start again with these weights only, all zero, and without the l1 penalty.
    void keep_support(const Weights& weights) {
        l1_ = 0.0F;
        is_fixed_ = true;
        for (auto& active : rows_) active.clear();
        for (std::size_t feature = 0; feature < by_feature_.size(); ++feature) {
            by_feature_[feature].clear();
            for (std::int64_t i = weights.indptr[feature]; i < weights.indptr[feature + 1]; ++i) {
                by_feature_[feature].push_back({weights.label_ids[i], 0.0F});
            }
        }
    }

    void shuffle(std::vector<std::int64_t>& order) {
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[random_.below(static_cast<std::uint32_t>(i))]);
        }
    }

    double precision(Control& control) {
        double sum = 0.0;
        for (const std::int64_t row : held_out_) {
            control.throw_if_stopped();
            score(row);
            sort_first(touched_, kRankWeights.size());
            const auto labels = y_.row_labels(row);
            for (std::size_t i = 0; i < std::min(kRankWeights.size(), touched_.size()); ++i) {
                if (std::binary_search(labels.begin(), labels.end(), touched_[i])) sum += kRankWeights[i];
            }
        }
        return sum / static_cast<double>(held_out_.size());
    }

    template <class Visit>
    void for_features(std::int64_t row, const Visit& visit_feature) {
        const auto indices = x_.row_indices(row);
        const auto values = x_.row_values(row);
        for (std::size_t i = 0; i < indices.size(); ++i) visit_feature(by_feature_[indices[i]], values[i]);
        visit_feature(by_feature_[x_.n_cols], 1.0F);
    }

    // Returns by how much the row violates its margin.
    float visit(std::int64_t row) {
        const auto labels = y_.row_labels(row);
        if (labels.empty()) return 0.0F;
        score(row);
        float least = score_of(labels[0]);
        for (const std::int32_t label_id : labels) least = std::min(least, score_of(label_id));
        auto& active = rows_[row];
        const float violation = find_violators(labels, least);
        if (active.empty()) {
            if (violators_.empty()) return 0.0F;
            for (const std::int32_t label_id : labels) active.push_back({label_id, 0.0F});
        }
        const std::size_t n_active = active.size();
        for (std::size_t i = 0; i < n_active; ++i) is_taken_[active[i].label_id] = 1;
        for (const std::int32_t label_id : violators_) {
            if (!is_taken_[label_id]) active.push_back({label_id, 0.0F});
        }
        for (std::size_t i = 0; i < n_active; ++i) is_taken_[active[i].label_id] = 0;
        improve(row, active, labels.size());
        return violation;
    }

    void score(std::int64_t row) {
        ++score_stamp_;
        touched_.clear();
        for_features(row, [&](const std::vector<Entry>& entries, float value) {
            for (const Entry& entry : entries) {
                const float weight = shrunk(entry.value, l1_);
                if (weight == 0.0F) continue;
                if (score_stamps_[entry.label_id] != score_stamp_) {
                    score_stamps_[entry.label_id] = score_stamp_;
                    scores_[entry.label_id] = 0.0F;
                    touched_.push_back(entry.label_id);
                }
                scores_[entry.label_id] += value * weight;
            }
        });
    }

    float score_of(std::int32_t label_id) const {
        return score_stamps_[label_id] == score_stamp_ ? scores_[label_id] : 0.0F;
    }

    // Higher scores first, then lower ids.
    void sort_first(std::vector<std::int32_t>& label_ids, std::size_t n_first) const {
        const auto middle = label_ids.begin() + std::min(n_first, label_ids.size());
        std::partial_sort(label_ids.begin(), middle, label_ids.end(), [this](std::int32_t a, std::int32_t b) {
            const float first = score_of(a);
            const float second = score_of(b);
            return first != second ? first > second : a < b;
        });
    }

    // Find the labels with the highest scores that violate the margin of a row; returns by how much the first one does.
    // Labels without a score have 0; some of these are drawn.
    float find_violators(std::span<const std::int32_t> labels, float least) {
        violators_.clear();
        for (const std::int32_t label_id : labels) is_taken_[label_id] = 1;
        for (const std::int32_t label_id : touched_) {
            if (!is_taken_[label_id] && scores_[label_id] > least - 1.0F) violators_.push_back(label_id);
        }
        const auto n_wanted = static_cast<std::size_t>(config_.n_violators);
        const std::size_t n_scored = violators_.size();
        for (std::int32_t draw = 0; least < 1.0F && n_scored < n_wanted && draw < config_.n_violators; ++draw) {
            const std::int32_t label_id = seen_[random_.below(static_cast<std::uint32_t>(seen_.size()))];
            if (is_taken_[label_id] || score_stamps_[label_id] == score_stamp_) continue;
            is_taken_[label_id] = 1;
            violators_.push_back(label_id);
        }
        for (std::size_t i = n_scored; i < violators_.size(); ++i) is_taken_[violators_[i]] = 0;
        for (const std::int32_t label_id : labels) is_taken_[label_id] = 0;
        if (violators_.empty()) return 0.0F;
        sort_first(violators_, n_wanted);
        violators_.resize(std::min(n_wanted, violators_.size()));
        return 1.0F + score_of(violators_[0]) - least;
    }

    // Minimise the dual over the active labels of a row: the first `n_positives` are its own.
    void improve(std::int64_t row, std::vector<Entry>& active, std::size_t n_positives) {
        float curvature = 1.0F;
        for (const float value : x_.row_values(row)) curvature += value * value;
        first_.clear();
        second_.clear();
        for (std::size_t i = 0; i < active.size(); ++i) {
            const float score = score_of(active[i].label_id);
            if (i < n_positives)
                first_.push_back(active[i].value + (0.5F - score) / curvature);
            else
                second_.push_back(-active[i].value + (0.5F + score) / curvature);
        }
        project_to_equal_sums(first_, second_, config_.cost);
        changed_.clear();
        for (std::size_t i = 0; i < active.size(); ++i) {
            const float now = i < n_positives ? first_[i] : -second_[i - n_positives];
            if (now == active[i].value) continue;
            deltas_[active[i].label_id] = now - active[i].value;
            changed_.push_back(active[i].label_id);
            active[i].value = now;
        }
        if (!changed_.empty()) apply(row);
        const auto is_zero = [](const Entry& entry) { return entry.value == 0.0F; };
        active.erase(std::remove_if(active.begin() + n_positives, active.end(), is_zero), active.end());
    }

    // V += x deltaᵀ
    void apply(std::int64_t row) {
        for_features(row, [&](std::vector<Entry>& entries, float value) {
            ++found_stamp_;
            std::size_t n_found = 0;
            for (Entry& entry : entries) {
                if (deltas_[entry.label_id] == 0.0F) continue;
                entry.value += value * deltas_[entry.label_id];
                found_stamps_[entry.label_id] = found_stamp_;
                ++n_found;
            }
            if (is_fixed_ || n_found == changed_.size()) return;
            for (const std::int32_t label_id : changed_) {
                if (found_stamps_[label_id] != found_stamp_) entries.push_back({label_id, value * deltas_[label_id]});
            }
        });
        for (const std::int32_t label_id : changed_) deltas_[label_id] = 0.0F;
    }

    double dual_objective() const {
        double objective = 0.0;
        for (const auto& active : rows_) {
            for (const Entry& entry : active) objective += std::max(entry.value, 0.0F);
        }
        for (const auto& entries : by_feature_) {
            for (const Entry& entry : entries) {
                const double weight = shrunk(entry.value, l1_);
                objective -= 0.5 * weight * weight;
            }
        }
        return objective;
    }

    void collect(Weights& weights) {
        weights.label_ids.clear();
        weights.values.clear();
        weights.indptr.assign(1, 0);
        for (auto& entries : by_feature_) {
            std::sort(entries.begin(), entries.end(), [](auto a, auto b) { return a.label_id < b.label_id; });
            for (const Entry& entry : entries) {
                const float weight = shrunk(entry.value, l1_);
                if (weight == 0.0F) continue;
                weights.label_ids.push_back(entry.label_id);
                weights.values.push_back(weight);
            }
            weights.indptr.push_back(static_cast<std::int64_t>(weights.values.size()));
        }
    }

    CsrView x_;
    LabelsView y_;
    Config config_;
    float l1_;
    bool is_fixed_ = false;  // no weight may be added
    double best_precision_ = -1.0;
    Random random_;
    std::vector<std::int64_t> order_, held_out_;
    std::vector<std::vector<Entry>> by_feature_;  // V
    std::vector<std::vector<Entry>> rows_;        // β, the row's own labels first
    std::vector<std::int32_t> seen_;
    std::vector<float> scores_, deltas_;
    std::vector<std::int64_t> score_stamps_, found_stamps_;
    std::vector<std::uint8_t> is_taken_;
    std::vector<std::int32_t> touched_, changed_, violators_;
    std::vector<float> first_, second_;
    std::int64_t score_stamp_ = 0, found_stamp_ = 0;
};

}  // namespace

void project_to_equal_sums(std::vector<float>& first, std::vector<float>& second, float limit) {
    if (first.empty() || second.empty()) {
        std::fill(first.begin(), first.end(), 0.0F);
        std::fill(second.begin(), second.end(), 0.0F);
        return;
    }
    const double highest = *std::max_element(first.begin(), first.end());
    const double other_highest = *std::max_element(second.begin(), second.end());
    if (highest + other_highest > 0.0) {
        // With the multiplier μ for the first sum, the second has -μ; between the ends both sums are positive somewhere.
        double mu =
            root_of([&](double m) { return sum_above(first, m) - sum_above(second, -m); }, -other_highest, highest);
        double nu = -mu;
        if (sum_above(first, mu) > limit) {
            const auto multiplier = [limit](const std::vector<float>& numbers, double high) {
                return root_of([&](double m) { return sum_above(numbers, m) - limit; }, high - limit, high);
            };
            mu = multiplier(first, highest);
            nu = multiplier(second, other_highest);
        }
        subtract_and_cut(first, mu);
        subtract_and_cut(second, nu);
        return;
    }
    std::fill(first.begin(), first.end(), 0.0F);
    std::fill(second.begin(), second.end(), 0.0F);
}

Weights train(const CsrView& x, const LabelsView& y, const Config& config, Control& control) {
    return Trainer(x, y, config).run(control);
}

}  // namespace longtail::pd_sparse
