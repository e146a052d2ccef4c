#include "xmc_text/row_arrays.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace longtail {
namespace {

template <class T>
void copy(const T* from, std::int64_t n, T* to) {
    if (n > 0) std::memcpy(to, from, n * sizeof(T));
}

void copy_ends(const std::vector<std::int64_t>& ends, std::int64_t n_rows, std::int64_t base, std::int64_t* to) {
    for (std::int64_t row = 0; row < n_rows; ++row) to[row] = base + ends[row];
}

}  // namespace

RowArrays::RowArrays() {
    for (auto* indptr : {&rows_.feature_indptr, &rows_.label_indptr}) {
        indptr->resize(1);
        indptr->data()[0] = 0;
    }
}

void RowArrays::begin_sequence() {
    turn_ = 0;
    is_stopped_ = false;
}

bool RowArrays::stop() {
    const std::lock_guard lock(turn_mutex_);
    turn_changed_.notify_all();
    return !std::exchange(is_stopped_, true);
}

template <class T>
void RowArrays::make_room(GrowingArray<T>& array, std::int64_t n_more) {
    const std::size_t size = array.size() + n_more;
    if (size > array.capacity()) {
        const std::unique_lock no_copies(arrays_mutex_);
        array.reserve(std::max(size, static_cast<std::size_t>(static_cast<double>(size) * expected_scale_)));
    }
    array.resize(size);
}

bool RowArrays::append(std::int64_t turn, const RowBlock& block,
                       const std::function<std::int64_t(const RowBlock&)>& admit) {
    {
        std::unique_lock lock(turn_mutex_);
        turn_changed_.wait(lock, [&] { return turn_ == turn || is_stopped_; });
        if (is_stopped_) return false;
    }
    const std::int64_t n_rows = admit(block);
    // Rows that are not admitted hold nothing, so features and labels are taken whole.
    const std::int64_t first_row = rows_.n_rows;
    const auto first_feature = static_cast<std::int64_t>(rows_.feature_indices.size());
    const auto first_label = static_cast<std::int64_t>(rows_.label_indices.size());
    make_room(rows_.feature_indptr, n_rows);
    make_room(rows_.label_indptr, n_rows);
    make_room(rows_.feature_indices, block.n_features);
    make_room(rows_.feature_values, block.n_features);
    make_room(rows_.label_indices, block.n_labels);
    rows_.n_rows += n_rows;

    const std::shared_lock copying(arrays_mutex_);
    {
        const std::lock_guard lock(turn_mutex_);
        ++turn_;
        turn_changed_.notify_all();
    }
    copy_ends(block.feature_ends, n_rows, first_feature, rows_.feature_indptr.data() + first_row + 1);
    copy_ends(block.label_ends, n_rows, first_label, rows_.label_indptr.data() + first_row + 1);
    copy(block.feature_ids.get(), block.n_features, rows_.feature_indices.data() + first_feature);
    copy(block.values.get(), block.n_features, rows_.feature_values.data() + first_feature);
    copy(block.label_ids.get(), block.n_labels, rows_.label_indices.data() + first_label);
    return true;
}

TextRows RowArrays::release() {
    rows_.feature_indptr.shrink_to_fit();
    rows_.feature_indices.shrink_to_fit();
    rows_.feature_values.shrink_to_fit();
    rows_.label_indptr.shrink_to_fit();
    rows_.label_indices.shrink_to_fit();
    return std::move(rows_);
}

}  // namespace longtail
