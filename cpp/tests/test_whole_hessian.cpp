#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/control.hpp"
#include "base/random.hpp"
#include "linear/whole_hessian.hpp"

using namespace longtail;
using namespace longtail::linear;

namespace {

constexpr std::int64_t kRows = 700;  // more than two blocks
constexpr std::int64_t kFeatures = 37;

// (H p + g) of one lane in float64, with H = 1 + Σ curvature·xxᵀ and the bias feature last.
std::vector<double> naive_residual(const std::vector<float>& x, const AlignedVector<Lanes>& curvatures, int at,
                                   float bias, const AlignedVector<Lanes>& step, const AlignedVector<Lanes>& gradient,
                                   bool regularizes_bias) {
    std::vector<double> out;
    for (std::int64_t f = 0; f <= kFeatures; ++f)
        out.push_back(static_cast<double>(gradient[f][at]) +
                      (f < kFeatures || regularizes_bias ? static_cast<double>(step[f][at]) : 0.0));
    for (std::int64_t row = 0; row < kRows; ++row) {
        double along = static_cast<double>(bias) * step[kFeatures][at];
        for (std::int64_t f = 0; f < kFeatures; ++f) along += static_cast<double>(x[row * kFeatures + f]) * step[f][at];
        along *= curvatures[row][at];
        for (std::int64_t f = 0; f < kFeatures; ++f) out[f] += along * x[row * kFeatures + f];
        out[kFeatures] += along * bias;
    }
    return out;
}

}  // namespace

TEST_CASE("steps with the whole Hessian solve the naive system after any changes of sides") {
    Random random(5, 0);
    std::vector<float> x;
    for (std::int64_t i = 0; i < kRows * kFeatures; ++i) x.push_back(static_cast<float>(random.uniform() - 0.4));
    std::vector<float> row_weights;
    for (std::int64_t row = 0; row < kRows; ++row) row_weights.push_back(row % 3 == 0 ? 0.3F : 1.7F);
    const DenseRows rows(DenseView{kRows, kFeatures, x});
    for (const bool regularizes_bias : {true, false}) {
        const OvaConfig config{Loss::squared_hinge, 0.3, 0.01,  1.5F, regularizes_bias, 0.01F, true, 100,
                               CgRule::residual,    0.1, false, false};
        Control control;
        const OvaLabels labels{{}, {}, row_weights};
        WholeHessians hessians(rows, labels, config, control);
        REQUIRE(WholeHessians::suits(rows, config));
        AlignedVector<Lanes> curvatures(kRows, Lanes{});
        AlignedVector<Lanes> gradient(kFeatures + 1, Lanes{});
        AlignedVector<Lanes> step(kFeatures + 1, Lanes{});
        for (int round = 0; round < 4; ++round) {
            // Lane 3 begins with most rows and lane 7 with few; lane 3 takes a new label in the third round.
            if (round == 0 || round == 2) hessians.begin(3);
            if (round == 0) hessians.begin(7);
            for (std::int64_t row = 0; row < kRows; ++row) {
                const float curvature = 2.0F * (0.3F * row_weights[row]);
                curvatures[row][3] = random.uniform() < (round == 0 ? 0.9 : 0.4) ? curvature : 0.0F;
                curvatures[row][7] = random.uniform() < 0.2 ? curvature * 5.0F : 0.0F;  // weighted positives
            }
            for (std::int64_t f = 0; f <= kFeatures; ++f)
                for (const int at : {3, 7}) gradient[f][at] = static_cast<float>(random.uniform() - 0.5);
            hessians.update(curvatures, 1U << 3 | 1U << 7);
            for (const int at : {3, 7}) {
                hessians.solve(at, gradient, step);
                for (const double entry :
                     naive_residual(x, curvatures, at, config.bias, step, gradient, regularizes_bias))
                    CHECK(std::abs(entry) < 1e-4);
            }
            CHECK(step[5][0] == 0.0F);
        }
    }
}

TEST_CASE("whole Hessians are for the squared hinge and few features") {
    OvaConfig config{Loss::squared_hinge, 1.0, 0.01, 1.0F, true, 0.01F, true, 100, CgRule::residual, 0.1, false, false};
    const std::vector<float> x(1024, 0.0F);
    CHECK(WholeHessians::suits(DenseRows(DenseView{4, 256, x}), config));
    CHECK_FALSE(WholeHessians::suits(DenseRows(DenseView{2, 512, x}), config));
    config.loss = Loss::logistic;
    CHECK_FALSE(WholeHessians::suits(DenseRows(DenseView{4, 256, x}), config));
    config.loss = Loss::squared_hinge;
    config.working_sets = false;
    CHECK_FALSE(WholeHessians::suits(DenseRows(DenseView{4, 256, x}), config));
}
