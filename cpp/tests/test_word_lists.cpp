// Searches through lists of words against products of all rows.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "linear/best_bias.hpp"
#include "linear/gram.hpp"
#include "linear/local_rows.hpp"
#include "linear/problem.hpp"
#include "linear/row_finder.hpp"
#include "linear/rows.hpp"
#include "linear/word_lists.hpp"
#include "tests/csr_rows.hpp"

using namespace longtail;
using namespace longtail::linear;

TEST_CASE("a search finds every row above its floor, whichever lists it reads") {
    const Csr csr = text_rows(1000, 400, 3);
    const SparseRows rows(csr.view());
    const WordListParts parts(rows);
    const WordLists lists(parts.view());
    RowFinder finder(lists);
    Random random(5, 0);
    std::int64_t n_found = 0;
    std::int64_t n_true = 0;
    std::int64_t n_far_found = 0;
    std::int64_t n_far_true = 0;
    const std::vector<float> zeros(400, 0.0F);
    for (int turn = 0; turn < 200; ++turn) {
        // Some words get weights, the frequent ones small ones; some others get weights of rounding only.
        std::vector<float> weights(400, 0.0F);
        std::vector<WordWeight> words;
        const double frequent_scale = turn % 3 == 0 ? 0.0 : random.uniform();
        double other_square = 0.0;
        for (std::int32_t word = 0; word < 400; ++word) {
            if (random.uniform() < (word < 6 ? 0.7 : 0.05)) {
                weights[word] = static_cast<float>((word < 6 ? frequent_scale : 1.0) * (0.01 + random.uniform()));
                words.push_back({word, weights[word]});
            } else if (turn % 2 == 0 && random.uniform() < 0.05) {
                weights[word] = 0.01F;
                other_square += 1e-4;
            }
        }
        // Half of the turns have weights below zero, which can only lower rows.
        if (turn % 4 < 2)
            for (std::int32_t word = 0; word < 400; ++word)
                if (weights[word] == 0.0F && random.uniform() < 0.3)
                    weights[word] = -static_cast<float>(random.uniform());
        const double floor = 0.2 + random.uniform();
        const std::int64_t cost = finder.plan(words, floor, other_square);
        REQUIRE(cost >= 0);
        std::vector<char> is_found(1000, 0);
        for (const FoundRow& row : finder.find(weights.data())) {
            CHECK(!is_found[row.row_id]);
            is_found[row.row_id] = 1;
            ++n_found;
        }
        for (std::int64_t row = 0; row < 1000; ++row) {
            const bool is_above = rows.dot(row, weights.data()) > static_cast<float>(floor) + 1e-6F;
            n_true += is_above ? 1 : 0;
            if (is_above) CHECK(is_found[lists.place(row)]);
        }
        // A floor below zero takes in rows without any word; each row is found once.
        const double low_floor = -0.3 * random.uniform();
        std::fill(is_found.begin(), is_found.end(), 0);
        for (const FoundRow& row : finder.find_far(words, low_floor, other_square, weights.data())) {
            CHECK(!is_found[row.row_id]);
            is_found[row.row_id] = 1;
            ++n_far_found;
        }
        for (std::int64_t row = 0; row < 1000; ++row) {
            const bool is_above = rows.dot(row, weights.data()) > static_cast<float>(low_floor) + 1e-6F;
            n_far_true += is_above ? 1 : 0;
            if (is_above) CHECK(is_found[lists.place(row)]);
        }
        // Sums of a search leave nothing behind for the next; rare words alone give exact sums.
        const std::int64_t n_read = finder.plan_rare(words, floor);
        CHECK(n_read <= rows.n_stored());
        for (const FoundRow& row : finder.find(zeros.data())) {
            double sum = 0.0;
            for (const auto [feature, value] : lists.row(row.row_id)) {
                const auto is_it = [f = feature](const WordWeight& word) { return word.feature == f; };
                const auto word = std::find_if(words.begin(), words.end(), is_it);
                if (word != words.end() && lists.level(feature) == WordLists::kLevels)
                    sum += static_cast<double>(word->weight) * value;
            }
            CHECK(row.value == doctest::Approx(sum).epsilon(1e-5));
            CHECK(sum > floor - 1e-5);
        }
    }
    CHECK(n_true > 100);
    CHECK(n_found < 20 * n_true);
    CHECK(n_far_true > 1000);
    CHECK(n_far_found < 200 * 1000);  // some rows are left out unseen
}

TEST_CASE("word lists hold every row once, beside those that share its most frequent word") {
    const Csr csr = text_rows(300, 60, 4);
    const SparseRows rows(csr.view());
    const WordListParts parts(rows);
    const WordLists lists(parts.view());
    std::vector<char> is_taken(300, 0);
    std::vector<float> weights(60);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3.0F;
    for (std::int64_t row = 0; row < 300; ++row) {
        const std::int32_t place = lists.place(row);
        CHECK(!is_taken[place]);
        is_taken[place] = 1;
        CHECK(lists.dot(place, weights.data()) == doctest::Approx(rows.dot(row, weights.data())));
        for (const WordEntry& entry : lists.row(place)) {
            const auto list = lists.list(entry.id);
            CHECK(std::any_of(list.begin(), list.end(), [&](const WordEntry& other) { return other.id == place; }));
        }
    }
    std::int32_t next = 0;
    for (const RowGroup& group : lists.groups()) {
        CHECK(group.first == next);
        next = group.last;
        for (std::int32_t place = group.first; place < group.last; ++place)
            for (const WordEntry& entry : lists.row(place)) {
                CHECK(lists.size(entry.id) <= lists.size(group.feature));
                if (entry.id == group.feature) CHECK(entry.value >= group.least_value);
            }
    }
    CHECK(next == 300);
}

TEST_CASE("a search that cannot tell rows apart is refused") {
    const Csr csr = text_rows(200, 100, 3);
    const WordListParts parts(SparseRows(csr.view()));
    const WordLists lists(parts.view());
    RowFinder finder(lists);
    const std::vector<WordWeight> words{{50, 1.0F}};
    CHECK(finder.plan(words, 0.1, 1.0) == -1);
    CHECK(finder.plan(words, 0.1, 0.0) >= 0);
}

TEST_CASE("the best bias of a set is that of its rows one by one") {
    OvaConfig config{};
    config.bias = 2.0F;
    config.regularize_bias = true;
    for (const int n_rows : {1, 7, 16, 45}) {  // with and without rows behind the last whole register
        Subproblem problem;
        for (int i = 0; i < n_rows; ++i)
            problem.append(i, i % 5 == 0 ? 1.0F : -1.0F, 0.1F + 0.01F * static_cast<float>(i % 3),
                           0.2F * static_cast<float>(i % 11) - 1.5F);
        const double expected = best_bias_shift(config, -0.3, [&](const auto& add) {
            for (std::int64_t i = 0; i < problem.size(); ++i)
                add(problem.signs[i], problem.costs[i], problem.margins[i]);
        });
        CHECK(expected != 0.0);
        CHECK(best_bias_shift(config, -0.3, problem) == doctest::Approx(expected));
    }
}

TEST_CASE("local rows are the rows, by numbers of their own") {
    const Csr csr = text_rows(50, 80, 9);
    const SparseRows rows(csr.view());
    const WordListParts parts(rows);
    const WordLists lists(parts.view());
    LocalRows local(80);
    for (int turn = 0; turn < 2; ++turn) {  // what is cleared leaves nothing behind
        std::vector<float> weights(80);
        for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 13) - 6.0F;
        for (const std::int32_t row : {40, 3, 7}) local.append(lists.row(lists.place(row)), 2.0F);
        std::vector<float> own;
        for (const std::int32_t feature : local.features()) own.push_back(weights[feature]);
        CHECK(local.dot(1, own.data()) == doctest::Approx(rows.dot(3, weights.data())));
        local.add_to(2, 0.5F, own.data());
        rows.add_to(7, 0.5F, weights.data());
        for (std::size_t i = 0; i < own.size(); ++i) {
            CHECK(own[i] == weights[local.features()[i]]);
            CHECK(local.number(local.features()[i]) == static_cast<std::int32_t>(i));
        }
        double square = 4.0;
        rows.for_each(40, [&](std::int32_t, float value) { square += static_cast<double>(value) * value; });
        CHECK(local.square(0) == doctest::Approx(square));
        local.clear();
        CHECK(local.features().empty());
    }
}
