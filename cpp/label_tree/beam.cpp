#include "label_tree/beam.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/parallel_for.hpp"
#include "base/top_k.hpp"
#include "decisions/best_values.hpp"

namespace longtail::label_tree {
namespace {

constexpr std::int64_t kRowsPerBlock = 1024;
// So many rows pay for an array over all features; fewer find the features of a node without it.
constexpr std::int64_t kRowsToScatter = 64;
// Nor does a model with few weights pay for one: an id near 2^31 in its file would ask for 8 GiB.
constexpr std::int64_t kFeaturesPerStored = 4;
constexpr std::int64_t kFeaturesToScatter = 1 << 22;
constexpr float kLeastLog = -1e30F;

struct Visit {
    std::int32_t node;
    std::int32_t row;  // within the block
    float log_probability;
};

bool comes_before(const ScoredLabel& a, const ScoredLabel& b) { return ranks_before(a, b); }

// Size of an array over the features that have a weight; 0 if it would not pay.
std::int64_t n_places(const CsrView& x, const ForestView& forest) {
    if (x.n_rows < kRowsToScatter) return 0;
    std::int64_t n_used = 0;
    for (std::size_t node = 0; node + 1 < forest.feature_indptr.size(); ++node)
        if (forest.feature_indptr[node] < forest.feature_indptr[node + 1])
            n_used = std::max<std::int64_t>(n_used, forest.feature_ids[forest.feature_indptr[node + 1] - 1] + 1);
    const std::int64_t n_stored = static_cast<std::int64_t>(forest.feature_ids.size());
    return n_used <= std::max(kFeaturesToScatter, kFeaturesPerStored * n_stored) ? n_used : 0;
}

// Beam search of one thread over blocks of rows. All rows of a block that visit a node are scored together, so that
// finding the node's features is paid once.
class BeamSearch {
public:
    BeamSearch(const CsrView& x, const ForestView& forest, const BeamConfig& config)
        : x_(x), forest_(forest), config_(config), n_places_(n_places(x, forest)) {}

    // Labels go to take_label(row, label, log_probability). With `routes`, nodes over labels are
    // only recorded.
    template <class TakeLabel>
    void search(std::int64_t first_row, std::int64_t last_row, std::int32_t root, TakeLabel&& take_label,
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
                score_node(std::span(visits_).subspan(begin, end - begin), take_label, routes);
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
    template <class TakeLabel>
    void score_node(std::span<const Visit> visits, TakeLabel& take_label, std::vector<Visit>* routes) {
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
        const std::int64_t first_feature = forest_.feature_indptr[node];
        const auto features =
            forest_.feature_ids.subspan(first_feature, forest_.feature_indptr[node + 1] - first_feature);
        std::int64_t n_words = 0;
        for (const Visit& visit : visits) n_words += x_.row_size(first_row_ + visit.row);
        const std::int64_t steps = std::bit_width(features.size());
        const bool is_scattered = n_places_ > 0 && n_words * steps > 2 * static_cast<std::int64_t>(features.size());
        if (is_scattered) {
            if (places_.empty()) places_.resize(n_places_, 0);
            for (std::size_t i = 0; i < features.size(); ++i) places_[features[i]] = static_cast<std::int32_t>(i) + 1;
        }
        const std::int64_t first_edge = forest_.shape.child_indptr[node];
        for (const Visit& visit : visits) {
            margins(node, features, is_scattered, first_row_ + visit.row);
            for (std::size_t edge = 0; edge < children.size(); ++edge) {
                const float scale = forest_.scales.empty() ? 1.0F : forest_.scales[first_edge + edge];
                const float margin = forest_.biases[first_edge + edge] + scale * sums_[edge];
                const float own = config_.link.log_probability(margin);
                if (!is_label(children[edge]))
                    next_[visit.row].push_back({visit.log_probability + own, children[edge]});
                else
                    take_label(visit.row, ~children[edge], config_.path_weight * visit.log_probability + own);
            }
        }
        if (is_scattered)
            for (const std::int32_t feature : features) places_[feature] = 0;
    }

    void margins(std::int64_t node, std::span<const std::int32_t> features, bool is_scattered, std::int64_t row) {
        sums_.assign(forest_.shape.child_indptr[node + 1] - forest_.shape.child_indptr[node], 0.0F);
        const auto words = x_.row_indices(row);
        const auto values = x_.row_values(row);
        const std::int32_t* from = features.data();
        const std::int32_t* const end = from + features.size();
        const bool is_merged = words.size() * std::bit_width(features.size()) > features.size();
        for (std::size_t i = 0; i < words.size(); ++i) {
            std::int64_t place;
            if (is_scattered) {
                if (words[i] >= static_cast<std::int64_t>(places_.size())) break;
                place = places_[words[i]] - 1;
                if (place < 0) continue;
            } else {
                if (is_merged)
                    while (from != end && *from < words[i]) ++from;
                else
                    from = std::lower_bound(from, end, words[i]);
                if (from == end) break;
                if (*from != words[i]) continue;
                place = from - features.data();
            }
            add(node, place, static_cast<std::int64_t>(features.size()), values[i]);
        }
    }

    void add(std::int64_t node, std::int64_t place, std::int64_t n_features, float value) {
        const std::int64_t base = forest_.entry_begins[node];
        const std::int32_t* begins = forest_.row_begins.data() + forest_.feature_indptr[node];
        const std::int64_t begin = base + begins[place];
        const std::int64_t end = place + 1 < n_features ? base + begins[place + 1] : forest_.entry_begins[node + 1];
        if (forest_.scales.empty())
            for (std::int64_t i = begin; i < end; ++i) sums_[forest_.edges[i]] += value * forest_.weights[i];
        else
            for (std::int64_t i = begin; i < end; ++i)
                sums_[forest_.edges[i]] += value * static_cast<float>(forest_.codes[i]);
    }

    const CsrView& x_;
    const ForestView& forest_;
    const BeamConfig& config_;
    std::int64_t n_places_;
    std::int64_t first_row_ = 0;
    std::vector<std::int32_t> places_;  // of the current node's features, plus one; zero between nodes
    std::vector<Visit> visits_;
    std::vector<std::vector<ScoredLabel>> next_;  // inner children of each row, by log-probability
    std::vector<float> sums_;
};

// Collects the labels of a block over all trees.
class Ranking {
public:
    explicit Ranking(std::size_t n_trees) : n_trees_(n_trees) {}

    void begin(std::int64_t n_rows) {
        found_.resize(n_rows);
        for (auto& row : found_) row.clear();
    }
    void take(std::int32_t row, std::int32_t label, float score) { found_[row].push_back({score, label}); }

    // The labels of a row, each once.
    std::vector<ScoredLabel>& finish(std::int64_t row) {
        auto& found = found_[row];
        if (n_trees_ > 1) add_up(found);
        return found;
    }

private:
    // One entry per label, the mean over the trees; a tree that does not reach a label counts as zero. A small hash
    // table stays in the cache, and one row does not pay for an array over all labels.
    void add_up(std::vector<ScoredLabel>& found) {
        const std::size_t n_slots = std::bit_ceil(2 * found.size() + 1);
        const int shift = 32 - std::countr_zero(n_slots);
        slots_.assign(n_slots, -1);
        std::int32_t n = 0;
        for (const ScoredLabel one : found) {
            std::size_t slot = (static_cast<std::uint32_t>(one.label_id) * 0x9E3779B1U) >> shift;
            while (slots_[slot] >= 0 && found[slots_[slot]].label_id != one.label_id) slot = (slot + 1) % n_slots;
            if (slots_[slot] >= 0) {
                found[slots_[slot]].score += one.score;
            } else {
                slots_[slot] = n;
                found[n++] = one;
            }
        }
        found.resize(n);
        for (ScoredLabel& one : found) one.score /= static_cast<float>(n_trees_);
    }

    std::size_t n_trees_;
    std::vector<std::vector<ScoredLabel>> found_;
    std::vector<std::int32_t> slots_;  // places in the found labels of a row, or -1
};

std::int64_t n_blocks(const CsrView& x) { return (x.n_rows + kRowsPerBlock - 1) / kRowsPerBlock; }

}  // namespace

float Link::log_probability(float margin) const {
    if (!(margin > kLeastLog)) return kLeastLog;
    float value;
    if (power == 0) {
        const float z = slope * margin;
        value = z > 0.0F ? -std::log1p(std::exp(-z)) : z - std::log1p(std::exp(z));
    } else {
        const float gap = std::max(0.0F, 1.0F - margin);
        value = power == 1 ? -gap : power == 2 ? -gap * gap : -gap * gap * gap;
    }
    // Margins of extreme rows may overflow; a NaN would break the order of candidates.
    return value > kLeastLog ? value : kLeastLog;
}

namespace {

// Call write(row, labels) with the labels of every row.
template <class Write>
void search_all(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads, Control& control,
                const Write& write) {
    std::vector<BeamSearch> searches(n_threads, BeamSearch(x, forest, config));
    std::vector<Ranking> rankings(n_threads, Ranking(forest.roots.size()));
    parallel_for(n_blocks(x), n_threads, control, [&](std::int64_t block, int worker) {
        const std::int64_t first = block * kRowsPerBlock;
        const std::int64_t last = std::min(x.n_rows, first + kRowsPerBlock);
        auto& ranking = rankings[worker];
        ranking.begin(last - first);
        for (const std::int32_t root : forest.roots)
            searches[worker].search(
                first, last, root,
                [&](std::int32_t row, std::int32_t label, float log_probability) {
                    ranking.take(row, label, std::exp(log_probability));
                },
                nullptr);
        for (std::int64_t row = first; row < last; ++row) write(row, ranking.finish(row - first));
    });
}

}  // namespace

TopLabels predict_beam(const CsrView& x, const ForestView& forest, const BeamConfig& config, std::int32_t top_k,
                       int n_threads, Control& control) {
    TopLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    search_all(x, forest, config, n_threads, control, [&](std::int64_t row, std::vector<ScoredLabel>& labels) {
        select_top_k(labels, std::span(out.label_ids).subspan(row * top_k, top_k),
                     std::span(out.scores).subspan(row * top_k, top_k));
    });
    return out;
}

ValuedLabels predict_beam_by_value(const CsrView& x, const ForestView& forest, const BeamConfig& config,
                                   const ValueTable& values, std::int32_t top_k, int n_threads, Control& control) {
    ValuedLabels out;
    out.label_ids.resize(x.n_rows * top_k);
    out.scores.resize(x.n_rows * top_k);
    out.values.resize(x.n_rows * top_k);
    search_all(x, forest, config, n_threads, control, [&](std::int64_t row, std::vector<ScoredLabel>& labels) {
        write_best_values(values, labels, out, row, top_k);
    });
    return out;
}

Routes route_rows(const CsrView& x, const ForestView& forest, const BeamConfig& config, int n_threads,
                  Control& control) {
    std::vector<BeamSearch> searches(n_threads, BeamSearch(x, forest, config));
    std::vector<std::vector<Visit>> blocks(n_blocks(x));
    parallel_for(n_blocks(x), n_threads, control, [&](std::int64_t block, int worker) {
        const std::int64_t first = block * kRowsPerBlock;
        const std::int64_t last = std::min(x.n_rows, first + kRowsPerBlock);
        const auto ignore = [](std::int32_t, std::int32_t, float) {};
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
