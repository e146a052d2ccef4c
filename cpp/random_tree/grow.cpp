#include "random_tree/grow.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "random_tree/side_scores.hpp"

namespace longtail::random_tree {

namespace {

// An entry of a tried feature: a value, and the place of its row in the node.
struct Entry {
    float value;
    std::int32_t place;
};

// Rows of a node with the same value of a feature: entries begin .. end, or the rows without an entry.
struct Group {
    float value;
    std::size_t begin, end;
    bool is_candidate;
};

struct Split {
    std::int32_t feature_id = -1;
    std::size_t slot = 0;
    float threshold = 0.0F;
    double score = -1.0;
};

// 1 / (1 / log2(2) + … + 1 / log2(n + 1)) for each number of labels.
std::vector<double> ideal_gains(std::int64_t most) {
    std::vector<double> gains(std::max<std::int64_t>(most, 1) + 1, 1.0);
    double sum = 0.0;
    for (std::size_t n = 1; n < gains.size(); ++n) {
        sum += 1.0 / std::log2(1.0 + static_cast<double>(n));
        gains[n] = 1.0 / sum;
    }
    return gains;
}

// Half-way to the next value: rounding of a row, as when rows are scaled, must not change its side.
float between(float below, float above) {
    const float middle = below + (above - below) / 2.0F;
    return middle < above ? middle : below;
}

class Grower {
public:
    Grower(const CsrView& x, const LabelsView& y, std::span<const std::int64_t> row_ids, const Config& config)
        : x_(x),
          y_(y),
          config_(config),
          random_(config.seed, 0),
          scores_(config.criterion == Criterion::kNdcg),
          rows_(row_ids.begin(), row_ids.end()),
          moved_(row_ids.size()),
          values_(row_ids.size()),
          slots_(x.n_cols, -1),
          feature_counts_(x.n_cols),
          local_ids_(y.n_labels, -1) {
        std::int64_t most = 0;
        for (std::int64_t row = 0; row < y.n_rows; ++row) most = std::max(most, y.row_size(row));
        if (config.criterion == Criterion::kNdcg) gains_ = ideal_gains(most);
    }

    Tree run(Control& control) {
        struct Node {
            std::size_t begin, end;
            std::int64_t depth;
        };
        std::vector<Node> nodes{{0, rows_.size(), 0}};
        double depths = 0.0;
        for (std::size_t id = 0; id < nodes.size(); ++id) {
            control.throw_if_stopped();
            const auto [begin, end, depth] = nodes[id];
            const std::span<std::int64_t> rows(rows_.data() + begin, end - begin);
            const bool is_pure = !number_labels(rows);
            Split split;
            if (!is_pure && rows.size() > static_cast<std::size_t>(config_.max_leaf_size)) split = best_split(rows);
            tree_.split_features.push_back(split.feature_id);
            tree_.thresholds.push_back(split.threshold);
            if (split.feature_id < 0) {
                tree_.left_children.push_back(-1);
                add_leaf(rows.size());
                depths += static_cast<double>(depth) * static_cast<double>(rows.size());
            } else {
                tree_.left_children.push_back(static_cast<std::int32_t>(nodes.size()));
                const std::size_t middle = begin + divide(rows, split);
                nodes.push_back({begin, middle, depth + 1});
                nodes.push_back({middle, end, depth + 1});
            }
            tree_.leaf_begin.push_back(static_cast<std::int64_t>(tree_.leaf_label_ids.size()));
        }
        tree_.mean_depth = depths / static_cast<double>(rows_.size());
        return std::move(tree_);
    }

private:
    double gain_of(std::int64_t row) const { return gains_.empty() ? 1.0 : gains_[y_.row_size(row)]; }

    // Number the labels of a node from 0 and count them; returns whether its rows differ in their labels.
    bool number_labels(std::span<const std::int64_t> rows) {
        for (const std::int32_t label_id : label_ids_) local_ids_[label_id] = -1;
        label_ids_.clear();
        counts_.clear();
        node_labels_.clear();
        label_begin_.assign(1, 0);
        for (const std::int64_t row : rows) {
            for (const std::int32_t label_id : y_.row_labels(row)) {
                std::int32_t& local = local_ids_[label_id];
                if (local < 0) {
                    local = static_cast<std::int32_t>(label_ids_.size());
                    label_ids_.push_back(label_id);
                    counts_.push_back(0);
                }
                ++counts_[local];
                node_labels_.push_back(local);
            }
            label_begin_.push_back(node_labels_.size());
        }
        return node_labels_.size() != rows.size() * label_ids_.size();
    }

    Split best_split(std::span<const std::int64_t> rows) {
        totals_.assign(label_ids_.size(), 0.0);
        for (std::size_t place = 0; place < rows.size(); ++place) {
            for (const std::int32_t local : labels_at(place)) totals_[local] += gain_of(rows[place]);
        }
        scores_.begin_node(totals_);
        gather(rows);
        Split best;
        for (std::size_t slot = 0; slot < tried_.size(); ++slot) try_feature(rows, slot, best);
        return best;
    }

    std::span<const std::int32_t> labels_at(std::size_t place) const {
        return {node_labels_.data() + label_begin_[place], label_begin_[place + 1] - label_begin_[place]};
    }

    // Draw features and collect their entries, those of slot s at entry_begin_[s] .. entry_begin_[s + 1].
    void gather(std::span<const std::int64_t> rows) {
        present_.clear();
        for (const std::int64_t row : rows) {
            for (const std::int32_t feature : x_.row_indices(row)) {
                if (feature_counts_[feature]++ == 0) present_.push_back(feature);
            }
        }
        const std::size_t n_tried = std::min<std::size_t>(config_.n_tried, present_.size());
        tried_ = present_;
        for (std::size_t i = 0; i < n_tried; ++i) {
            std::swap(tried_[i], tried_[i + random_.below(static_cast<std::uint32_t>(tried_.size() - i))]);
        }
        tried_.resize(n_tried);
        std::sort(tried_.begin(), tried_.end());
        entry_begin_.assign(1, 0);
        for (std::size_t slot = 0; slot < n_tried; ++slot) {
            slots_[tried_[slot]] = static_cast<std::int32_t>(slot);
            entry_begin_.push_back(entry_begin_.back() + feature_counts_[tried_[slot]]);
        }
        entries_.resize(entry_begin_.back());
        std::vector<std::size_t>& next = entry_next_;
        next.assign(entry_begin_.begin(), entry_begin_.end());
        for (std::size_t place = 0; place < rows.size(); ++place) {
            const auto indices = x_.row_indices(rows[place]);
            const auto values = x_.row_values(rows[place]);
            for (std::size_t i = 0; i < indices.size(); ++i) {
                const std::int32_t slot = slots_[indices[i]];
                if (slot >= 0) entries_[next[slot]++] = {values[i], static_cast<std::int32_t>(place)};
            }
        }
        for (const std::int32_t feature : present_) feature_counts_[feature] = 0;
        for (const std::int32_t feature : tried_) slots_[feature] = -1;
    }

    // Rows with a negative value join a side in increasing order, those with a positive one in decreasing order: rows
    // without an entry, mostly the majority, are never visited.
    void try_feature(std::span<const std::int64_t> rows, std::size_t slot, Split& best) {
        const std::size_t n_negative = find_groups(rows.size(), slot);
        const auto consider = [&](std::size_t i) {
            if (!groups_[i].is_candidate) return;
            const double score = scores_.score();
            if (score <= best.score) return;
            best = {tried_[slot], slot, between(groups_[i].value, groups_[i + 1].value), score};
        };
        const auto add = [&](const Group& group) {
            for (std::size_t i = group.begin; i < group.end; ++i) {
                const std::int32_t place = entries_[i].place;
                scores_.add_row(labels_at(place), gain_of(rows[place]));
            }
        };
        scores_.begin_side();
        for (std::size_t i = 0; i < n_negative && i + 1 < groups_.size(); ++i) {
            add(groups_[i]);
            consider(i);
        }
        scores_.begin_side();
        for (std::size_t i = groups_.size() - 1; i > n_negative; --i) {
            add(groups_[i]);
            consider(i - 1);
        }
    }

    // Sort the entries of a feature into groups of equal values and mark those that hold a quantile, or are the first:
    // it divides zeros from the others. Returns the number of groups below zero.
    std::size_t find_groups(std::size_t n_rows, std::size_t slot) {
        const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(entry_begin_[slot]);
        const auto last = entries_.begin() + static_cast<std::ptrdiff_t>(entry_begin_[slot + 1]);
        const auto is_less = [](const Entry& a, const Entry& b) {
            return a.value != b.value ? a.value < b.value : a.place < b.place;
        };
        if (!std::is_sorted(first, last, is_less)) std::sort(first, last, is_less);
        const std::size_t n_zeros = n_rows - (entry_begin_[slot + 1] - entry_begin_[slot]);
        groups_.clear();
        std::size_t n_negative = 0;
        bool has_zeros = n_zeros == 0;
        const auto add_zeros = [&] {
            n_negative = groups_.size();
            if (n_zeros > 0) groups_.push_back({0.0F, 0, 0, false});
            has_zeros = true;
        };
        for (std::size_t i = entry_begin_[slot]; i < entry_begin_[slot + 1]; ++i) {
            const float value = entries_[i].value;
            if (value > 0.0F && !has_zeros) add_zeros();
            if (groups_.empty() || groups_.back().value != value) groups_.push_back({value, i, i, false});
            groups_.back().end = i + 1;
            if (value < 0.0F) n_negative = groups_.size();
        }
        if (!has_zeros) add_zeros();
        mark_candidates(n_rows, n_zeros);
        return n_negative;
    }

    void mark_candidates(std::size_t n_rows, std::size_t n_zeros) {
        const auto n_thresholds = static_cast<std::size_t>(config_.n_thresholds);
        std::size_t n_below = 0;
        std::size_t quantile = 1;
        for (std::size_t i = 0; i + 1 < groups_.size(); ++i) {
            Group& group = groups_[i];
            const std::size_t size = group.end > group.begin ? group.end - group.begin : n_zeros;
            const std::size_t end = n_below + size;
            group.is_candidate = i == 0;
            for (; quantile <= n_thresholds && quantile * n_rows / (n_thresholds + 1) < end; ++quantile) {
                group.is_candidate = true;
            }
            n_below = end;
        }
    }

    // Move the rows that go left to the front, in order; returns their number.
    std::size_t divide(std::span<std::int64_t> rows, const Split& split) {
        std::fill_n(values_.begin(), rows.size(), 0.0F);
        for (std::size_t i = entry_begin_[split.slot]; i < entry_begin_[split.slot + 1]; ++i) {
            values_[entries_[i].place] = entries_[i].value;
        }
        std::size_t n_left = 0;
        std::size_t n_right = 0;
        for (std::size_t place = 0; place < rows.size(); ++place) {
            if (values_[place] <= split.threshold)
                rows[n_left++] = rows[place];
            else
                moved_[n_right++] = rows[place];
        }
        std::copy_n(moved_.begin(), n_right, rows.begin() + static_cast<std::ptrdiff_t>(n_left));
        return n_left;
    }

    // The most frequent labels, ties by lower id, in the order of their ids.
    void add_leaf(std::size_t n_rows) {
        std::vector<std::int32_t> kept(label_ids_.size());
        std::iota(kept.begin(), kept.end(), 0);
        const std::size_t n_kept = std::min<std::size_t>(config_.leaf_top_k, kept.size());
        const auto middle = kept.begin() + static_cast<std::ptrdiff_t>(n_kept);
        std::partial_sort(kept.begin(), middle, kept.end(), [this](std::int32_t a, std::int32_t b) {
            return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : label_ids_[a] < label_ids_[b];
        });
        std::sort(kept.begin(), middle, [this](auto a, auto b) { return label_ids_[a] < label_ids_[b]; });
        for (std::size_t i = 0; i < n_kept; ++i) {
            tree_.leaf_label_ids.push_back(label_ids_[kept[i]]);
            tree_.leaf_values.push_back(static_cast<float>(counts_[kept[i]]) / static_cast<float>(n_rows));
        }
    }

    CsrView x_;
    LabelsView y_;
    Config config_;
    Random random_;
    SideScores scores_;
    Tree tree_;
    std::vector<std::int64_t> rows_, moved_;
    std::vector<float> values_;
    std::vector<double> gains_, totals_;
    std::vector<std::int32_t> slots_, feature_counts_, present_, tried_;
    std::vector<std::size_t> entry_begin_, entry_next_;
    std::vector<Entry> entries_;
    std::vector<Group> groups_;
    std::vector<std::int32_t> local_ids_, label_ids_, counts_, node_labels_;
    std::vector<std::size_t> label_begin_;
};

}  // namespace

Tree grow(const CsrView& x, const LabelsView& y, std::span<const std::int64_t> row_ids, const Config& config,
          Control& control) {
    return Grower(x, y, row_ids, config).run(control);
}

}  // namespace longtail::random_tree
