#pragma once

#include <cmath>
#include <cstdint>
#include <set>
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
    // Entry by entry: sanitizers make whole dense rows too slow for sums over all rows.
    double dot(std::int64_t row, const std::vector<double>& weights) const {
        double total = 0.0;
        for (std::int64_t i = indptr[row]; i < indptr[row + 1]; ++i) total += values[i] * weights[indices[i]];
        return total;
    }
    void add_to(std::int64_t row, double scale, std::vector<double>& sums) const {
        for (std::int64_t i = indptr[row]; i < indptr[row + 1]; ++i) sums[indices[i]] += scale * values[i];
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

// Rows of a few frequent words with small values and about ten rare ones.
inline Csr text_rows(std::int64_t n_rows, std::int32_t n_cols, std::uint64_t seed) {
    constexpr std::int32_t kFrequent = 6;
    Random random(seed, 0);
    Csr out;
    out.n_cols = n_cols;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        for (std::int32_t word = 0; word < kFrequent; ++word)
            if (random.uniform() < 0.5) {
                out.indices.push_back(word);
                out.values.push_back(static_cast<float>(0.05 + 0.1 * random.uniform()));
            }
        std::set<std::int32_t> words;
        for (int i = static_cast<int>(2.0 + 14.0 * random.uniform()); i > 0; --i)
            words.insert(kFrequent + static_cast<std::int32_t>(random.uniform() * (n_cols - kFrequent)));
        for (const std::int32_t word : words) {
            out.indices.push_back(word);
            out.values.push_back(
                static_cast<float>((0.5 + random.uniform()) / std::sqrt(static_cast<double>(words.size()))));
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    }
    return out;
}

}  // namespace longtail
