// Rough solutions over coarse rows: how they are kept, and how training goes on from them.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "linear/working_set.hpp"

namespace longtail::linear {

template <class Rows>
std::vector<RoughSolution> WorkingSetTrainer<Rows>::train_roughly(std::span<const std::int32_t> label_ids) {
    std::vector<RoughSolution> found(static_cast<std::size_t>(labels_.positives.n_rows));
    rough_ = &found;
    train(label_ids);
    rough_ = nullptr;
    return found;
}

// Hand a label over.
template <class Rows>
void WorkingSetTrainer<Rows>::finish(Lane& lane) {
    if (rough_ == nullptr) {
        if (!lane.record.history.empty()) lane.record.history.back().objective = lane.record.last_objective;
        sink_.put(lane.label, lane.weights.data(), rows_.n_features(), std::move(lane.record));
        control_.add_done(1);
        return;
    }
    drop_idle(lane);
    lane.candidates = lane.near;
    drop_members(lane);
    RoughSolution& rough = (*rough_)[lane.label];
    rough.row_ids = lane.problem.row_ids;
    rough.betas.assign(lane.problem.betas.begin(), lane.problem.betas.end());
    for (const Candidate& candidate : lane.candidates) rough.row_ids.push_back(candidate.row_id);
    rough.betas.resize(rough.row_ids.size(), 0.0F);
    rough.record = std::move(lane.record);
}

// Put a label's rough solution into its lane, and solve its set.
template <class Rows>
void WorkingSetTrainer<Rows>::resume(Lane& lane, int at, const RoughSolution& rough) {
    const std::int64_t n_positives = labels_.positives.row_size(lane.label);
    for (std::int64_t i = 0; i < std::ssize(rough.row_ids); ++i) {
        const bool is_positive = i < n_positives;
        lane.problem.append(rough.row_ids[i], is_positive ? 1.0F : -1.0F,
                            static_cast<float>(is_positive ? lane.start.positive_cost : config_.cost), 0.0F);
        lane.problem.betas.back() = rough.betas[i];
    }
    lane.sorted_rows = rough.row_ids;
    std::sort(lane.sorted_rows.begin(), lane.sorted_rows.end());
    lane.record = rough.record;
    lane.record.converged = true;
    lane.at_start = false;
    lane.by_rows = true;
    lane.is_resumed = true;
    solve(lane, false);
    shared_scales_[at / kLanes][at % kLanes] = 0.0F;
    floors_[at / kLanes][at % kLanes] = -1.0F - lane.reach;
}

template std::vector<RoughSolution> WorkingSetTrainer<SparseRows>::train_roughly(std::span<const std::int32_t>);
template void WorkingSetTrainer<SparseRows>::finish(Lane&);
template void WorkingSetTrainer<SparseRows>::resume(Lane&, int, const RoughSolution&);
template std::vector<RoughSolution> WorkingSetTrainer<DenseRows>::train_roughly(std::span<const std::int32_t>);
template void WorkingSetTrainer<DenseRows>::finish(Lane&);
template void WorkingSetTrainer<DenseRows>::resume(Lane&, int, const RoughSolution&);

}  // namespace longtail::linear
