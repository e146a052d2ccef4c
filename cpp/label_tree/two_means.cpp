#include "label_tree/two_means.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::label_tree {

TwoMeans::TwoMeans(const CsrView& vectors)
    : vectors_(vectors),
      direction_(vectors.n_cols, 0.0F),
      sums_(vectors.n_cols, {0.0F, 0.0F}),
      is_marked_(vectors.n_cols, 0) {}

void TwoMeans::split(std::span<std::int32_t> label_ids, std::int64_t n_first, Random& random) {
    const std::int64_t n = static_cast<std::int64_t>(label_ids.size());
    find_features(label_ids);
    scored_.resize(n);
    for (std::int64_t i = 0; i < n; ++i) scored_[i] = {0.0F, label_ids[i]};
    const std::uint32_t first = random.below(static_cast<std::uint32_t>(n));
    const std::uint32_t other = random.below(static_cast<std::uint32_t>(n - 1));
    set_direction(label_ids[first], label_ids[other < first ? other : other + 1]);
    double best = 0.0;
    for (std::int32_t iteration = 0; iteration < kMaxIterations; ++iteration) {
        assign(n_first);
        const double sum = centre_sides(n_first);
        if (sum - best < kLeastGain * static_cast<double>(n)) break;
        best = sum;
    }
    for (std::int64_t i = 0; i < n; ++i) label_ids[i] = scored_[i].second;
    std::sort(label_ids.begin(), label_ids.begin() + n_first);
    std::sort(label_ids.begin() + n_first, label_ids.end());
    clear();
}

void TwoMeans::find_features(std::span<const std::int32_t> label_ids) {
    for (const std::int32_t label : label_ids)
        for (const std::int32_t feature : vectors_.row_indices(label))
            if (!is_marked_[feature]) {
                is_marked_[feature] = 1;
                features_.push_back(feature);
            }
}

void TwoMeans::set_direction(std::int32_t first, std::int32_t second) {
    const auto add = [&](std::int32_t label, float sign) {
        const auto features = vectors_.row_indices(label);
        const auto values = vectors_.row_values(label);
        for (std::size_t i = 0; i < features.size(); ++i) direction_[features[i]] += sign * values[i];
    };
    add(first, 1.0F);
    add(second, -1.0F);
}

void TwoMeans::assign(std::int64_t n_first) {
    for (auto& [score, label] : scored_) {
        const auto features = vectors_.row_indices(label);
        const auto values = vectors_.row_values(label);
        float sum = 0.0F;
        for (std::size_t i = 0; i < features.size(); ++i) sum += direction_[features[i]] * values[i];
        score = sum;
    }
    std::nth_element(scored_.begin(), scored_.begin() + n_first, scored_.end(), [](const auto& a, const auto& b) {
        return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
}

double TwoMeans::centre_sides(std::int64_t n_first) {
    for (std::size_t at = 0; at < scored_.size(); ++at) {
        const bool is_first = static_cast<std::int64_t>(at) < n_first;
        const auto features = vectors_.row_indices(scored_[at].second);
        const auto values = vectors_.row_values(scored_[at].second);
        if (is_first)
            for (std::size_t i = 0; i < features.size(); ++i) sums_[features[i]].first += values[i];
        else
            for (std::size_t i = 0; i < features.size(); ++i) sums_[features[i]].second += values[i];
    }
    double first = 0.0;
    double second = 0.0;
    for (const std::int32_t feature : features_) {
        first += static_cast<double>(sums_[feature].first) * sums_[feature].first;
        second += static_cast<double>(sums_[feature].second) * sums_[feature].second;
    }
    first = std::sqrt(first);
    second = std::sqrt(second);
    const float first_scale = first > 0.0 ? static_cast<float>(1.0 / first) : 0.0F;
    const float second_scale = second > 0.0 ? static_cast<float>(1.0 / second) : 0.0F;
    for (const std::int32_t feature : features_) {
        direction_[feature] = first_scale * sums_[feature].first - second_scale * sums_[feature].second;
        sums_[feature] = {0.0F, 0.0F};
    }
    return first + second;  // the norm of a sum of unit vectors is the sum of their cosines with its direction
}

void TwoMeans::clear() {
    for (const std::int32_t feature : features_) {
        direction_[feature] = 0.0F;
        is_marked_[feature] = 0;
    }
    features_.clear();
}

}  // namespace longtail::label_tree
