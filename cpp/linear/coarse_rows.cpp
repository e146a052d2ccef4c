#include "linear/coarse_rows.hpp"

#include <cmath>

namespace longtail::linear {

namespace {
constexpr double kSmall = 0.03;       // entries below this share of a row's length are small,
constexpr double kLeastSquare = 0.9;  // or below half of it and so on, until this share of its square is left
// More than one entry in so many left: the saving is not worth a second training.
constexpr std::int64_t kMostShare = 2;
}  // namespace

std::optional<CoarseRows> make_coarse_rows(const SparseRows& rows) {
    CoarseRows coarse;
    const std::int64_t most = rows.n_stored() / kMostShare;
    coarse.indptr.reserve(static_cast<std::size_t>(rows.n_rows()) + 1);
    coarse.indptr.push_back(0);
    for (std::int64_t row = 0; row < rows.n_rows(); ++row) {
        const double square = rows.square(row);
        auto limit = static_cast<float>(kSmall * std::sqrt(square));
        for (double left = -1.0; left < kLeastSquare * square; limit *= 0.5F) {
            coarse.indices.resize(static_cast<std::size_t>(coarse.indptr.back()));
            coarse.values.resize(coarse.indices.size());
            left = 0.0;
            rows.for_each(row, [&](std::int32_t feature, float value) {
                if (std::abs(value) < limit) return;
                coarse.indices.push_back(feature);
                coarse.values.push_back(value);
                left += static_cast<double>(value) * value;
            });
        }
        coarse.indptr.push_back(static_cast<std::int64_t>(coarse.indices.size()));
        if (coarse.indptr.back() > most) return std::nullopt;
    }
    return coarse;
}

std::vector<CoarsePart> measure_coarse_rows(const SparseRows& coarse, std::span<const float> mean_margins) {
    std::vector<double> sums(static_cast<std::size_t>(coarse.n_features()), 0.0);
    const double share = 1.0 / static_cast<double>(coarse.n_rows());
    for (std::int64_t row = 0; row < coarse.n_rows(); ++row) coarse.add_to(row, share, sums.data());
    const std::vector<float> mean(sums.begin(), sums.end());
    std::vector<CoarsePart> parts;
    parts.reserve(static_cast<std::size_t>(coarse.n_rows()));
    double missing = 0.0;  // of the mean row's square
    for (std::int64_t row = 0; row < coarse.n_rows(); ++row) {
        float square = 0.0F;
        coarse.for_each(row, [&](std::int32_t, float value) { square += value * value; });
        parts.push_back({square, mean_margins[row] - coarse.dot(row, mean.data())});
        missing += share * parts.back().common;
    }
    const auto scale = static_cast<float>(missing > 0.0 ? 1.0 / std::sqrt(missing) : 0.0);
    for (CoarsePart& part : parts) part.common *= scale;
    return parts;
}

}  // namespace longtail::linear
