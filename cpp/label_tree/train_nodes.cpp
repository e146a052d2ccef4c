#include "label_tree/train_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "base/parallel_for.hpp"
#include "base/random.hpp"

namespace longtail::label_tree {
namespace {

struct Entry {
    std::int32_t feature;  // local
    std::uint16_t edge;
    float weight;
};

// Everything one thread needs.
class NodeTrainer {
public:
    NodeTrainer(const TrainData& data, const ShapeView& shape, const TrainConfig& config)
        : data_(data),
          shape_(shape),
          config_(config),
          collector_(data.x, data.rows_of_labels, shape, data.row_weights),
          solver_(config_.solver) {}

    EdgeWeights train(std::int64_t node, std::span<const std::int32_t> extra, std::uint64_t seed, Control& control) {
        Random random(seed, static_cast<std::uint64_t>(node));
        collector_.collect(node, extra, random, rows_);
        const auto children = shape_.children(node);
        EdgeWeights out;
        entries_.clear();
        for (std::int64_t group = 0; group < rows_.n_groups; ++group) {
            const auto first = static_cast<std::size_t>(group) * kLanes;
            const int n_lanes = static_cast<int>(std::min<std::size_t>(kLanes, children.size() - first));
            std::vector<float> costs(n_lanes, 1.0F);
            for (int lane = 0; lane < n_lanes; ++lane)
                if (is_label(children[first + lane]) && !data_.positive_weights.empty())
                    costs[lane] = data_.positive_weights[~children[first + lane]];
            solver_.solve(rows_, rows_.group(group), n_lanes, costs, random, control);
            keep(static_cast<std::uint16_t>(first), n_lanes);
            for (int lane = 0; lane < n_lanes; ++lane) out.biases.push_back(solver_.bias()[lane] * config_.solver.bias);
        }
        lay_out(out);
        return out;
    }

private:
    void keep(std::uint16_t first_edge, int n_lanes) {
        const auto& weights = solver_.weights();
        for (std::size_t feature = 0; feature < weights.size(); ++feature) {
            if (!any_above(abs_lanes(weights[feature]), config_.prune_below)) continue;
            for (int lane = 0; lane < n_lanes; ++lane)
                if (std::abs(weights[feature][lane]) > config_.prune_below)
                    entries_.push_back({static_cast<std::int32_t>(feature),
                                        static_cast<std::uint16_t>(first_edge + lane), weights[feature][lane]});
        }
    }

    // Entries arrive group by group; sort them by feature id, edges in order within.
    void lay_out(EdgeWeights& out) {
        const std::size_t n_local = rows_.features.size();
        counts_.assign(n_local, 0);
        for (const Entry& entry : entries_) ++counts_[entry.feature];
        order_.clear();
        for (std::size_t local = 0; local < n_local; ++local)
            if (counts_[local] > 0) order_.push_back(static_cast<std::int32_t>(local));
        std::sort(order_.begin(), order_.end(),
                  [&](std::int32_t a, std::int32_t b) { return rows_.features[a] < rows_.features[b]; });
        std::int32_t at = 0;
        for (const std::int32_t local : order_) {
            out.feature_ids.push_back(rows_.features[local]);
            out.row_begins.push_back(at);
            const std::int32_t n = counts_[local];
            counts_[local] = at;
            at += n;
        }
        out.edges.resize(at);
        out.weights.resize(at);
        for (const Entry& entry : entries_) {
            const std::int32_t place = counts_[entry.feature]++;
            out.edges[place] = entry.edge;
            out.weights[place] = entry.weight;
        }
        out.feature_indptr.push_back(static_cast<std::int64_t>(out.feature_ids.size()));
        out.entry_begins.push_back(at);
    }

    const TrainData& data_;
    const ShapeView& shape_;
    const TrainConfig& config_;
    RowCollector collector_;
    DualLanes solver_;
    NodeRows rows_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> counts_;
    std::vector<std::int32_t> order_;
};

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
    from = {};
}

}  // namespace

EdgeWeights train_nodes(const TrainData& data, const ShapeView& shape, std::span<const std::int32_t> node_ids,
                        const TrainConfig& config, std::uint64_t seed, int n_threads, Control& control) {
    const std::int64_t n_nodes = static_cast<std::int64_t>(node_ids.size());
    std::vector<EdgeWeights> parts(n_nodes);
    std::vector<std::unique_ptr<NodeTrainer>> trainers(n_threads);
    parallel_for(n_nodes, n_threads, control, [&](std::int64_t at, int worker) {
        if (!trainers[worker]) trainers[worker] = std::make_unique<NodeTrainer>(data, shape, config);
        const auto extra =
            data.extra_rows.n_rows > 0 ? data.extra_rows.row_labels(at) : std::span<const std::int32_t>{};
        parts[at] = trainers[worker]->train(node_ids[at], extra, seed, control);
        control.add_done(1);
    });
    EdgeWeights out;
    for (auto& part : parts) {
        out.feature_indptr.push_back(out.feature_indptr.back() + part.feature_indptr.back());
        out.entry_begins.push_back(out.entry_begins.back() + part.entry_begins.back());
        append(out.feature_ids, part.feature_ids);
        append(out.row_begins, part.row_begins);
        append(out.edges, part.edges);
        append(out.weights, part.weights);
        append(out.biases, part.biases);
    }
    return out;
}

}  // namespace longtail::label_tree
