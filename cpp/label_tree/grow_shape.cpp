#include "label_tree/grow_shape.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/parallel_for.hpp"
#include "label_tree/k_means.hpp"
#include "label_tree/two_means.hpp"

namespace longtail::label_tree {
namespace {

struct Group {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t n_leaves = 1;  // balanced: nodes over labels that this group becomes
    std::int32_t depth = 0;

    std::int64_t size() const { return end - begin; }
};

// The children of a node with n_leaves leaves below it: as even as possible over the levels that are needed.
std::int64_t balanced_fan_out(std::int64_t n_leaves, std::int64_t fan_out) {
    if (n_leaves <= fan_out) return n_leaves;
    std::int64_t reach = fan_out;
    int n_levels = 1;
    for (; reach < n_leaves; ++n_levels) reach *= fan_out;
    const double even = std::pow(static_cast<double>(n_leaves), 1.0 / n_levels);
    return std::min<std::int64_t>(fan_out, static_cast<std::int64_t>(std::ceil(even - 1e-9)));
}

class Grower {
public:
    Grower(const CsrView& vectors, std::span<const std::int32_t> label_ids, const ShapeConfig& config,
           std::uint64_t seed)
        : vectors_(vectors), config_(config), seed_(seed), label_ids_(label_ids.begin(), label_ids.end()) {}

    Shape grow(int n_threads, Control& control) {
        std::vector<std::unique_ptr<TwoMeans>> two_means(n_threads);
        std::vector<std::unique_ptr<KMeans>> k_means(n_threads);
        const std::int64_t n_labels = static_cast<std::int64_t>(label_ids_.size());
        std::vector<Group> level{{0, n_labels, (n_labels + config_.max_leaf - 1) / config_.max_leaf, 0}};
        Shape shape;
        std::int64_t n_nodes = 1;
        while (!level.empty()) {
            std::vector<std::vector<Group>> children(level.size());
            const std::int64_t first_id = static_cast<std::int64_t>(shape.child_indptr.size()) - 1;
            parallel_for(static_cast<std::int64_t>(level.size()), n_threads, control, [&](std::int64_t at, int worker) {
                if (!two_means[worker]) two_means[worker] = std::make_unique<TwoMeans>(vectors_, config_);
                Random random(seed_, static_cast<std::uint64_t>(first_id + at));
                if (ends_here(level[at])) return;
                if (config_.clustering == Clustering::k_means) {
                    if (!k_means[worker]) k_means[worker] = std::make_unique<KMeans>(vectors_, config_);
                    cluster(level[at], *k_means[worker], random, children[at]);
                }
                if (children[at].size() < 2) {
                    children[at].clear();
                    const std::int64_t n_leaves = std::max<std::int64_t>(level[at].n_leaves, 2);
                    halve(level[at].begin, level[at].end, n_leaves, balanced_fan_out(n_leaves, config_.fan_out),
                          level[at].depth + 1, *two_means[worker], random, children[at]);
                }
            });
            std::vector<Group> next;
            for (std::size_t at = 0; at < level.size(); ++at) {
                if (children[at].empty()) {
                    for (std::int64_t i = level[at].begin; i < level[at].end; ++i)
                        shape.child_ids.push_back(~label_ids_[i]);
                } else {
                    for (const Group& child : children[at]) {
                        if (child.size() == 1) {  // a label by itself needs no node
                            shape.child_ids.push_back(~label_ids_[child.begin]);
                            continue;
                        }
                        shape.child_ids.push_back(static_cast<std::int32_t>(n_nodes++));
                        next.push_back(child);
                    }
                }
                shape.child_indptr.push_back(static_cast<std::int64_t>(shape.child_ids.size()));
            }
            level = std::move(next);
        }
        return shape;
    }

private:
    bool ends_here(const Group& group) const {
        if (group.size() > kMaxChildren) return false;
        if (group.size() <= config_.max_leaf) return true;
        return config_.clustering == Clustering::k_means && config_.max_depth > 0 && group.depth >= config_.max_depth;
    }

    void cluster(const Group& group, KMeans& k_means, Random& random, std::vector<Group>& out) {
        const std::int32_t n_clusters =
            static_cast<std::int32_t>(std::min<std::int64_t>(config_.fan_out, group.size()));
        const auto labels = std::span(label_ids_).subspan(group.begin, group.size());
        std::int64_t begin = group.begin;
        for (const std::int64_t end : k_means.split(labels, n_clusters, random)) {
            out.push_back({begin, group.begin + end,
                           (group.begin + end - begin + config_.max_leaf - 1) / config_.max_leaf, group.depth + 1});
            begin = group.begin + end;
        }
    }

    // Divide labels with n_leaves leaves into n_parts parts, by halves.
    void halve(std::int64_t begin, std::int64_t end, std::int64_t n_leaves, std::int64_t n_parts, std::int32_t depth,
               TwoMeans& two_means, Random& random, std::vector<Group>& out) {
        if (n_parts == 1) {
            out.push_back({begin, end, n_leaves, depth});
            return;
        }
        const std::int64_t first_parts = n_parts / 2;
        const std::int64_t first_leaves = n_leaves * first_parts / n_parts;
        const std::int64_t middle = begin + (end - begin) * first_leaves / n_leaves;
        two_means.split(std::span(label_ids_).subspan(begin, end - begin), middle - begin, random);
        halve(begin, middle, first_leaves, first_parts, depth, two_means, random, out);
        halve(middle, end, n_leaves - first_leaves, n_parts - first_parts, depth, two_means, random, out);
    }

    const CsrView& vectors_;
    const ShapeConfig& config_;
    std::uint64_t seed_;
    std::vector<std::int32_t> label_ids_;
};

}  // namespace

Shape grow_shape(const CsrView& vectors, std::span<const std::int32_t> label_ids, const ShapeConfig& config,
                 std::uint64_t seed, int n_threads, Control& control) {
    if (label_ids.empty()) throw std::invalid_argument("a label tree needs at least one label");
    return Grower(vectors, label_ids, config, seed).grow(n_threads, control);
}

}  // namespace longtail::label_tree
