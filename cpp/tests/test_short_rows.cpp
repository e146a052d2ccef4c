// The inverted index of short rows and the problem over the words of a label's positives, against naive twins.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "linear/near_rows.hpp"
#include "linear/near_words.hpp"
#include "linear/posting_lists.hpp"
#include "linear/rows.hpp"
#include "linear/word_problem.hpp"

namespace longtail::linear {
namespace {

struct ShortRows {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    std::int64_t n_cols;

    ShortRows(std::int64_t n_rows, std::int32_t n_features, std::uint64_t seed) : n_cols(n_features) {
        Random random(seed, 0);
        for (std::int64_t row = 0; row < n_rows; ++row) {
            std::vector<std::int32_t> words;
            for (int i = static_cast<int>(5.0 * random.uniform()); i >= 0; --i)
                words.push_back(static_cast<std::int32_t>(std::pow(random.uniform(), 3.0) * n_features));
            std::sort(words.begin(), words.end());
            words.erase(std::unique(words.begin(), words.end()), words.end());
            for (const std::int32_t word : words) {
                indices.push_back(word);
                values.push_back(static_cast<float>(0.1 + std::round(8.0 * random.uniform()) / 8.0));  // with ties
            }
            indptr.push_back(static_cast<std::int64_t>(indices.size()));
        }
    }
    CsrView view() const { return {static_cast<std::int64_t>(indptr.size()) - 1, n_cols, indptr, indices, values}; }
};

TEST_CASE("postings hold every entry once, largest values first, and the rows in their own order") {
    const ShortRows csr(300, 40, 1);
    const SparseRows rows(csr.view());
    const Postings postings(rows);
    const PostingsView view = postings.view();
    const CsrView ordered = view.ordered;
    std::vector<char> is_taken(300, 0);
    for (std::int64_t row = 0; row < 300; ++row) {
        const std::int32_t place = postings.places[row];
        CHECK(!is_taken[place]);
        is_taken[place] = 1;
        std::vector<std::int32_t> features;  // of X
        for (const std::int32_t number : ordered.row_indices(place)) features.push_back(view.features[number]);
        CHECK(std::ranges::equal(features, csr.view().row_indices(row)));
        CHECK(std::ranges::equal(ordered.row_values(place), csr.view().row_values(row)));
    }
    CHECK(postings.indptr.back() == std::ssize(csr.indices));
    for (std::int32_t feature = 0; feature < 40; ++feature)
        for (std::int64_t i = postings.indptr[feature]; i < postings.indptr[feature + 1]; ++i) {
            if (i > postings.indptr[feature]) CHECK(postings.values[i] <= postings.values[i - 1]);
            CHECK(postings.sums[i + 1] - postings.sums[i] == doctest::Approx(postings.values[i]));
            CHECK(postings.squares[i + 1] - postings.squares[i] ==
                  doctest::Approx(postings.values[i] * postings.values[i]));
            const auto words = ordered.row_indices(postings.row_ids[i]);
            const auto found = std::ranges::find(words, feature);
            REQUIRE(found != words.end());
            CHECK(ordered.row_values(postings.row_ids[i])[found - words.begin()] == postings.values[i]);
            CHECK(std::ranges::equal(view.row(i).features, words));
            CHECK(std::ranges::equal(view.row(i).values, ordered.row_values(postings.row_ids[i])));
            const auto is_odd = [](std::int32_t word) { return word % 2 == 1; };
            CHECK(view.count_words(i, is_odd) == std::ranges::count_if(words, is_odd));
        }
    for (std::int32_t number = 1; number < 40; ++number)
        CHECK(postings.indptr[number + 1] - postings.indptr[number] <=
              postings.indptr[number] - postings.indptr[number - 1]);
}

TEST_CASE("postings of a long row have no copy of it, but give it all the same") {
    ShortRows csr(20, 40, 5);
    for (std::int32_t feature = 0; feature < 40; ++feature) {
        csr.indices.push_back(feature);
        csr.values.push_back(0.5F);
    }
    csr.indptr.push_back(std::ssize(csr.indices));
    const Postings postings{SparseRows(csr.view())};
    const PostingsView view = postings.view();
    const std::int32_t place = postings.places[20];
    int n_seen = 0;
    for (std::int64_t i = 0; i < std::ssize(postings.row_ids); ++i) {
        const bool is_long = postings.row_ids[i] == place;
        CHECK((view.copy_begins[i] == view.copy_begins[i + 1]) == is_long);
        CHECK(std::ranges::equal(view.row(i).features, view.ordered.row_indices(postings.row_ids[i])));
        if (is_long) CHECK(view.count_words(i, [](std::int32_t word) { return word < 30; }) == 30);
        n_seen += is_long ? 1 : 0;
    }
    CHECK(n_seen == 40);
}

TEST_CASE("postings know the gap of their row in the background, and which rows hold it") {
    const ShortRows csr(200, 30, 7);
    const SparseRows rows(csr.view());
    std::vector<double> weights;  // by features of X
    for (int feature = 0; feature < 30; ++feature) weights.push_back(feature % 3 == 0 ? 0.5 : -0.25);
    const Postings postings(rows, weights, 0.1);
    for (std::int64_t row = 0; row < 200; ++row) {
        double gap = 0.1;
        rows.for_each(row, [&](std::int32_t feature, float value) { gap += weights[feature] * value; });
        CHECK(postings.row_gaps[postings.places[row]] == doctest::Approx(gap));
    }
    for (std::int64_t feature = 0; feature < 30; ++feature) {
        std::vector<std::int32_t> holders;
        for (std::int64_t i = postings.indptr[feature]; i < postings.indptr[feature + 1]; ++i) {
            CHECK(postings.posting_gaps[i] == postings.row_gaps[postings.row_ids[i]]);
            if (postings.posting_gaps[i] > 0.0F)
                holders.push_back(static_cast<std::int32_t>(i - postings.indptr[feature]));
        }
        const auto first = postings.holder_places.begin();
        CHECK(std::vector(first + postings.holder_indptr[feature], first + postings.holder_indptr[feature + 1]) ==
              holders);
    }
    CHECK(Postings(rows).row_gaps.empty());
}

TEST_CASE("the gradient over fixed words needs no arranged rows") {
    const ShortRows csr(60, 20, 8);
    const Postings postings{SparseRows(csr.view())};
    const CsrView view = postings.view().ordered;
    NearWords words(postings.view());
    words.make_free(2);
    words.make_free(5);
    const std::vector<std::int32_t> row_ids{9, 4, 30};
    words.add_rows(row_ids, {});
    words.order_as_added();
    const std::vector<double> slopes{0.5, 0.0, -2.0};
    std::vector<double> gradient(20, 0.0);
    for (std::size_t row = 0; row < 3; ++row)
        for (std::int64_t i = view.indptr[row_ids[row]]; i < view.indptr[row_ids[row] + 1]; ++i)
            gradient[view.indices[i]] += slopes[row] * view.values[i];
    gradient[2] = gradient[5] = 0.0;
    double square = 0.0;
    for (const double entry : gradient) square += entry * entry;
    CHECK(words.set_fixed_gradient(slopes) == doctest::Approx(square));
}

TEST_CASE("free words without a weight become fixed") {
    const ShortRows csr(30, 20, 6);
    const Postings postings{SparseRows(csr.view())};
    NearWords words(postings.view());
    for (const std::int32_t feature : {4, 9, 2, 11}) words.make_free(feature);
    std::vector<double> point{0.0, 0.0, 0.0, -0.5, 0.25};
    words.keep_free(point, 1);
    CHECK(words.free_features() == std::vector<std::int32_t>{4, 11});
    CHECK(point == std::vector<double>{0.0, -0.5, 0.25});
    CHECK(words.number(4) == 0);
    CHECK(words.number(11) == 1);
    CHECK(words.number(9) == -1);
    CHECK(words.number(2) == -1);
}

TEST_CASE("the rows of a word above a floor are one range of its column") {
    const std::vector<float> values{0.9F, 0.7F, 0.7F, 0.4F, 0.1F};
    const WordColumn column{values.data(), nullptr, nullptr, 5};
    for (const double t : {-0.5, -0.1, 0.0, 0.3})
        for (const double w : {-1.0, -0.4, 0.0, 0.2, 0.7142857, 5.0})
            for (const double floor : {-0.2, 0.0}) {
                const auto [begin, end] = column.above(t, w, floor);
                for (std::int64_t i = 0; i < 5; ++i) {
                    const double margin = t + w * static_cast<double>(values[i]);
                    if (std::abs(margin - floor) > 1e-9) CHECK((begin <= i && i < end) == (margin > floor));
                }
            }
}

TEST_CASE("the problem over the positives' words ends where the naive gradient over all rows is small") {
    const ShortRows csr(400, 60, 2);
    const Postings postings{SparseRows(csr.view())};
    const CsrView rows = postings.view().ordered;
    for (const std::vector<std::int32_t>& positives : {std::vector<std::int32_t>{7}, {3, 120, 250}, {399, 1, 2, 90}}) {
        WordProblem problem;
        problem.clear();
        std::vector<std::int32_t> words;
        for (const std::int32_t row : positives)
            for (const std::int32_t word : rows.row_indices(row))
                if (std::ranges::find(words, word) == words.end()) words.push_back(word);
        for (const std::int32_t word : words) {
            const std::int64_t begin = postings.indptr[word];
            problem.columns.push_back({postings.values.data() + begin, postings.sums.data() + begin,
                                       postings.squares.data() + begin, postings.indptr[word + 1] - begin});
        }
        // Positives and rows of several words are listed; rows without any are far.
        problem.n_positives = std::ssize(positives);
        std::vector<std::int32_t> order = positives;
        std::vector<WordPair> pairs;
        double n_far = 0.0;
        std::vector<std::vector<double>> dense;
        for (std::int32_t row = 0; row < 400; ++row) {
            dense.emplace_back(words.size(), 0.0);
            for (std::int64_t i = rows.indptr[row]; i < rows.indptr[row + 1]; ++i) {
                const auto found = std::ranges::find(words, rows.indices[i]);
                if (found != words.end()) dense.back()[found - words.begin()] = rows.values[i];
            }
            const auto n_shared = std::ssize(words) - std::ranges::count(dense.back(), 0.0);
            const bool is_positive = std::ranges::find(positives, row) != positives.end();
            if (n_shared == 0 && !is_positive) n_far += 1.0;
            if (n_shared > 2 && !is_positive) order.push_back(row);
            if (n_shared == 2 && !is_positive) {
                WordPair pair{row, {}, {}};
                for (std::size_t f = 0, n = 0; f < words.size(); ++f) {
                    if (dense.back()[f] == 0.0) continue;
                    pair.places[n] = static_cast<std::int32_t>(f);
                    pair.values[n++] = static_cast<float>(dense.back()[f]);
                }
                pairs.push_back(pair);
            }
        }
        std::ranges::stable_sort(pairs, {}, &WordPair::places);
        for (const std::int32_t row : order) {
            if (std::ssize(problem.rows) == problem.n_positives) problem.add_pairs(pairs);
            for (std::size_t f = 0; f < words.size(); ++f) {
                if (dense[row][f] == 0.0) continue;
                problem.places.push_back(static_cast<std::int32_t>(f));
                problem.values.push_back(static_cast<float>(dense[row][f]));
            }
            problem.begins.push_back(std::ssize(problem.places));
            problem.rows.push_back(row);
        }
        if (problem.n_pairs == 0) problem.add_pairs(pairs);  // no row has more words
        problem.config = {1.0, 2.0, 4.0, n_far};
        problem.point.assign(words.size() + 1, 0.1);
        LabelRecord record;
        REQUIRE(problem.descend(1e-9, 100, true, record));

        const double t = problem.point.back();
        std::vector<double> gradient = problem.point;
        gradient.back() = 4.0 * (t - 1.0);
        double objective = 2.0 * (t - 1.0) * (t - 1.0);
        for (std::size_t f = 0; f < words.size(); ++f) objective += 0.5 * problem.point[f] * problem.point[f];
        for (std::int32_t row = 0; row < 400; ++row) {
            double margin = t;
            for (std::size_t f = 0; f < words.size(); ++f) margin += problem.point[f] * dense[row][f];
            const bool is_positive = std::ranges::find(positives, row) != positives.end();
            const double cost = is_positive ? 2.0 : 1.0;
            const double gap = std::max(0.0, is_positive ? 2.0 - margin : margin);
            const double slope = (is_positive ? -2.0 : 2.0) * cost * gap;
            objective += cost * gap * gap;
            gradient.back() += slope;
            for (std::size_t f = 0; f < words.size(); ++f) gradient[f] += slope * dense[row][f];
        }
        for (const double entry : gradient) CHECK(std::abs(entry) < 1e-7);
        CHECK(record.history.back().objective == doctest::Approx(objective));
    }
}

TEST_CASE("near rows end where the naive gradient over free words is small, and know it over fixed words") {
    const ShortRows csr(300, 50, 3);
    const Postings postings{SparseRows(csr.view())};
    const CsrView view = postings.view().ordered;
    const SparseRows rows(view);
    NearWords near_words(postings.view());
    NearRows near;
    Random random(4, 0);
    for (const bool has_background : {false, true}) {
        std::vector<float> offsets(300);
        for (float& offset : offsets) offset = static_cast<float>(random.uniform() - 0.5);
        const std::vector<std::int32_t> positives{7, 3};
        for (const std::int32_t row : positives)
            rows.for_each(row, [&](std::int32_t f, float) { near_words.make_free(f); });
        near.n_core = has_background ? 50 : std::ssize(near_words.free_features());  // the others stay at or below zero
        near.n_positives = 2;
        near.has_background = has_background;
        near.config = {1.0, 2.0, 4.0, 10.0};
        near.point.assign(near_words.free_features().size() + 1, 0.2);
        const auto given = has_background ? std::span<const float>(offsets) : std::span<const float>();
        near_words.add_rows(positives, given);
        // Rows of the odd features, each once though it may have several of them.
        std::vector<std::int64_t> joining;
        std::vector<std::int32_t> row_ids;
        for (std::int32_t feature = 1; feature < 50; feature += 2)
            for (std::int64_t i = postings.indptr[feature]; i < postings.indptr[feature + 1]; ++i) {
                joining.push_back(i);
                const std::int32_t row = postings.row_ids[i];
                if (row != 7 && row != 3 && std::ranges::find(row_ids, row) == row_ids.end()) row_ids.push_back(row);
            }
        std::vector<float> posting_offsets;
        for (const std::int32_t row : postings.row_ids) posting_offsets.push_back(offsets[row]);
        near_words.add_postings(joining,
                                has_background ? std::span<const float>(posting_offsets) : std::span<const float>());
        CHECK(near_words.n_rows() == row_ids.size() + 2);
        near_words.arrange(near);
        LabelRecord record;
        for (int turn = 0; turn < 3; ++turn) {
            REQUIRE(near.descend(1e-7, 200, false, record));
            const double fixed_square = near_words.set_fixed_gradient(near.slopes());

            const double t = near.point.back();
            std::vector<double> gradient(50, 0.0);
            for (std::size_t i = 0; i + 1 < near.point.size(); ++i)
                gradient[near_words.free_features()[i]] = near.point[i];
            double slope_sum = 0.0;
            std::vector<std::int32_t> all = positives;
            all.insert(all.end(), row_ids.begin(), row_ids.end());
            for (std::size_t i = 0; i < all.size(); ++i) {
                const double offset = has_background ? offsets[all[i]] : 1.0;
                double margin = t * offset;
                for (std::int64_t j = view.indptr[all[i]]; j < view.indptr[all[i] + 1]; ++j)
                    if (const std::int32_t number = near_words.number(view.indices[j]); number >= 0)
                        margin += near.point[number] * view.values[j];
                double slope = i < 2 ? -4.0 * std::max(0.0, 2.0 - margin) : 2.0 * std::max(0.0, margin);
                if (has_background) slope -= 2.0 * t * std::max(0.0, offset);
                slope_sum += slope;
                for (std::int64_t j = view.indptr[all[i]]; j < view.indptr[all[i] + 1]; ++j)
                    gradient[view.indices[j]] += slope * view.values[j];
            }
            CHECK(slope_sum == doctest::Approx(near.slope_sum()));
            double naive_square = 0.0;
            for (std::int32_t feature = 0; feature < 50; ++feature)
                if (near_words.number(feature) < 0)
                    naive_square += gradient[feature] * gradient[feature];
                else
                    CHECK(std::abs(gradient[feature]) < 1e-6);
            CHECK(fixed_square == doctest::Approx(naive_square));
            if (near_words.free_largest(0.3 * fixed_square) == 0) break;
            near_words.arrange(near);
        }
        near_words.forget_all();
    }
}

}  // namespace
}  // namespace longtail::linear
