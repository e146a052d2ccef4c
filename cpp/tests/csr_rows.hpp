#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "base/views.hpp"

namespace longtail {

// A small sparse matrix that owns its arrays.
struct Csr {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    std::int64_t n_cols = 0;
    std::int64_t n_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
    CsrView view() const { return {n_rows(), n_cols, indptr, indices, values}; }
    LabelsView labels() const { return {n_rows(), n_cols, indptr, indices}; }
    std::vector<double> dense(std::int64_t row) const {
        std::vector<double> out(n_cols, 0.0);
        for (std::int64_t i = indptr[row]; i < indptr[row + 1]; ++i) out[indices[i]] = values[i];
        return out;
    }
};

// Each entry is there with the given probability and has a normal value.
inline Csr random_rows(std::int64_t n_rows, std::int32_t n_cols, double density, std::uint64_t seed) {
    Random random(seed, 0);
    Csr out;
    out.n_cols = n_cols;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int32_t col = 0; col < n_cols; ++col)
            if (random.uniform() < density) {
                out.indices.push_back(col);
                out.values.push_back(static_cast<float>(random.normal()));
            }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    }
    return out;
}

}  // namespace longtail
