#include "label_tree/grow_shape.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>
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

// Labels of a node that are still to be divided into n_parts children.
struct Piece {
    Group group;
    std::int64_t n_parts = 1;
    std::int64_t node = 0;  // within the level
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
        two_means_.resize(n_threads);
        k_means_.resize(n_threads);
        const std::int64_t n_labels = static_cast<std::int64_t>(label_ids_.size());
        std::vector<Group> level{{0, n_labels, (n_labels + config_.max_leaf - 1) / config_.max_leaf, 0}};
        Shape shape;
        std::int64_t n_nodes = 1;
        while (!level.empty()) {
            std::vector<std::vector<Group>> children(level.size());
            if (config_.clustering == Clustering::k_means) cluster_all(level, children, n_threads, control);
            std::vector<Piece> pieces;
            for (std::size_t at = 0; at < level.size(); ++at) {
                if (ends_here(level[at]) || children[at].size() > 1) continue;
                children[at].clear();
                const std::int64_t n_leaves = std::max<std::int64_t>(level[at].n_leaves, 2);
                pieces.push_back({{level[at].begin, level[at].end, n_leaves, level[at].depth + 1},
                                  balanced_fan_out(n_leaves, config_.fan_out),
                                  static_cast<std::int64_t>(at)});
            }
            while (std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.n_parts > 1; }))
                pieces = halved(pieces, n_threads, control);
            for (const Piece& piece : pieces) children[piece.node].push_back(piece.group);
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

    Random random_of(const Group& group) const {
        return Random(seed_, static_cast<std::uint64_t>(group.begin) << 32 | static_cast<std::uint64_t>(group.end));
    }

    void cluster_all(const std::vector<Group>& level, std::vector<std::vector<Group>>& children, int n_threads,
                     Control& control) {
        parallel_for(static_cast<std::int64_t>(level.size()), n_threads, control, [&](std::int64_t at, int worker) {
            if (ends_here(level[at])) return;
            if (!k_means_[worker]) k_means_[worker] = std::make_unique<KMeans>(vectors_);
            cluster(level[at], *k_means_[worker], children[at]);
        });
    }

    void cluster(const Group& group, KMeans& k_means, std::vector<Group>& out) {
        const std::int32_t n_clusters =
            static_cast<std::int32_t>(std::min<std::int64_t>(config_.fan_out, group.size()));
        const auto labels = std::span(label_ids_).subspan(group.begin, group.size());
        Random random = random_of(group);
        std::int64_t begin = group.begin;
        for (const std::int64_t end : k_means.split(labels, n_clusters, random)) {
            out.push_back({begin, group.begin + end,
                           (group.begin + end - begin + config_.max_leaf - 1) / config_.max_leaf, group.depth + 1});
            begin = group.begin + end;
        }
    }

    // Every piece of several parts becomes two, in its place. Halves of one node are tasks of their own, so that the
    // root, which costs as much as any other level, does not keep one thread busy and the others waiting.
    std::vector<Piece> halved(const std::vector<Piece>& pieces, int n_threads, Control& control) {
        std::vector<Piece> out;
        std::vector<std::pair<const Piece*, std::int64_t>> todo;  // piece, middle
        for (const Piece& piece : pieces) {
            const auto& [group, n_parts, node] = piece;
            if (n_parts == 1) {
                out.push_back(piece);
                continue;
            }
            const std::int64_t first_parts = n_parts / 2;
            const std::int64_t first_leaves = group.n_leaves * first_parts / n_parts;
            const std::int64_t middle = group.begin + group.size() * first_leaves / group.n_leaves;
            out.push_back({{group.begin, middle, first_leaves, group.depth}, first_parts, node});
            out.push_back(
                {{middle, group.end, group.n_leaves - first_leaves, group.depth}, n_parts - first_parts, node});
            todo.emplace_back(&piece, middle);
        }
        parallel_for(static_cast<std::int64_t>(todo.size()), n_threads, control, [&](std::int64_t at, int worker) {
            if (!two_means_[worker]) two_means_[worker] = std::make_unique<TwoMeans>(vectors_);
            const Group& group = todo[at].first->group;
            Random random = random_of(group);
            two_means_[worker]->split(std::span(label_ids_).subspan(group.begin, group.size()),
                                      todo[at].second - group.begin, random);
        });
        return out;
    }

    const CsrView& vectors_;
    const ShapeConfig& config_;
    std::uint64_t seed_;
    std::vector<std::int32_t> label_ids_;
    std::vector<std::unique_ptr<TwoMeans>> two_means_;  // one per thread, made on first use
    std::vector<std::unique_ptr<KMeans>> k_means_;
};

}  // namespace

Shape grow_shape(const CsrView& vectors, std::span<const std::int32_t> label_ids, const ShapeConfig& config,
                 std::uint64_t seed, int n_threads, Control& control) {
    if (label_ids.empty()) throw std::invalid_argument("a label tree needs at least one label");
    return Grower(vectors, label_ids, config, seed).grow(n_threads, control);
}

}  // namespace longtail::label_tree
