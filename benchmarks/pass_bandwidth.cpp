// Times the pass of the working-set solver (cpp/linear/rows.hpp) and a plain copy; bench_dismec_bandwidth.py builds
// and runs it. Reads a CSR matrix from four raw files; prints one JSON object.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/aligned.hpp"
#include "linear/rows.hpp"

using namespace longtail;
using namespace longtail::linear;

template <class T>
std::vector<T> read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
}

template <class Body>
double best_seconds(Body body) {
    double best = 1e9;
    for (int repeat = 0; repeat < 30; ++repeat) {
        const std::clock_t begin = std::clock();  // CPU time: others may be on the machine
        body();
        best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    }
    return best;
}

int main(int, char** arguments) {
    const std::string folder = arguments[1];
    const auto indptr = read<std::int64_t>(folder + "/indptr");
    const auto indices = read<std::int32_t>(folder + "/indices");
    const auto values = read<float>(folder + "/values");
    const std::int64_t n_rows = static_cast<std::int64_t>(indptr.size()) - 1;
    const std::int64_t n_features = *std::max_element(indices.begin(), indices.end()) + 1;
    const SparseRows rows(CsrView{n_rows, n_features, indptr, indices, values});
    AlignedVector<RoundedPairs> rounded(static_cast<std::size_t>(n_features) * 2);
    AlignedVector<Lanes> lanes(static_cast<std::size_t>(n_features) * 2, Lanes{} + 0.1F);
    AlignedVector<float> weights(static_cast<std::size_t>(n_features), 0.1F);
    for (RoundedPairs& pairs : rounded)
        for (int at = 0; at < 32; ++at) pairs.set(at, 0.1F);
    Lanes sums[4] = {};
    const double rounded_pass = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) rows.rounded_dots<2, 2>(row, rounded.data(), sums);
    });
    // The same work on a hundred features, whose weights stay in the first-level cache: what is left is arithmetic.
    std::vector<std::int32_t> folded(indices);
    for (std::int32_t& index : folded) index %= 100;
    const SparseRows near_rows(CsrView{n_rows, n_features, indptr, folded, values});
    const double near_pass = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) near_rows.rounded_dots<2, 2>(row, rounded.data(), sums);
    });
    const double half_pass = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) rows.rounded_dots<1, 2>(row, rounded.data(), sums);
    });
    const double float_pass = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) rows.lane_dots<2>(row, lanes.data(), sums);
    });
    const double narrow_pass = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) rows.lane_dots<1>(row, lanes.data(), sums);
    });
    float total = 0.0F;
    const double one_label = best_seconds([&] {
        for (std::int64_t row = 0; row < n_rows; ++row) total += rows.dot(row, weights.data());
    });
    const std::size_t n_copied = std::size_t{64} << 20;
    std::vector<char> from(n_copied, 1);
    std::vector<char> to(n_copied);
    const double copy = best_seconds([&] { std::memcpy(to.data(), from.data(), n_copied); });
    const double n_entries = static_cast<double>(indices.size());
    std::printf(
        "{\"pass_64_bfloat16_ms\": %.4g, \"pass_64_in_first_cache_ms\": %.4g, \"pass_32_bfloat16_ms\": %.4g, \"pass_32_float32_ms\": %.4g, \"pass_16_float32_ms\": %.4g, "
        "\"pass_1_float32_ms\": %.4g, \"x_gb_s\": %.4g, \"weights_gb_s\": %.4g, \"copy_gb_s\": %.4g, "
        "\"gflops\": %.4g, \"check\": %g}\n",
        1e3 * rounded_pass, 1e3 * near_pass, 1e3 * half_pass, 1e3 * float_pass, 1e3 * narrow_pass, 1e3 * one_label, 8e-9 * n_entries / rounded_pass,
        128e-9 * n_entries / rounded_pass, 2e-9 * static_cast<double>(n_copied) / copy,
        128e-9 * n_entries / rounded_pass, static_cast<double>(total) + static_cast<double>(sums[0][0] + sums[1][1]));
}
