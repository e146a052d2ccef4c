#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <vector>

#include "base/random.hpp"
#include "metrics/hits.hpp"
#include "metrics/label_counts.hpp"

using namespace longtail;

namespace {

struct Batch {
    std::int64_t n_labels = 0;
    std::int64_t n_ranks = 0;
    std::vector<std::int32_t> label_ids;
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<std::int32_t> n_relevant;
    std::vector<double> weights;

    std::int64_t n_rows() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
    RankedView ranked() const { return {n_rows(), n_ranks, label_ids}; }
    LabelsView labels() const { return {n_rows(), n_labels, indptr, indices}; }
};

Batch random_batch(std::int64_t n_rows, std::int32_t n_labels, std::int64_t n_ranks, std::uint64_t seed) {
    Random random(seed, 0);
    Batch batch;
    batch.n_labels = n_labels;
    batch.n_ranks = n_ranks;
    for (std::int32_t label = 0; label < n_labels; ++label) batch.weights.push_back(1.0 + 10.0 * random.uniform());
    std::vector<std::int32_t> order(n_labels);
    for (std::int32_t label = 0; label < n_labels; ++label) order[label] = label;
    const auto shuffle = [&] {
        for (std::uint32_t i = n_labels - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    };
    for (std::int64_t row = 0; row < n_rows; ++row) {
        shuffle();
        const std::int64_t n_predicted = random.below(static_cast<std::uint32_t>(n_ranks) + 1);
        for (std::int64_t rank = 0; rank < n_ranks; ++rank)
            batch.label_ids.push_back(rank < n_predicted ? order[rank] : -1);
        shuffle();
        const std::int64_t n_observed = random.below(7);
        batch.indices.insert(batch.indices.end(), order.begin(), order.begin() + n_observed);
        std::sort(batch.indices.end() - n_observed, batch.indices.end());
        batch.indptr.push_back(static_cast<std::int64_t>(batch.indices.size()));
        batch.n_relevant.push_back(static_cast<std::int32_t>(n_observed + random.below(3)));
    }
    return batch;
}

// The naive twin: one number per (group, rank), each found by its definition.
struct NaiveGroup {
    std::int64_t n_rows = 0;
    std::vector<std::int64_t> hits;
    std::vector<double> gains, ideal_gains;
};

std::map<std::pair<std::int64_t, std::int64_t>, NaiveGroup> naive_groups(const Batch& batch) {
    std::map<std::pair<std::int64_t, std::int64_t>, NaiveGroup> groups;
    for (std::int64_t row = 0; row < batch.n_rows(); ++row) {
        const auto truth = batch.labels().row_labels(row);
        auto& group = groups[{static_cast<std::int64_t>(truth.size()), batch.n_relevant[row]}];
        group.hits.resize(batch.n_ranks);
        group.gains.resize(batch.n_ranks);
        group.ideal_gains.resize(batch.n_ranks);
        ++group.n_rows;
        std::vector<double> row_weights;
        for (const auto label : truth) row_weights.push_back(batch.weights[label]);
        std::sort(row_weights.rbegin(), row_weights.rend());
        for (std::int64_t rank = 0; rank < batch.n_ranks; ++rank) {
            const auto label = batch.ranked().row(row)[rank];
            if (std::find(truth.begin(), truth.end(), label) != truth.end()) {
                ++group.hits[rank];
                group.gains[rank] += batch.weights[label];
            }
            if (rank < static_cast<std::int64_t>(row_weights.size())) group.ideal_gains[rank] += row_weights[rank];
        }
    }
    return groups;
}

HitTable count(const Batch& batch, int n_threads) {
    Control control;
    return count_hits(batch.ranked(), batch.labels(), {Weights::Per::kLabel, batch.weights}, batch.n_relevant,
                      n_threads, control);
}

}  // namespace

TEST_CASE("count_hits agrees with its naive twin") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Batch batch = random_batch(50, 8, 1 + static_cast<std::int64_t>(seed % 7), seed);
        const HitTable table = count(batch, 1);
        const auto expected = naive_groups(batch);
        REQUIRE(table.n_groups() == expected.size());
        for (std::size_t group = 0; group < table.n_groups(); ++group) {
            const NaiveGroup& naive = expected.at({table.n_observed[group], table.n_relevant[group]});
            CHECK(table.n_rows[group] == naive.n_rows);
            for (std::int64_t rank = 0; rank < batch.n_ranks; ++rank) {
                const std::size_t slot = group * batch.n_ranks + rank;
                CHECK(table.hits[slot] == naive.hits[rank]);
                CHECK(table.gains[slot] == doctest::Approx(naive.gains[rank]));
                CHECK(table.ideal_gains[slot] == doctest::Approx(naive.ideal_gains[rank]));
            }
        }
    }
}

TEST_CASE("count_hits gives the same bytes for any number of threads") {
    const Batch batch = random_batch(30'000, 50, 5, 1);
    const HitTable one = count(batch, 1);
    for (const int n_threads : {2, 3, 8}) {
        const HitTable many = count(batch, n_threads);
        CHECK(one.n_observed == many.n_observed);
        CHECK(one.n_relevant == many.n_relevant);
        CHECK(one.hits == many.hits);
        CHECK(one.gains == many.gains);
        CHECK(one.ideal_gains == many.ideal_gains);
        CHECK(one.weight_sums == many.weight_sums);
    }
}

TEST_CASE("weights per entry that repeat the weights per label change nothing") {
    const Batch batch = random_batch(200, 8, 3, 2);
    std::vector<double> per_entry;
    for (const auto label : batch.indices) per_entry.push_back(batch.weights[label]);
    Control control;
    const HitTable entries =
        count_hits(batch.ranked(), batch.labels(), {Weights::Per::kEntry, per_entry}, batch.n_relevant, 1, control);
    const HitTable labels = count(batch, 1);
    CHECK(entries.gains == labels.gains);
    CHECK(entries.ideal_gains == labels.ideal_gains);
    CHECK(entries.weight_sums == labels.weight_sums);
}

TEST_CASE("count_hits refuses rankings that no model should give") {
    Batch batch;
    batch.n_labels = 4;
    batch.n_ranks = 3;
    batch.indptr = {0, 1};
    batch.indices = {2};
    const auto count_plain = [&] {
        Control control;
        return count_hits(batch.ranked(), batch.labels(), {}, batch.n_relevant, 1, control);
    };
    batch.label_ids = {0, 4, -1};
    CHECK_THROWS_WITH(count_plain(), "top: row 0 predicts label 4, but Y has labels 0 .. 3 (-1 pads)");
    batch.label_ids = {0, -2, -1};
    CHECK_THROWS_AS(count_plain(), std::invalid_argument);
    batch.label_ids = {0, -1, 2};
    CHECK_THROWS_WITH(count_plain(), "top: row 0 has a label after the padding -1, which must come last");
    batch.label_ids = {2, 0, 2};
    CHECK_THROWS_WITH(count_plain(), "top: row 0 predicts label 2 twice");
    batch.label_ids = {2, 0, 1};
    batch.n_relevant = {0};
    CHECK_THROWS_WITH(count_plain(), "n_relevant: row 0 must be between its 1 labels in Y and all 4, got 0");
    batch.n_relevant = {5};
    CHECK_THROWS_AS(count_plain(), std::invalid_argument);
    batch.n_relevant = {};
    CHECK(count_plain().first_hits == std::vector<std::int64_t>{1, 0, 0});
    CHECK(count_plain().predicted == std::vector<std::int64_t>{1, 1, 1});
}

TEST_CASE("labels are counted by the part of the ranks where they are given") {
    using Counts = std::vector<std::int64_t>;
    Counts n_rows(4), n_given(8), n_hits(8);
    const std::vector<std::int32_t> parts{0, 1, 1};
    const auto add = [&](const std::vector<std::int32_t>& label_ids, const std::vector<std::int32_t>& truth) {
        const std::vector<std::int64_t> indptr{0, static_cast<std::int64_t>(truth.size())};
        add_label_counts({1, 3, label_ids}, {1, 4, indptr, truth}, {parts, n_rows, n_given, n_hits});
    };
    add({3, 0, 2}, {0, 1});
    add({0, -1, -1}, {1});
    CHECK(n_rows == Counts{1, 2, 0, 0});
    CHECK(n_given == Counts{1, 0, 0, 1, 1, 0, 1, 0});
    CHECK(n_hits == Counts{0, 0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("rank_scores orders stored scores, breaks ties by lower id and pads") {
    const std::vector<std::int64_t> indptr{0, 3, 3, 5};
    const std::vector<std::int32_t> indices{0, 1, 4, 2, 3};
    const std::vector<float> scores{0.5F, 0.9F, 0.5F, -1.0F, -2.0F};
    Control control;
    CHECK(rank_scores({3, 5, indptr, indices, scores}, 2, control) == std::vector<std::int32_t>{1, 0, -1, -1, 2, 3});
}
