// What the trainer of short rows does where all rows together hold the bias weight: see background.hpp.

#include <cstdint>

#include "linear/postings.hpp"

namespace longtail::linear {

// The entry of the gradient that belongs to the shift of all margins, with a background.
double PostingsTrainer::bias_entry() const {
    const double t = near_.point.back();
    return near_.config.stiffness * (t * background_.shift - 1.0) + t * background_.pull + near_.slope_sum();
}

// The rows with a word that hold the background: once its weight moves they no longer follow it.
void PostingsTrainer::find_holders(std::int32_t feature) {
    for (std::int64_t i = postings_.holder_indptr[feature]; i < postings_.holder_indptr[feature + 1]; ++i)
        joining_.push_back(postings_.indptr[feature] + postings_.holder_places[i]);  // near ones do not join again
}

// The scale at which the far rows pull as much as they do when each of them has the gap `lift`.
double PostingsTrainer::scale_for(double lift) const {
    return 2.0 * core_.config.cost * core_.config.n_far * lift / background_.pull;
}

// Go on with the near rows and the weights that were found for far rows that share one shift, which is `lift`.
void PostingsTrainer::switch_to_background(double lift) {
    near_.has_background = true;
    near_.point.back() = scale_for(lift);
    near_words_.set_offsets(postings_.row_gaps);
    near_words_.keep_free(near_.point, static_cast<std::size_t>(n_core_));
    for (const std::int32_t feature : near_words_.free_features()) find_holders(feature);
    add_joining();
}

// Solve over the positives' words and all rows that have one of them, straight from the columns; the rows with a slope
// of their own are near. Nothing is arranged for them yet: often no other word must become free.
bool PostingsTrainer::solve_columns() {
    column_postings_.assign(static_cast<std::size_t>(core_.n_positives), -1);
    near_.clear_rows();
    const auto add_listed = [&](std::int64_t i) {
        near_.offsets.push_back(postings_.row_gaps[core_.rows[i]]);
        near_.words.insert(near_.words.end(), core_.places.begin() + core_.begins[i],
                           core_.places.begin() + core_.begins[i + 1]);
        near_.values.insert(near_.values.end(), core_.values.begin() + core_.begins[i],
                            core_.values.begin() + core_.begins[i + 1]);
        near_.begins.push_back(static_cast<std::int64_t>(near_.words.size()));
    };
    for (std::int64_t i = 0; i < core_.n_positives; ++i) add_listed(i);
    for (std::int64_t place = 0; place < n_core_; ++place) {
        const WordColumn& column = core_.columns[place];
        const std::int64_t begin = postings_.indptr[near_words_.free_features()[place]];
        const auto first = static_cast<std::int64_t>(near_.offsets.size());
        for (std::int64_t i = 0; i < column.size; ++i) {
            if (is_listed_.has(postings_.row_ids[begin + i])) continue;
            column_postings_.push_back(begin + i);
            near_.offsets.push_back(postings_.posting_gaps[begin + i]);
            near_.values.push_back(column.values[i]);
        }
        const auto last = static_cast<std::int64_t>(near_.offsets.size());
        near_.words.resize(near_.values.size(), static_cast<std::int32_t>(place));
        for (std::int64_t row = first; row < last; ++row) near_.begins.push_back(near_.begins.back() + 1);
        near_.add_run(first, last, static_cast<std::int32_t>(place));
    }
    const auto n_listed = static_cast<std::int64_t>(core_.rows.size());
    near_.size_begins.fill(static_cast<std::int64_t>(near_.offsets.size()) + core_.n_pairs);
    near_.size_begins[0] = static_cast<std::int64_t>(near_.offsets.size());
    for (std::int64_t i = core_.n_positives; i < n_listed; ++i) {
        column_postings_.push_back(listed_[i]);
        add_listed(i);
    }
    if (!solve_near()) return false;
    const std::vector<double>& slopes = near_.slopes();
    column_slopes_.assign(slopes.begin(), slopes.begin() + core_.n_positives);
    for (std::size_t row = static_cast<std::size_t>(core_.n_positives); row < column_postings_.size(); ++row) {
        if (slopes[row] == 0.0 && near_.offsets[row] <= 0.0F) continue;
        joining_.push_back(column_postings_[row]);
        column_slopes_.push_back(slopes[row]);
    }
    near_words_.add_postings(joining_, postings_.posting_gaps);
    near_words_.order_as_added();
    joining_.clear();
    has_columns_ = true;
    return true;
}

}  // namespace longtail::linear
