// What becomes of finished labels: pruning, and weights that are not finite.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "linear/sink.hpp"

namespace longtail::linear {
namespace {

OvaConfig prune_at(float prune_below) {
    return {Loss::logistic, 1.0, 0.01, 2.0F, true, prune_below, true, 10, CgRule::residual, 0.1, false, false};
}

}  // namespace

TEST_CASE("a finished label keeps the weights of at least the bound, wherever they lie") {
    for (const float bound : {0.0F, 0.01F, 0.5F})
        for (const std::int64_t n_features : {0, 5, 16, 37, 64}) {
            std::vector<float> weights;
            for (std::int64_t f = 0; f < n_features; ++f)
                weights.push_back(f % 5 == 0   ? 0.0F
                                  : f % 3 == 0 ? bound
                                  : f % 3 == 1 ? -bound
                                               : std::nextafter(bound, f % 2 == 0 ? 0.0F : 1.0F));
            weights.push_back(3.0F);
            const OvaConfig config = prune_at(bound);
            LabelSink sink(1, config);
            sink.put(0, weights.data(), n_features, {});
            const OvaResult result = sink.finish();
            std::vector<std::int32_t> feature_ids;
            std::vector<float> kept;
            for (std::int64_t f = 0; f < n_features; ++f) {
                if (weights[f] == 0.0F || std::abs(weights[f]) < bound) continue;
                feature_ids.push_back(static_cast<std::int32_t>(f));
                kept.push_back(weights[f]);
            }
            CHECK(result.feature_ids == feature_ids);
            CHECK(result.weights == kept);
            CHECK(result.biases[0] == 6.0F);
        }
}

TEST_CASE("a label with a weight that is not finite is left to another solver") {
    for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
        for (std::int64_t place = 0; place < 38; ++place) {
            std::vector<float> weights(38, 0.5F);
            const OvaConfig config = prune_at(0.01F);
            LabelSink sink(1, config);
            sink.put(0, weights.data(), 37, {});
            CHECK(sink.take_left().empty());
            weights[place] = -value;
            sink.put(0, weights.data(), 37, {});
            CHECK(sink.take_left() == std::vector<std::int32_t>{0});
        }
}

}  // namespace longtail::linear
