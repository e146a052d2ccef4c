#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.hpp"
#include "base/random.hpp"
#include "fastxml/node_columns.hpp"

namespace longtail::fastxml {

// Like all structures of parameters: the defaults are written in Python only.
struct L1Config {
    std::int32_t max_newton{};  // outer iterations: quadratic models of the loss
    std::int32_t max_passes{};  // coordinate passes over one quadratic model
    float tolerance{};          // stop when the optimality violation is this share of the violation at the start
};

// What is known of a column before the solver starts at w = 0.
struct ColumnStart {
    static constexpr float kUnknown = 1e30F;

    float gradient = 0.0F;   // of the loss
    float reach = kUnknown;  // sum |a_i x_ij|, or more
    float norm = kUnknown;   // sqrt(sum |a_i| x_ij^2), or more
};

// Minimise over w:  ||w||_1 + sum_i |a_i| log(1 + exp(-sign(a_i) w.x_i))      (FastXML eq. 14; a_i = delta_i C(delta_i))
//
// A proximal Newton method (newGLMNET, Yuan, Ho, Lin 2012): outer iterations build the quadratic model of the loss, inner
// passes run coordinate descent with soft thresholds on it, a line search keeps the objective falling.
//
// Working sets, as in the original program, because few iterations do not converge and the path matters: the first model
// contains all columns. Later ones leave out columns at zero whose gradient is inside [-1, 1] by more than the largest
// violation of the model before, divided by n; every model looks at all columns again. Passes over a model shrink it by
// the same rule from the second pass on; when it is solved on the columns that remain, all its columns are admitted again
// before it ends. Columns are visited in random order.
class L1Logistic {
public:
    // Scratch and results; `scores` are w.x_i. Both arrays keep their contents between calls, for a warm start.
    std::vector<float> weights;
    AlignedVector<float> scores;

    // signed_costs: one a_i per row, padded with zeros to x.stride. When `starts` is not empty, it has one element per
    // column, and weights and scores are reset to zero.
    void solve(const NodeColumns& x, std::span<const float> signed_costs, std::span<const ColumnStart> starts,
               const L1Config& config, Random& random);

    // The minimised function at the present weights.
    double objective(std::span<const float> signed_costs) const;

private:
    struct Violation {
        double total = 0.0;
        float largest = 0.0F;
    };
    struct Column {
        float gradient;  // of the loss, at the start of the model
        float weight;
        float target;     // the weight at the minimum of the model
        float curvature;  // second derivative of the model
    };
    // How far the gradient can be from its value in Column, by Hoelder and by Cauchy-Schwarz: at most
    // reach * max |change of r_i / a_i| and norm * sqrt(sum |a_i| (change of r_i / a_i)^2), where r is the residuals.
    struct Drift {
        float reach;
        float norm;
        float largest_then;  // largest_drift_ and norm_drift_ when the gradient was computed
        float norm_then;
    };
    static float weight_after(const Column& column, float step) {
        return step == 1.0F ? column.target : column.weight + step * (column.target - column.weight);
    }
    void start(const NodeColumns& x, std::span<const float> signed_costs, std::span<const ColumnStart> starts);
    void refresh_rows(std::span<const float> signed_costs);
    bool is_certainly_inside(std::size_t column, float margin) const;
    Violation choose_working_set(const NodeColumns& x, float margin);
    std::int32_t descend(const NodeColumns& x, const L1Config& config, Random& random);
    bool line_search(std::span<const float> signed_costs);

    double start_violation_ = 0.0;
    double inner_tolerance_ = 1.0;  // of the next quadratic model, as a share of start_violation_
    bool has_gradients_ = false;    // columns_ has the gradients of the next model
    std::vector<Column> columns_;
    std::vector<Drift> drifts_;
    double largest_drift_ = 0.0;  // sums over the models so far of the two measures of change
    double norm_drift_ = 0.0;
    std::vector<std::int32_t> working_;
    std::vector<std::int32_t> active_;  // of working_: visited in the present pass
    std::vector<std::int32_t> shrunk_;  // of working_: left out for the time being
    AlignedVector<float> wrong_;        // -r_i / a_i: the share of the row's cost that is still to be had
    AlignedVector<float> residuals_;    // r_i, the derivative of the loss by w.x_i
    AlignedVector<float> hessian_;      // second derivative by w.x_i
    AlignedVector<float> losses_;       // |a_i| log(1 + exp(-margin)) at the scores
    AlignedVector<float> tried_losses_;
    AlignedVector<float> moved_;  // hessian_i * (x_i . step): what coordinate descent sees of the other coordinates
};

}  // namespace longtail::fastxml
