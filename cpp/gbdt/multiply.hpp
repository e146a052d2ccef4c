#pragma once

#include <cstdint>
#include <vector>

#include "base/control.hpp"
#include "base/views.hpp"
#include "gbdt/forest.hpp"

namespace longtail::gbdt {

// x · w, row by row: a row costs its non-zeros times the columns of w, and its result does not depend on the rows
// beside it, so that one row at serving time gives what a batch gives.
std::vector<float> multiply(const CsrView& x, const DenseView& w, int n_threads, Control& control);
std::vector<float> multiply(const DenseView& x, const DenseView& w, int n_threads, Control& control);

// The top_k columns of every row of x · w, without ever holding a full row of scores.
TopLabels multiply_top_k(const DenseView& x, const DenseView& w, std::int64_t top_k, int n_threads, Control& control);

}  // namespace longtail::gbdt
