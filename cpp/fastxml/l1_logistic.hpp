#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/random.hpp"
#include "fastxml/node_columns.hpp"

namespace longtail::fastxml {

struct L1Config {
    std::int32_t max_newton = 10;  // outer iterations: quadratic models of the loss
    std::int32_t max_passes = 10;  // coordinate passes over one quadratic model
    float tolerance = 0.01F;       // stop when the optimality violation is this share of the violation at the start
};

// Minimise over w:  ||w||_1 + sum_i |a_i| log(1 + exp(-sign(a_i) w.x_i))      (FastXML eq. 14; a_i = delta_i C(delta_i))
//
// A proximal Newton method (newGLMNET, Yuan, Ho, Lin 2012): outer iterations build the quadratic model of the loss, inner
// passes run coordinate descent with soft thresholds on it, a line search keeps the objective falling. Features at zero
// whose gradient is well inside [-1, 1] leave the working set; all are looked at again before the solver stops. Columns are
// visited in random order, which speeds convergence and, where iterations are few, makes trees differ more.
class L1Logistic {
public:
    // Scratch and results; `scores` are w.x_i. Both arrays keep their contents between calls, for a warm start.
    std::vector<float> weights;
    AlignedVector<float> scores;

    // signed_costs: one a_i per row, padded with zeros to x.stride. When `start_gradients` is not empty, weights and
    // scores are reset to zero and the span gives the gradient of the loss there, one per column.
    void solve(const NodeColumns& x, std::span<const float> signed_costs, std::span<const float> start_gradients,
               const L1Config& config, Random& random);

    // The minimised function at the present weights.
    double objective(std::span<const float> signed_costs) const;

private:
    struct Violation {
        double total = 0.0;
        float largest = 0.0F;
    };
    void refresh_rows(std::span<const float> signed_costs);
    Violation choose_working_set(std::int32_t n_columns, float margin);
    std::int32_t descend(const NodeColumns& x, const L1Config& config, Random& random);
    bool line_search(std::span<const float> signed_costs);

    double start_violation_ = 0.0;
    double inner_tolerance_ = 1.0;  // of the next quadratic model, as a share of start_violation_
    std::vector<std::int32_t> working_;
    std::vector<std::int32_t> active_;  // of working_: visited in the present pass
    std::vector<std::int32_t> shrunk_;  // of working_: left out for the time being
    std::vector<float> gradients_;
    std::vector<float> curvatures_;
    std::vector<float> steps_;
    AlignedVector<float> residuals_;  // derivative of the loss by w.x_i
    AlignedVector<float> hessian_;    // second derivative by w.x_i
    AlignedVector<float> moved_;      // hessian_i * (x_i . step): what coordinate descent sees of the other coordinates
};

}  // namespace longtail::fastxml
