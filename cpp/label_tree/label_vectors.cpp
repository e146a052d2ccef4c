#include "label_tree/label_vectors.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel_for.hpp"

namespace longtail::label_tree {
namespace {

constexpr std::int64_t kLabelsPerTask = 256;

std::vector<float> row_scales(const CsrView& x, std::span<const float> row_weights) {
    std::vector<float> scales(x.n_rows);
    for (std::int64_t row = 0; row < x.n_rows; ++row) {
        double square = 0.0;
        for (const float value : x.row_values(row)) square += static_cast<double>(value) * value;
        const double weight = row_weights.empty() ? 1.0 : row_weights[row];
        scales[row] = square > 0.0 ? static_cast<float>(weight / std::sqrt(square)) : 0.0F;
    }
    return scales;
}

}  // namespace

LabelVectors mean_rows(const CsrView& x, const LabelsView& rows_of_labels, std::span<const float> row_weights,
                       int n_threads, Control& control) {
    const std::int64_t n_labels = rows_of_labels.n_rows;
    const std::vector<float> scales = row_scales(x, row_weights);
    const std::int64_t n_tasks = (n_labels + kLabelsPerTask - 1) / kLabelsPerTask;
    std::vector<LabelVectors> parts(n_tasks);
    std::vector<std::vector<float>> sums(n_threads);
    parallel_for(n_tasks, n_threads, control, [&](std::int64_t task, int worker) {
        auto& sum = sums[worker];
        sum.resize(x.n_cols, 0.0F);
        std::vector<std::int32_t> touched;
        auto& part = parts[task];
        const std::int64_t last = std::min(n_labels, (task + 1) * kLabelsPerTask);
        for (std::int64_t label = task * kLabelsPerTask; label < last; ++label) {
            touched.clear();
            for (const std::int32_t row : rows_of_labels.row_labels(label)) {
                const auto features = x.row_indices(row);
                const auto values = x.row_values(row);
                for (std::size_t i = 0; i < features.size(); ++i) {
                    if (sum[features[i]] == 0.0F) touched.push_back(features[i]);
                    sum[features[i]] += scales[row] * values[i];
                }
            }
            std::sort(touched.begin(), touched.end());
            touched.erase(std::unique(touched.begin(), touched.end()), touched.end());  // sums may pass zero
            double square = 0.0;
            for (const std::int32_t feature : touched) square += static_cast<double>(sum[feature]) * sum[feature];
            const float scale = square > 0.0 ? static_cast<float>(1.0 / std::sqrt(square)) : 0.0F;
            for (const std::int32_t feature : touched) {
                part.indices.push_back(feature);
                part.values.push_back(scale * sum[feature]);
                sum[feature] = 0.0F;
            }
            part.indptr.push_back(static_cast<std::int64_t>(part.indices.size()));
        }
    });
    LabelVectors out;
    out.indptr.reserve(n_labels + 1);
    out.indptr.push_back(0);
    std::size_t n_entries = 0;
    for (const auto& part : parts) n_entries += part.indices.size();
    out.indices.reserve(n_entries);
    out.values.reserve(n_entries);
    for (auto& part : parts) {
        const std::int64_t base = static_cast<std::int64_t>(out.indices.size());
        for (const std::int64_t end : part.indptr) out.indptr.push_back(base + end);
        out.indices.insert(out.indices.end(), part.indices.begin(), part.indices.end());
        out.values.insert(out.values.end(), part.values.begin(), part.values.end());
        part = {};
    }
    return out;
}

}  // namespace longtail::label_tree
