#include "pd_sparse/train.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"

namespace longtail::pd_sparse {

namespace {

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
          random_(config.seed, 0),
          by_feature_(x.n_cols + 1),
          rows_(x.n_rows),
          scores_(y.n_labels),
          deltas_(y.n_labels),
          score_stamps_(y.n_labels, -1),
          found_stamps_(y.n_labels, -1),
          is_positive_(y.n_labels) {
        // Labels without positives would only be pushed down.
        std::vector<std::uint8_t> is_seen(y.n_labels);
        for (const std::int32_t label_id : y.indices) is_seen[label_id] = 1;
        for (std::int64_t label_id = 0; label_id < y.n_labels; ++label_id) {
            if (is_seen[label_id]) seen_.push_back(static_cast<std::int32_t>(label_id));
        }
    }

    Weights run(Control& control) {
        std::vector<std::int64_t> order(x_.n_rows);
        std::iota(order.begin(), order.end(), 0);
        Weights weights;
        for (std::int32_t epoch = 0; epoch < config_.n_epochs; ++epoch) {
            for (std::size_t i = order.size(); i > 1; --i) {
                std::swap(order[i - 1], order[random_.below(static_cast<std::uint32_t>(i))]);
            }
            float largest = 0.0F;
            for (const std::int64_t row : order) {
                control.throw_if_stopped();
                largest = std::max(largest, visit(row));
            }
            weights.objectives.push_back(dual_objective());
            if (largest <= config_.tolerance) break;
        }
        collect(weights);
        return weights;
    }

private:
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
        for (const std::int32_t label_id : labels) is_positive_[label_id] = 1;
        const std::int32_t worst = most_violating();
        for (const std::int32_t label_id : labels) is_positive_[label_id] = 0;
        if (worst < 0) return 0.0F;
        float least = score_of(labels[0]);
        for (const std::int32_t label_id : labels) least = std::min(least, score_of(label_id));
        const float violation = 1.0F + score_of(worst) - least;
        auto& active = rows_[row];
        if (active.empty()) {
            if (violation <= 0.0F) return 0.0F;
            for (const std::int32_t label_id : labels) active.push_back({label_id, 0.0F});
        }
        const auto is_worst = [worst](const Entry& entry) { return entry.label_id == worst; };
        if (violation > 0.0F && std::none_of(active.begin() + labels.size(), active.end(), is_worst)) {
            active.push_back({worst, 0.0F});
        }
        improve(row, active, labels.size());
        return violation;
    }

    void score(std::int64_t row) {
        ++score_stamp_;
        touched_.clear();
        for_features(row, [&](const std::vector<Entry>& entries, float value) {
            for (const Entry& entry : entries) {
                const float weight = shrunk(entry.value, config_.l1);
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

    // The label with the highest score that the row does not have; labels without a score have 0.
    std::int32_t most_violating() {
        std::int32_t best = -1;
        for (const std::int32_t label_id : touched_) {
            if (is_positive_[label_id]) continue;
            if (best < 0 || scores_[label_id] > scores_[best] ||
                (scores_[label_id] == scores_[best] && label_id < best)) {
                best = label_id;
            }
        }
        if (best >= 0 && scores_[best] >= 0.0F) return best;
        for (int attempt = 0; attempt < 20; ++attempt) {
            const std::int32_t label_id = seen_[random_.below(static_cast<std::uint32_t>(seen_.size()))];
            if (!is_positive_[label_id] && score_stamps_[label_id] != score_stamp_) return label_id;
        }
        return best;
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
            if (n_found == changed_.size()) return;
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
                const double weight = shrunk(entry.value, config_.l1);
                objective -= 0.5 * weight * weight;
            }
        }
        return objective;
    }

    void collect(Weights& weights) {
        weights.indptr.push_back(0);
        for (auto& entries : by_feature_) {
            std::sort(entries.begin(), entries.end(), [](auto a, auto b) { return a.label_id < b.label_id; });
            for (const Entry& entry : entries) {
                const float weight = shrunk(entry.value, config_.l1);
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
    Random random_;
    std::vector<std::vector<Entry>> by_feature_;  // V
    std::vector<std::vector<Entry>> rows_;        // β, the row's own labels first
    std::vector<std::int32_t> seen_;
    std::vector<float> scores_, deltas_;
    std::vector<std::int64_t> score_stamps_, found_stamps_;
    std::vector<std::uint8_t> is_positive_;
    std::vector<std::int32_t> touched_, changed_;
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
