// How the trainer through lists finds the rows that join a label's set.

#include <algorithm>
#include <cmath>

#include "linear/list_trainer.hpp"

namespace longtail::linear {

namespace {

// Tuned on wnwords.
constexpr double kGrowth = 1.0;     // a set grows by at most this share of itself in one round,
constexpr double kFarGrowth = 2.0;  // or this, where rows without a word of the label are above their margin
constexpr std::size_t kMinGrowth = 64;
constexpr double kFewShare = 0.05;   // when fewer rows than this share of the set join, all rows are sought
constexpr double kLeastFloor = 0.1;  // for rare words, while the bias is not yet low enough (less at low costs)
constexpr double kReachShare = 0.1;  // rows are near their margin within this share of what the bias lies below -1
constexpr double kMaxFarCost = 2.0;
constexpr std::int64_t kFarRows = 512;  // about so many are looked at first without a background
constexpr int kShareSteps = 12;         // to find the share of the background
constexpr double kMostShare = 2.0;      // of it, to begin with,
constexpr double kShareError = 1e-3;    // and how exactly
constexpr std::int64_t kMaxReads = 4;   // a label whose searches read more than so many times X is trained another way

}  // namespace

// Rows above their margin join the set; false when that takes too long.
bool ListTrainer::find_rows() {
    const std::vector<std::int32_t>& features = local_.features();
    const std::size_t n_words = features.size();
    for (std::size_t i = 0; i < n_words; ++i) by_feature_[features[i]] = weights_[i];
    const bool is_found = check_near() || search();
    for (std::size_t i = 0; i < n_words; ++i) by_feature_[features[i]] = 0.0F;
    return is_found;
}

// Look at the rows that the last search left near their margin; false when others may have come there.
bool ListTrainer::check_near() {
    if (near_reach_ <= 0.0F) return false;
    // A margin grows by the change of the bias, and at most by ‖x‖ times the length of what other weights have grown by.
    double square = 0.0;
    for (std::size_t i = 0; i < local_.features().size(); ++i) {
        const double before = i < sought_weights_.size() ? static_cast<double>(sought_weights_[i]) : 0.0;
        const double growth = std::max(0.0, static_cast<double>(weights_[i]) - before);
        square += growth * growth;
    }
    const float change = config_.bias * (bias_weight() - sought_bias_weight_) +
                         static_cast<float>(1.0001 * lists_.max_row_norm() * std::sqrt(square));
    if (change > near_reach_) return false;
    checked_ids_.clear();
    for (const FoundRow& row : near_)
        if (row.value + change > -1.0F && !is_member_.has(row.row_id)) checked_ids_.push_back(row.row_id);
    check_rows(0.0F);
    return true;
}

bool ListTrainer::search() {
    const double depth = -1.0 - static_cast<double>(config_.bias * bias_weight());  // of the rows without any word
    list_words();
    if (!seeks_all_) {
        const std::int64_t n_before = problem_.size();
        search_rare(depth);
        seeks_all_ = static_cast<double>(problem_.size() - n_before) < kFewShare * static_cast<double>(n_before);
        knows_all_ = false;
        if (!seeks_all_) return true;
    }
    if (depth <= 0.0 && !has_far_rows_) {
        uses_background(config_) ? add_far() : sample_far();
        knows_all_ = false;
        return true;
    }
    const double reach = std::max(0.0, kReachShare * depth);
    std::int64_t cost = depth > 0.0 ? finder_.plan(words_, depth - reach, other_square_) : -1;
    const bool seeks_far = cost < 0;
    if (seeks_far) cost = lists_.n_rows();
    spent_ += cost;
    if (spent_ > kMaxReads * rows_.n_stored()) return false;
    list_found(seeks_far ? finder_.find_far(words_, depth, other_square_, by_feature_.data())
                         : finder_.find(by_feature_.data()));
    check_rows(static_cast<float>(reach));
    near_ = checked_;
    near_reach_ = static_cast<float>(reach);
    sought_weights_.assign(weights_.begin(), weights_.begin() + std::ssize(local_.features()));
    sought_bias_weight_ = bias_weight();
    return true;
}

// Among the rows that rare words of the label lift.
void ListTrainer::search_rare(double depth) {
    spent_ += finder_.plan_rare(words_, std::max(depth, kLeastFloor * std::min(1.0, config_.cost)));
    list_found(finder_.find(by_feature_.data()));
    check_rows(0.0F);
}

// At higher costs so few labels have far rows that the background would take longer than it saves.
bool ListTrainer::uses_background(const OvaConfig& config) { return config.cost <= kMaxFarCost; }

// Rows are above their margin without any word of the label: some of all rows bring the bias about where it belongs.
void ListTrainer::sample_far() {
    has_far_rows_ = true;
    const std::int64_t stride = std::max<std::int64_t>(1, lists_.n_rows() / kFarRows);
    checked_ids_.clear();
    for (std::int64_t row = 0; row < lists_.n_rows(); row += stride)
        if (!is_member_.has(row)) checked_ids_.push_back(static_cast<std::int32_t>(row));
    check_rows(0.0F);
}

// The rows that hold the background.
void ListTrainer::set_far() {
    const Background background = moments_.background.empty() ? solve_background(rows_, moments_, config_, control_)
                                                              : Background(moments_.background);
    far_shift_ = background.shift;
    for (std::int64_t row = 0; row < rows_.n_rows(); ++row)
        if (const double gap = background.gap(rows_, row); gap > 0.0)
            far_.push_back({lists_.place(row), static_cast<float>(gap)});
    std::sort(far_.begin(), far_.end(), [](const FoundRow& a, const FoundRow& b) { return a.row_id < b.row_id; });
}

// Rows are above their margin without any word of the label. Those that hold the background join first: many rows with
// tiny gaps, which bring the bias close to -1. Their gaps are taken as t times those of the background, less what the
// label's weights lower them by, with t where the bias is best.
void ListTrainer::add_far() {
    if (far_.empty()) set_far();
    has_far_rows_ = true;
    far_margins_.clear();
    for (const FoundRow& far : far_) far_margins_.push_back(lists_.dot(far.row_id, by_feature_.data()));
    const double t = far_share();
    for (std::size_t i = 0; i < far_.size(); ++i) {
        const double gap = t * static_cast<double>(far_[i].value) + far_margins_[i];
        if (gap <= 0.0 || is_member_.has(far_[i].row_id)) continue;
        append(far_[i].row_id, -1.0F, config_.cost, static_cast<float>(gap - 1.0));
        problem_.betas.back() = static_cast<float>(-2.0 * config_.cost * gap);
        local_.add_to(problem_.size() - 1, problem_.betas.back(), weights_.data());
        bias_weight() += problem_.betas.back() * config_.bias;
    }
    // The next round ends at a share of the gradient that it begins with: it must not take that from older margins.
    for (std::int64_t i = 0; i < problem_.size(); ++i)
        problem_.margins[i] = local_.dot(i, weights_.data()) + config_.bias * bias_weight();
}

// Where the slope of the objective along t, which moves the bias and the far rows, is zero: Newton steps on it.
double ListTrainer::far_share() const {
    const double stiffness = 1.0 / (static_cast<double>(config_.bias) * config_.bias);
    double low = 0.0;
    double high = kMostShare;
    double t = 1.0;
    for (int step = 0; step < kShareSteps; ++step) {
        const double shift = t * far_shift_ - 1.0 - static_cast<double>(config_.bias) * weights_.back();
        double slope = stiffness * (t * far_shift_ - 1.0);
        double bend = stiffness * far_shift_;
        for (std::int64_t i = 0; i < problem_.size(); ++i) {
            const double gap = 1.0 - problem_.signs[i] * (problem_.margins[i] + shift);
            const double twice = gap > 0.0 ? 2.0 * problem_.costs[i] : 0.0;
            slope -= twice * problem_.signs[i] * gap;
            bend += twice * far_shift_;
        }
        for (std::size_t i = 0; i < far_.size(); ++i) {
            const double own = far_[i].value;
            const double gap = t * own + static_cast<double>(far_margins_[i]);
            const double twice = gap > 0.0 ? 2.0 * config_.cost : 0.0;
            slope += twice * gap;
            bend += twice * own;
        }
        (slope < 0.0 ? low : high) = t;
        const double last = t;
        t -= slope / bend;
        if (!(t > low && t < high)) t = 0.5 * (low + high);
        if (std::abs(t - last) < kShareError) break;
    }
    return t;
}

void ListTrainer::list_words() {
    const std::vector<std::int32_t>& features = local_.features();
    words_.clear();
    other_square_ = 0.0;
    for (std::size_t i = 0; i < features.size(); ++i) {
        if (weights_[i] <= 0.0F) continue;
        if (static_cast<std::int64_t>(i) < n_core_)
            words_.push_back({features[i], weights_[i]});
        else
            other_square_ += static_cast<double>(weights_[i]) * weights_[i];
    }
}

void ListTrainer::list_found(const std::vector<FoundRow>& found) {
    checked_ids_.clear();
    for (const FoundRow& row : found)
        if (!is_member_.has(row.row_id)) checked_ids_.push_back(row.row_id);
}

// Of the rows to check, those above their margin join the set, if they are not too many: else the worst. Leaves in
// checked_ those that are above it or less than `reach` below. Takes the rows for all that may be above.
void ListTrainer::check_rows(float reach) {
    constexpr std::size_t kFar = 24;  // rows are fetched so many ahead: first their place in X, then what stands there
    constexpr std::size_t kNear = 10;
    const float bias = config_.bias * bias_weight();
    const std::size_t n_rows = checked_ids_.size();
    checked_.clear();
    for (std::size_t i = 0; i < n_rows; ++i) {
        if (i + kFar < n_rows) lists_.prefetch_place(checked_ids_[i + kFar]);
        if (i + kNear < n_rows) lists_.prefetch(checked_ids_[i + kNear]);
        const float margin = lists_.dot(checked_ids_[i], by_feature_.data()) + bias;
        if (margin > -1.0F - reach) checked_.push_back({checked_ids_[i], margin});
    }
    const double growth = bias < -1.0F ? kGrowth : kFarGrowth;
    const auto most = std::max(kMinGrowth, static_cast<std::size_t>(growth * static_cast<double>(problem_.size())));
    if (checked_.size() > most)
        std::nth_element(checked_.begin(), checked_.begin() + static_cast<std::ptrdiff_t>(most), checked_.end(),
                         is_above);
    knows_all_ = true;
    n_outside_ = 0;
    outside_loss_ = 0.0;
    for (std::size_t i = 0; i < checked_.size(); ++i) {
        if (i + kNear < checked_.size()) lists_.prefetch(checked_[i + kNear].row_id);
        const double gap = 1.0 + static_cast<double>(checked_[i].value);
        if (gap <= 0.0) continue;
        if (i < most) {
            append(checked_[i].row_id, -1.0F, config_.cost, checked_[i].value);
        } else {
            outside_loss_ += config_.cost * gap * gap;
            ++n_outside_;
        }
    }
}

}  // namespace longtail::linear
