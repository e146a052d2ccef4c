#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longtail::random_tree {

// Score the splits of one node while rows join one side. Labels are numbered within the node.
class SideScores {
public:
    // `totals`: the sum of gains of each label over all rows of the node.
    explicit SideScores(bool is_ndcg) : is_ndcg_(is_ndcg) {}
    void begin_node(std::span<const double> totals);
    void begin_side();
    void add_row(std::span<const std::int32_t> labels, double gain);
    // The score of both sides; a greater one is better.
    double score();

private:
    double gini() const;
    double ndcg();
    double discounted_side();
    double discounted_rest();

    bool is_ndcg_;
    std::span<const double> totals_;
    double total_ = 0.0, total_squares_ = 0.0;
    double side_ = 0.0, side_squares_ = 0.0, rest_squares_ = 0.0;
    std::vector<double> sums_;                // of the side, by label
    std::vector<std::int32_t> touched_;       // labels of the side
    std::vector<std::int32_t> by_total_;      // all labels, greatest total first
    std::vector<double> discounts_, sorted_;  // 1 / log2(2 + rank); scratch
};

}  // namespace longtail::random_tree
