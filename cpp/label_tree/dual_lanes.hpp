#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/control.hpp"
#include "base/lanes.hpp"
#include "base/random.hpp"
#include "label_tree/node_rows.hpp"

namespace longtail::label_tree {

enum class Loss { squared_hinge, logistic };

struct SolverConfig {
    Loss loss{};
    float cost{};       // C
    float tolerance{};  // largest projected gradient of the dual that is left
    std::int32_t max_passes{};
    float bias{};  // value of the constant feature
};

// Minimises ½‖w‖² + Σ C·loss(y·w·x), each loss times the weight of its row, for up to sixteen siblings at once, by dual coordinate descent (Hsieh et al. 2008;
// Yu, Huang and Lin 2011): one walk over a row gives the margins of all lanes, a second one their updates.
class DualLanes {
public:
    explicit DualLanes(const SolverConfig& config) : config_(config) {}

    // Lane i is positive on rows whose bit i is set; their losses count positive_costs[i] times.
    void solve(const NodeRows& rows, std::span<const std::uint16_t> members, int n_lanes,
               std::span<const float> positive_costs, Random& random, Control& control);

    const AlignedVector<Lanes>& weights() const { return weights_; }  // of the node's local features
    const Lanes& bias() const { return bias_; }                       // weight of the constant feature
    std::int64_t n_visits() const { return n_visits_; }

private:
    template <class LossKind>
    void run(const NodeRows& rows, std::span<const std::uint16_t> members, Random& random, Control& control);
    template <class LossKind>
    float visit(const NodeRows& rows, std::int64_t row, std::uint32_t positives);

    Lanes margins(const NodeRows& rows, std::int64_t row) const;
    void add(const NodeRows& rows, std::int64_t row, const Lanes& scale);

    const SolverConfig& config_;
    AlignedVector<Lanes> weights_;
    AlignedVector<Lanes> alphas_;
    Lanes bias_{};
    Lanes live_{};  // 1 in lanes that are used
    Lanes positive_costs_{};
    std::vector<std::int32_t> active_;
    std::int64_t n_visits_ = 0;
};

}  // namespace longtail::label_tree
