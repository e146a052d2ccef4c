#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned.hpp"
#include "base/parallel_for.hpp"
#include "base/random.hpp"
#include "base/top_k.hpp"
#include "base/views.hpp"

using namespace longtail;

TEST_CASE("check_csr accepts a good matrix and names the rule a bad one breaks") {
    const std::vector<std::int64_t> indptr{0, 2, 2, 3};
    const std::vector<std::int32_t> indices{0, 2, 1};
    const std::vector<float> values{1.0F, 2.0F, 3.0F};
    CHECK_NOTHROW(check_csr({3, 3, indptr, indices, values}, "X"));
    CHECK_THROWS_WITH(check_csr({3, 2, indptr, indices, values}, "X"), "X: index 2 of row 0 is outside 0 .. 1");
    CHECK_THROWS_AS(check_csr({4, 3, indptr, indices, values}, "X"), std::invalid_argument);

    const std::vector<std::int32_t> unsorted{2, 0, 1};
    CHECK_THROWS_WITH(check_csr({3, 3, indptr, unsorted, values}, "X"),
                      "X: indices of row 0 must be sorted and distinct");
    const std::vector<std::int64_t> falling{0, 3, 2, 3};
    CHECK_THROWS_AS(check_csr({3, 3, falling, indices, values}, "X"), std::invalid_argument);
    const std::vector<std::int64_t> past_the_end{0, 9, 9, 9};
    CHECK_THROWS_AS(check_csr({3, 3, past_the_end, indices, values}, "X"), std::invalid_argument);
    const std::vector<float> with_nan{1.0F, std::numeric_limits<float>::quiet_NaN(), 3.0F};
    CHECK_THROWS_WITH(check_csr({3, 3, indptr, indices, with_nan}, "X"), "X: value 1 is NaN or infinite");
}

TEST_CASE("parallel_for runs every task once, whatever the number of threads") {
    for (const int n_threads : {1, 2, 7}) {
        std::vector<std::atomic<int>> counts(1000);
        Control control;
        parallel_for(1000, n_threads, control, [&](std::int64_t task, int worker) {
            REQUIRE(worker < n_threads);
            ++counts[task];
        });
        for (const auto& count : counts) CHECK(count == 1);
    }
}

TEST_CASE("parallel_for rethrows the first error and hands out no further tasks") {
    std::atomic<int> n_run{0};
    Control control;
    CHECK_THROWS_WITH_AS(parallel_for(1'000'000, 3, control,
                                      [&](std::int64_t task, int) {
                                          ++n_run;
                                          if (task == 10) throw std::invalid_argument("task 10");
                                      }),
                         "task 10", std::invalid_argument);
    CHECK(n_run < 1'000'000);
}

TEST_CASE("parallel_for throws Cancelled when the control says stop") {
    Control control([] { return true; });
    std::atomic<int> n_run{0};
    CHECK_THROWS_AS(parallel_for(1'000'000, 2, control, [&](std::int64_t, int) { ++n_run; }), Cancelled);
    CHECK(n_run < 1'000'000);
}

TEST_CASE("parallel_for goes on with the threads there are when the system refuses more") {
    for (const int n_allowed : {0, 1, 3}) {
        int n_started = 0;
        const StartThread start_some = [&](std::function<void()> work) {
            if (n_started == n_allowed) throw std::system_error(EAGAIN, std::generic_category(), "no thread");
            ++n_started;
            return std::thread(std::move(work));
        };
        std::vector<std::atomic<int>> counts(1000);
        Control control;
        parallel_for(
            1000, 7, control,
            [&](std::int64_t task, int worker) {
                REQUIRE(worker <= n_allowed);
                ++counts[task];
            },
            start_some);
        CHECK(n_started == n_allowed);
        for (const auto& count : counts) CHECK(count == 1);
    }
}

TEST_CASE("random streams differ by task, repeat by seed, and cover their range evenly") {
    Random a(1, 0), b(1, 0), c(1, 1);
    const auto first = a.next();
    CHECK(first == b.next());
    CHECK(first != c.next());
    std::array<int, 10> counts{};
    for (int i = 0; i < 100'000; ++i) ++counts[a.below(10)];
    for (const int count : counts) {
        CHECK(count > 9'500);
        CHECK(count < 10'500);
    }
    double sum = 0, squares = 0;
    for (int i = 0; i < 100'000; ++i) {
        const double x = a.normal();
        sum += x;
        squares += x * x;
    }
    CHECK(std::abs(sum / 100'000) < 0.02);
    CHECK(std::abs(squares / 100'000 - 1) < 0.02);
}

TEST_CASE("select_top_k puts NaN last, in the order of ids") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const std::size_t n : {4UL, 5UL, 64UL}) {
        std::vector<ScoredLabel> candidates;
        for (std::size_t i = 0; i < n; ++i)
            candidates.push_back({i % 2 == 0 ? nan : static_cast<float>(i), static_cast<std::int32_t>(n - i)});
        std::vector<std::int32_t> ids(n / 2 + 2);
        std::vector<float> scores(n / 2 + 2);
        select_top_k(candidates, ids, scores);
        for (std::size_t i = 0; i < n / 2; ++i) CHECK(!std::isnan(scores[i]));
        CHECK(std::is_sorted(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(n / 2), std::greater<>()));
        CHECK(std::isnan(scores[n / 2]));
        CHECK(ids[n / 2] < ids[n / 2 + 1]);
    }
}

TEST_CASE("select_top_k orders by score, breaks ties by lower id and pads with -1") {
    std::vector<ScoredLabel> candidates{{0.5F, 7}, {0.9F, 3}, {0.5F, 2}, {0.1F, 0}};
    std::array<std::int32_t, 3> ids{};
    std::array<float, 3> scores{};
    select_top_k(candidates, ids, scores);
    CHECK(ids == std::array<std::int32_t, 3>{3, 2, 7});
    CHECK(scores == std::array<float, 3>{0.9F, 0.5F, 0.5F});

    std::vector<ScoredLabel> one{{-1.0F, 4}};
    select_top_k(one, ids, scores);
    CHECK(ids == std::array<std::int32_t, 3>{4, -1, -1});
    CHECK(scores == std::array<float, 3>{-1.0F, 0.0F, 0.0F});
}

TEST_CASE("large vectors lie on huge pages, small ones on cache lines") {
    LargeVector<float> numbers;
    for (const std::size_t n : {std::size_t{10}, std::size_t{3} << 20, std::size_t{4} << 20}) {
        numbers.resize(n);
        std::fill(numbers.begin(), numbers.end(), 1.0F);
        const std::size_t border = n * sizeof(float) >= (std::size_t{4} << 20) ? std::size_t{2} << 20 : 64;
        CHECK(reinterpret_cast<std::uintptr_t>(numbers.data()) % border == 0);
    }
}
