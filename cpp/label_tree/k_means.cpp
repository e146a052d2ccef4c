#include "label_tree/k_means.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::label_tree {

KMeans::KMeans(const CsrView& vectors) : vectors_(vectors), local_ids_(vectors.n_cols, -1) {}

std::vector<std::int64_t> KMeans::split(std::span<std::int32_t> label_ids, std::int32_t n_clusters, Random& random) {
    const std::int64_t n = static_cast<std::int64_t>(label_ids.size());
    n_clusters_ = n_clusters;
    n_groups_ = (n_clusters + kLanes - 1) / kLanes;
    for (const std::int32_t label : label_ids)
        for (const std::int32_t feature : vectors_.row_indices(label))
            if (local_ids_[feature] < 0) {
                local_ids_[feature] = static_cast<std::int32_t>(features_.size());
                features_.push_back(feature);
            }
    // Distinct random labels are the first centres.
    std::vector<std::int32_t> shuffled(label_ids.begin(), label_ids.end());
    for (std::int32_t cluster = 0; cluster < n_clusters; ++cluster)
        std::swap(shuffled[cluster], shuffled[cluster + random.below(static_cast<std::uint32_t>(n - cluster))]);
    cluster_ids_.assign(n_clusters, 0);
    for (std::int32_t cluster = 0; cluster < n_clusters; ++cluster) cluster_ids_[cluster] = cluster;
    centre(std::span(shuffled).first(n_clusters));
    double best = 0.0;
    for (std::int32_t iteration = 0; iteration < kMaxIterations; ++iteration) {
        const double sum = assign(label_ids);
        if (sum - best < kLeastGain * static_cast<double>(n)) break;
        best = sum;
        centre(label_ids);
    }
    std::vector<std::vector<std::int32_t>> members(n_clusters);
    for (std::int64_t i = 0; i < n; ++i) members[cluster_ids_[i]].push_back(label_ids[i]);
    std::vector<std::int64_t> ends;
    std::int64_t at = 0;
    for (auto& cluster : members) {
        if (cluster.empty()) continue;
        std::sort(cluster.begin(), cluster.end());
        std::copy(cluster.begin(), cluster.end(), label_ids.begin() + at);
        ends.push_back(at += static_cast<std::int64_t>(cluster.size()));
    }
    for (const std::int32_t feature : features_) local_ids_[feature] = -1;
    features_.clear();
    return ends;
}

// Give each label to the centre with the largest cosine, ties to the lower one; returns the sum of the cosines.
double KMeans::assign(std::span<const std::int32_t> label_ids) {
    cluster_ids_.resize(label_ids.size());
    AlignedVector<Lanes> scores(n_groups_);
    double total = 0.0;
    for (std::size_t at = 0; at < label_ids.size(); ++at) {
        std::fill(scores.begin(), scores.end(), Lanes{});
        const auto features = vectors_.row_indices(label_ids[at]);
        const auto values = vectors_.row_values(label_ids[at]);
        for (std::size_t i = 0; i < features.size(); ++i) {
            const Lanes* centre = &centres_[static_cast<std::int64_t>(local_ids_[features[i]]) * n_groups_];
            for (std::int32_t group = 0; group < n_groups_; ++group) scores[group] += values[i] * centre[group];
        }
        std::int32_t best = 0;
        float best_score = -2.0F;
        for (std::int32_t cluster = 0; cluster < n_clusters_; ++cluster) {
            const float score = scores[cluster / kLanes][cluster % kLanes];
            if (score > best_score) {
                best = cluster;
                best_score = score;
            }
        }
        cluster_ids_[at] = best;
        total += best_score;
    }
    return total;
}

void KMeans::centre(std::span<const std::int32_t> label_ids) {
    centres_.assign(features_.size() * n_groups_, Lanes{});
    for (std::size_t at = 0; at < label_ids.size(); ++at) {
        const auto features = vectors_.row_indices(label_ids[at]);
        const auto values = vectors_.row_values(label_ids[at]);
        const std::int32_t cluster = cluster_ids_[at];
        for (std::size_t i = 0; i < features.size(); ++i)
            centres_[static_cast<std::int64_t>(local_ids_[features[i]]) * n_groups_ + cluster / kLanes]
                    [cluster % kLanes] += values[i];
    }
    AlignedVector<Lanes> scales(n_groups_, Lanes{});
    for (std::size_t at = 0; at < centres_.size(); ++at) scales[at % n_groups_] += centres_[at] * centres_[at];
    for (auto& lanes : scales)
        for (int lane = 0; lane < kLanes; ++lane)
            lanes[lane] = lanes[lane] > 0.0F ? 1.0F / std::sqrt(lanes[lane]) : 0.0F;
    for (std::size_t at = 0; at < centres_.size(); ++at) centres_[at] *= scales[at % n_groups_];
}

}  // namespace longtail::label_tree
