#include "label_tree/beam.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/lanes.hpp"
#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "label_tree/collect_labels.hpp"
#include "label_tree/node_margins.hpp"

namespace longtail::label_tree {
namespace {

constexpr std::int64_t kRowsPerBlock = 1024;
constexpr float kLeastLog = -1e30F;

struct Visit {
    std::int32_t node;
    std::int32_t row;  // within the block
    float log_probability;
};

bool comes_before(const ScoredLabel& a, const ScoredLabel& b) { return ranks_before(a, b); }

// Beam search of one thread over blocks of rows. All rows of a block that visit a node are scored together, so that
// finding the node's features is paid once.
class BeamSearch {
public:
    BeamSearch(const CsrView& x, const ForestView& forest, const BeamConfig& config)
        : x_(x), forest_(forest), config_(config), margins_(x, forest) {}

    // Labels go to labels.take(row, label, log_probability), or those of a leaf to labels.take_all if there is such.
    // With `routes`, nodes over labels are only recorded.
    template <class Labels>
    void search(std::int64_t first_row, std::int64_t last_row, std::int32_t root, Labels& labels,
                std::vector<Visit>* routes) {
        first_row_ = first_row;
        const std::int64_t n_rows = last_row - first_row;
        next_.resize(std::max<std::size_t>(next_.size(), n_rows));
        visits_.clear();
        for (std::int64_t row = 0; row < n_rows; ++row) visits_.push_back({root, static_cast<std::int32_t>(row), 0.0F});
        while (!visits_.empty()) {
            for (std::size_t begin = 0; begin < visits_.size();) {
                std::size_t end = begin;
                while (end < visits_.size() && visits_[end].node == visits_[begin].node) ++end;
                score_node(std::span(visits_).subspan(begin, end - begin), labels, routes);
                begin = end;
            }
            visits_.clear();
            for (std::int64_t row = 0; row < n_rows; ++row) {
                auto& candidates = next_[row];
                const std::size_t width = std::min<std::size_t>(candidates.size(), config_.width);
                if (width < candidates.size())
                    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(width),
                                     candidates.end(), comes_before);
                for (std::size_t i = 0; i < width; ++i)
                    visits_.push_back({candidates[i].label_id, static_cast<std::int32_t>(row), candidates[i].score});
                candidates.clear();
            }
            std::sort(visits_.begin(), visits_.end(), [](const Visit& a, const Visit& b) {
                return a.node < b.node || (a.node == b.node && a.row < b.row);
            });
        }
    }

private:
    template <class Labels>
    void score_node(std::span<const Visit> visits, Labels& labels, std::vector<Visit>* routes) {
        const std::int64_t node = visits[0].node;
        const auto children = forest_.shape.children(node);
        if (routes) {
            bool has_labels = false;
            bool has_nodes = false;
            for (const std::int32_t child : children) (is_label(child) ? has_labels : has_nodes) = true;
            if (has_labels) routes->insert(routes->end(), visits.begin(), visits.end());
            if (!has_nodes) return;
        }
        check_once(forest_, node);
        std::int64_t n_words = 0;
        for (const Visit& visit : visits) n_words += x_.row_size(first_row_ + visit.row);
        const std::int64_t first_edge = forest_.shape.child_indptr[node];
        [[maybe_unused]] const bool is_leaf =
            !children.empty() && std::all_of(children.begin(), children.end(), is_label);
        margins_.open(node, n_words);
        for (const Visit& visit : visits) {
            const auto sums = margins_.of_row(first_row_ + visit.row);
            logs_.resize(sums.size());
            for (std::size_t edge = 0; edge < sums.size(); ++edge) {
                const float scale = forest_.scales.empty() ? 1.0F : forest_.scales[first_edge + edge];
                logs_[edge] = forest_.biases[first_edge + edge] + scale * sums[edge];
            }
            config_.link.to_log_probabilities(logs_);
            if constexpr (requires { &Labels::take_all; })
                if (is_leaf) {
                    logs_.resize((sums.size() + kLanes - 1) / kLanes * kLanes, -std::numeric_limits<float>::infinity());
                    labels.take_all(visit.row, children, logs_, config_.path_weight, visit.log_probability);
                    continue;
                }
            for (std::size_t edge = 0; edge < children.size(); ++edge) {
                if (!is_label(children[edge]))
                    next_[visit.row].push_back({visit.log_probability + logs_[edge], children[edge]});
                else
                    labels.take(visit.row, ~children[edge], config_.path_weight * visit.log_probability + logs_[edge]);
            }
        }
        margins_.close();
    }

    const CsrView& x_;
    const ForestView& forest_;
    const BeamConfig& config_;
    NodeMargins margins_;
    std::int64_t first_row_ = 0;
    std::vector<Visit> visits_;
    std::vector<std::vector<ScoredLabel>> next_;  // inner children of each row, by log-probability
    std::vector<float> logs_;                     // of the children of a node
};

struct NoLabels {
    void take(std::int32_t, std::int32_t, float) {}
};

std::int64_t n_blocks(const CsrView& x) { return (x.n_rows + kRowsPerBlock - 1) / kRowsPerBlock; }

}  // namespace

float Link::log_probability(float margin) const {
    to_log_probabilities(std::span(&margin, 1));
    return margin;
}

void Link::to_log_probabilities(std::span<float> margins) const {
    // Margins of extreme rows may overflow; a NaN would break the order of candidates.
    const auto replace = [&](const auto& log_of) {
        for (float& margin : margins) {
            const float value = log_of(margin);
            margin = margin > kLeastLog && value > kLeastLog ? value : kLeastLog;
        }
    };
    const auto gap = [](float margin) { return std::max(0.0F, 1.0F - margin); };
    if (power == 0)
        replace([&](float margin) {
            const float z = slope * margin;
            return z > 0.0F ? -std::log1p(std::exp(-z)) : z - std::log1p(std::exp(z));
        });
    else if (power == 1)
        replace([&](float margin) { return -gap(margin); });
    else if (power == 2)
        replace([&](float margin) { return -gap(margin) * gap(margin); });
    else
        replace([&](float margin) { return -gap(margin) * gap(margin) * gap(margin); });
}

namespace {

// Give the labels of every row to a collector, of which each thread has one.
template <class Collector>
void search_all(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads, Control& control,
                const Collector& collector) {
    std::vector<BeamSearch> searches(n_threads, BeamSearch(x, forest, config));
    std::vector<Collector> collectors(n_threads, collector);
    parallel_for(n_blocks(x), n_threads, control, [&](std::int64_t block, int worker) {
        const std::int64_t first = block * kRowsPerBlock;
        const std::int64_t last = std::min(x.n_rows, first + kRowsPerBlock);
        Collector& labels = collectors[worker];
        labels.begin(last - first);
        for (const std::int32_t root : forest.roots) searches[worker].search(first, last, root, labels, nullptr);
        for (std::int64_t row = first; row < last; ++row) labels.write(row - first, row);
    });
}

}  // namespace

TopLabels predict_beam(const CsrView& x, const ForestView& forest, const BeamConfig& config, std::int32_t top_k,
                       int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    if (forest.roots.size() == 1) {
        search_all(x, forest, config, n_threads, control, BestScores(out, top_k));
        return out;
    }
    const auto write = [&](std::vector<ScoredLabel>& labels, std::int64_t row) {
        select_top_k(labels, std::span(out.label_ids).subspan(row * top_k, top_k),
                     std::span(out.scores).subspan(row * top_k, top_k));
    };
    search_all(x, forest, config, n_threads, control, MeanOverTrees(forest.roots.size(), write));
    return out;
}

ValuedLabels predict_beam_by_value(const CsrView& x, const ForestView& forest, const BeamConfig& config,
                                   const ValueTable& values, std::int32_t top_k, int n_threads, Control& control) {
    ValuedLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    out.values.resize(x.n_rows * top_k);
    if (forest.roots.size() == 1) {
        search_all(x, forest, config, n_threads, control, BestByValue(out, values, top_k));
        return out;
    }
    const auto write = [&](std::vector<ScoredLabel>& labels, std::int64_t row) {
        write_best_values(values, labels, out, row, top_k);
    };
    search_all(x, forest, config, n_threads, control, MeanOverTrees(forest.roots.size(), write));
    return out;
}

Routes route_rows(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads,
                  Control& control) {
    std::vector<BeamSearch> searches(n_threads, BeamSearch(x, forest, config));
    std::vector<std::vector<Visit>> blocks(n_blocks(x));
    parallel_for(n_blocks(x), n_threads, control, [&](std::int64_t block, int worker) {
        const std::int64_t first = block * kRowsPerBlock;
        const std::int64_t last = std::min(x.n_rows, first + kRowsPerBlock);
        NoLabels ignore;
        for (const std::int32_t root : forest.roots) searches[worker].search(first, last, root, ignore, &blocks[block]);
        blocks[block].shrink_to_fit();
    });
    Routes out;
    out.indptr.assign(forest.shape.n_nodes() + 1, 0);
    for (const auto& block : blocks)
        for (const Visit& visit : block) ++out.indptr[visit.node + 1];
    for (std::size_t i = 1; i < out.indptr.size(); ++i) out.indptr[i] += out.indptr[i - 1];
    out.row_ids.resize(out.indptr.back());
    std::vector<std::int64_t> at(out.indptr.begin(), out.indptr.end() - 1);
    for (std::size_t block = 0; block < blocks.size(); ++block)
        for (const Visit& visit : blocks[block])
            out.row_ids[at[visit.node]++] = static_cast<std::int32_t>(block * kRowsPerBlock) + visit.row;
    return out;
}

}  // namespace longtail::label_tree
