#include "linear/sink.hpp"

namespace longtail::linear {

OvaResult LabelSink::finish() {
    OvaResult result;
    OvaStatistics& statistics = result.statistics;
    const std::size_t n_labels = records_.size();
    std::size_t n_weights = 0;
    for (const auto& ids : feature_ids_) n_weights += ids.size();
    result.feature_ids.reserve(n_weights);
    result.weights.reserve(n_weights);
    result.indptr.push_back(0);
    statistics.history_indptr.push_back(0);
    for (std::size_t label = 0; label < n_labels; ++label) {
        result.feature_ids.insert(result.feature_ids.end(), feature_ids_[label].begin(), feature_ids_[label].end());
        result.weights.insert(result.weights.end(), weights_[label].begin(), weights_[label].end());
        result.indptr.push_back(static_cast<std::int64_t>(result.weights.size()));
        feature_ids_[label] = {};
        weights_[label] = {};
        const LabelRecord& record = records_[label];
        statistics.iterations.push_back(record.iterations);
        statistics.cg_steps.push_back(record.cg_steps);
        statistics.converged.push_back(record.converged ? 1 : 0);
        statistics.seconds.push_back(static_cast<float>(record.seconds));
        statistics.first_objective.push_back(record.first_objective);
        statistics.last_objective.push_back(record.last_objective);
        statistics.gradient_ratio.push_back(record.gradient_ratio);
        statistics.distance.push_back(record.distance);
        for (const Iteration& iteration : record.history) {
            statistics.objectives.push_back(iteration.objective);
            statistics.active_rows.push_back(iteration.active_rows);
            statistics.step_sizes.push_back(iteration.step_size);
            statistics.step_seconds.push_back(iteration.seconds);
            statistics.step_cg_steps.push_back(iteration.cg_steps);
        }
        statistics.history_indptr.push_back(static_cast<std::int64_t>(statistics.objectives.size()));
    }
    result.biases = std::move(biases_);
    return result;
}

}  // namespace longtail::linear
