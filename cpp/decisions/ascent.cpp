#include "decisions/ascent.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decisions/best_few.hpp"

namespace longtail {
namespace {

constexpr std::int64_t kRowsPerLook = 1024;

class MacroF1 {
public:
    explicit MacroF1(std::span<const double> positives) : labels_(positives.size()) {
        for (std::size_t i = 0; i < positives.size(); ++i) labels_[i].positives = positives[i];
    }
    void give(std::int32_t label_id, double p) {
        labels_[label_id].hits += p;
        labels_[label_id].given += 1.0;
    }
    void take_back(std::int32_t label_id, double p) {
        labels_[label_id].hits -= p;
        labels_[label_id].given -= 1.0;
    }
    double gain(std::int32_t label_id, double p) const {
        const Label& label = labels_[label_id];
        const double before = label.given + label.positives;
        return 2.0 * (label.hits + p) / (before + 1.0) - (before > 0.0 ? 2.0 * label.hits / before : 0.0);
    }
    double total() const {
        double sum = 0.0;
        for (const Label& label : labels_)
            if (label.given > 0.5) sum += 2.0 * label.hits / (label.given + label.positives);
        return sum;
    }

private:
    struct Label {
        double hits = 0.0, given = 0.0, positives = 0.0;
    };
    std::vector<Label> labels_;
};

class Coverage {
public:
    explicit Coverage(std::span<const double> positives) : log_miss_(positives.size()) {}
    void give(std::int32_t label_id, double p) { log_miss_[label_id] += log_of_miss(p); }
    void take_back(std::int32_t label_id, double p) {
        log_miss_[label_id] = std::min(0.0, log_miss_[label_id] - log_of_miss(p));
    }
    double gain(std::int32_t label_id, double p) const { return std::exp(log_miss_[label_id]) * p; }
    double total() const {
        double sum = 0.0;
        for (const double log_miss : log_miss_) sum -= std::expm1(log_miss);
        return sum;
    }

private:
    // A certain label would make the logarithm infinite, and it could not be taken back.
    static double log_of_miss(double p) { return std::log1p(-std::min(p, 1.0 - 1e-9)); }
    std::vector<double> log_miss_;
};

template <class State>
Ascent ascend_with(State state, const CandidatesView& proba, double label_share, const Goal& goal, Control& control) {
    const std::int64_t k = goal.top_k;
    const double n_given = static_cast<double>(proba.n_rows) * static_cast<double>(k);
    // Both parts of the objective times n_rows · k.
    const double from_measure = goal.mix * label_share * n_given, from_precision = 1.0 - goal.mix;
    std::vector<std::int32_t> places(proba.n_rows * k, -1);
    std::vector<double> gains(proba.n_rows * k, 0.0);
    BestFew best(k);
    Ascent result;
    double before = 0.0;
    while (result.n_passes < goal.max_passes) {
        double sum_proba = 0.0;
        for (std::int64_t row = 0; row < proba.n_rows; ++row) {
            if (row % kRowsPerLook == 0) control.throw_if_stopped();
            const auto label_ids = proba.row_labels(row);
            const auto values = proba.row_values(row);
            std::int32_t* row_places = places.data() + row * k;
            for (std::int64_t i = 0; i < k && row_places[i] >= 0; ++i)
                state.take_back(label_ids[row_places[i]], values[row_places[i]]);
            best.clear();
            for (std::int32_t place = 0; place < proba.n_candidates; ++place) {
                if (label_ids[place] < 0) continue;
                const double p = values[place];
                best.add(from_measure * state.gain(label_ids[place], p) + from_precision * p, place);
            }
            std::int64_t i = 0;
            for (const auto& [gain, place] : best.found()) {
                state.give(label_ids[place], values[place]);
                sum_proba += values[place];
                gains[row * k + i] = gain;
                row_places[i++] = place;
            }
        }
        ++result.n_passes;
        result.objective = goal.mix * label_share * state.total() + from_precision * sum_proba / std::max(n_given, 1.0);
        // Gains of the first pass are made against rows that had nothing yet: it never ends the ascent.
        if (result.n_passes > 1 && result.objective - before <= goal.tolerance * std::abs(result.objective)) break;
        before = result.objective;
    }
    result.chosen = Chosen(proba.n_rows, k);
    for (std::int64_t i = 0; i < proba.n_rows * k; ++i)
        if (places[i] >= 0) result.chosen.set(i, proba.row_labels(i / k)[places[i]], gains[i], places[i]);
    return result;
}

}  // namespace

Ascent ascend(const CandidatesView& proba, std::span<const double> positives, const Goal& goal, Control& control) {
    const auto n_occurring = std::ranges::count_if(positives, [](double expected) { return expected > 0.0; });
    const double label_share = 1.0 / static_cast<double>(std::max<std::int64_t>(n_occurring, 1));
    if (goal.measure == Measure::kCoverage) return ascend_with(Coverage(positives), proba, label_share, goal, control);
    return ascend_with(MacroF1(positives), proba, label_share, goal, control);
}

}  // namespace longtail
