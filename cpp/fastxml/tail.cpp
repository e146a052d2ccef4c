#include "fastxml/tail.hpp"

#include <algorithm>
#include <cmath>

namespace longtail::fastxml {
namespace {

constexpr double kFar = 20.0;      // gamma d^2 beyond which a row without the label is left out
constexpr double kNoPull = 1e-12;  // rows that weigh less do not move a centre
constexpr double kSufficientIncrease = 0.1;
constexpr double kSmallestGain = 1e-7;
constexpr int kMaxHalvings = 40;

// Sparse and dense rows alike: the entries of (x, bias) scaled to length one, except the bias.
struct ScaledRow {
    std::span<const std::int32_t> indices;  // empty for dense rows
    std::span<const float> values;
    float scale;
    float bias;
};

ScaledRow scaled_row(const FeaturesView& x, std::int64_t row, float bias) {
    ScaledRow out{};
    if (const auto* csr = std::get_if<CsrView>(&x)) {
        out.indices = csr->row_indices(row);
        out.values = csr->row_values(row);
    } else {
        out.values = std::get<DenseView>(x).row(row);
    }
    out.scale = tail_scale(out.values, bias);
    out.bias = bias * out.scale;
    return out;
}

// Eq. 6's stationary weights: how strongly a row pulls (label observed) or pushes (not observed).
double pull_of(bool observed, double log_v, double p) {
    if (log_v > 60.0) return observed ? 1.0 : 0.0;
    const double v = std::exp(log_v);
    return observed ? v / (1.0 + v) : -p * v / ((1.0 + v) * (1.0 + v - p));
}

double dot_with(const std::vector<double>& vector, double bias, const ScaledRow& row) {
    double dot = 0.0;
    if (row.indices.empty())
        for (std::size_t j = 0; j < row.values.size(); ++j) dot += vector[j] * row.values[j];
    else
        for (std::size_t k = 0; k < row.indices.size(); ++k) dot += vector[row.indices[k]] * row.values[k];
    return dot * row.scale + bias * row.bias;
}

// A vector over features and bias that knows which of its entries were touched.
struct SparseSum {
    explicit SparseSum(std::int64_t n_features)
        : values(static_cast<std::size_t>(n_features), 0.0), is_touched(static_cast<std::size_t>(n_features), 0) {}

    void add(const ScaledRow& row, double weight) {
        const double step = weight * row.scale;
        for (std::size_t k = 0; k < row.values.size(); ++k) {
            const std::int32_t j = row.indices.empty() ? static_cast<std::int32_t>(k) : row.indices[k];
            touch(j);
            values[j] += step * row.values[k];
        }
        bias += weight * row.bias;
    }
    void add(const SparseSum& other, double weight) {
        for (const std::int32_t j : other.touched) {
            touch(j);
            values[j] += weight * other.values[j];
        }
        bias += weight * other.bias;
    }
    double dot(const SparseSum& other) const {
        double sum = bias * other.bias;
        for (const std::int32_t j : touched) sum += values[j] * other.values[j];
        return sum;
    }
    void clear() {
        for (const std::int32_t j : touched) {
            values[j] = 0.0;
            is_touched[j] = 0;
        }
        touched.clear();
        bias = 0.0;
    }

    std::vector<double> values;
    std::vector<std::uint8_t> is_touched;
    std::vector<std::int32_t> touched;
    double bias = 0.0;

private:
    void touch(std::int32_t j) {
        if (is_touched[j] != 0) return;
        is_touched[j] = 1;
        touched.push_back(j);
    }
};

// Gradient ascent of eq. 6 for one label at a time, from the mean of its rows. Along a step every squared distance is a
// quadratic in the step's length, so that trying a length costs no pass over the features.
class Ascent {
public:
    Ascent(const FeaturesView& x, std::span<const float> row_weights, const TailConfig& config, Control& control)
        : x_(x),
          row_weights_(row_weights),
          config_(config),
          control_(control),
          slope_(std::visit([](const auto& v) { return v.n_cols; }, x)) {}

    void climb(std::span<const std::int32_t> positives, double p, SparseSum& centre);

private:
    struct Row {
        std::int32_t id;
        bool observed;
        double weight;
        double squared;  // of the scaled row: one, or zero for an empty one
        double dot;      // with the centre
        double change;   // with the slope
    };
    void choose_rows(std::span<const std::int32_t> positives, const SparseSum& centre);
    double log_likelihood(double length) const;

    FeaturesView x_;
    std::span<const float> row_weights_;
    const TailConfig& config_;
    Control& control_;
    SparseSum slope_;
    std::vector<Row> rows_;
    double p_ = 1.0;
    double norm_ = 0.0;         // of the centre, squared
    double norm_change_ = 0.0;  // 2 centre . slope
    double slope_norm_ = 0.0;   // squared
};

// The rows that have a say: a row without the label counts p exp(-gamma d^2), which is nothing when it is far away.
void Ascent::choose_rows(std::span<const std::int32_t> positives, const SparseSum& centre) {
    const auto n_rows = static_cast<std::int32_t>(std::visit([](const auto& view) { return view.n_rows; }, x_));
    rows_.clear();
    std::size_t next = 0;
    for (std::int32_t id = 0; id < n_rows; ++id) {
        const bool observed = next < positives.size() && positives[next] == id;
        next += observed ? 1 : 0;
        const ScaledRow row = scaled_row(x_, id, config_.bias);
        const double squared = row.scale > 0.0F ? 1.0 : 0.0;
        const double dot = dot_with(centre.values, centre.bias, row);
        if (observed || config_.gamma * (squared - 2.0 * dot + norm_) < kFar)
            rows_.push_back({id, observed, row_weights_.empty() ? 1.0 : row_weights_[id], squared, dot, 0.0});
    }
}

double Ascent::log_likelihood(double length) const {
    const double norm = norm_ + length * (norm_change_ + length * slope_norm_);
    double sum = 0.0;
    for (const Row& row : rows_) {
        const double log_v = config_.gamma * std::max(0.0, row.squared - 2.0 * (row.dot + length * row.change) + norm);
        const double chance = p_ / (1.0 + std::exp(std::min(log_v, 700.0)));
        sum += row.weight * (row.observed ? -log_v - std::log1p(std::exp(-log_v)) : std::log1p(-chance));
    }
    return sum;
}

void Ascent::climb(std::span<const std::int32_t> positives, double p, SparseSum& centre) {
    p_ = std::min(p, 1.0 - 1e-9);
    norm_ = centre.dot(centre);
    choose_rows(positives, centre);
    norm_change_ = slope_norm_ = 0.0;
    double reached = log_likelihood(0.0);
    double length = 0.0;
    for (std::int32_t step = 0; step < config_.max_steps; ++step) {
        control_.throw_if_stopped();
        slope_.clear();
        double pull = 0.0;
        double size = 0.0;
        for (const Row& row : rows_) {
            const double u =
                row.weight * pull_of(row.observed, config_.gamma * (row.squared - 2.0 * row.dot + norm_), p_);
            if (std::fabs(u) < kNoPull) continue;
            slope_.add(scaled_row(x_, row.id, config_.bias), u);
            pull += u;
            size += std::fabs(u);
        }
        slope_.add(centre, -pull);
        slope_norm_ = slope_.dot(slope_);
        if (size == 0.0 || slope_norm_ == 0.0) break;
        norm_change_ = 2.0 * slope_.dot(centre);
        for (Row& row : rows_) row.change = dot_with(slope_.values, slope_.bias, scaled_row(x_, row.id, config_.bias));
        length = std::max(2.0 * length, 1.0 / size);
        double gain = 0.0;
        for (int halving = 0; halving < kMaxHalvings; ++halving, length *= 0.5) {
            gain = log_likelihood(length) - reached;
            if (gain >= kSufficientIncrease * length * 2.0 * config_.gamma * slope_norm_) break;
            gain = 0.0;
        }
        if (gain <= 0.0) break;
        centre.add(slope_, length);
        norm_ = centre.dot(centre);
        for (Row& row : rows_) row.dot += length * row.change;
        reached += gain;
        if (gain < kSmallestGain * std::fabs(reached)) break;
    }
}

// Append a centre, and be zero again.
void write_centre(SparseSum& centre, TailCentres& out) {
    std::sort(centre.touched.begin(), centre.touched.end());
    double norm = 0.0;
    for (const std::int32_t j : centre.touched) {
        const auto value = static_cast<float>(centre.values[j]);
        if (value == 0.0F) continue;
        out.indices.push_back(j);
        out.values.push_back(value);
        norm += static_cast<double>(value) * value;
    }
    const auto bias = static_cast<float>(centre.bias);
    out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    out.biases.push_back(bias);
    out.squared_norms.push_back(static_cast<float>(norm + static_cast<double>(bias) * bias));
    centre.clear();
}

}  // namespace

float tail_scale(std::span<const float> row_values, float bias) {
    double sum = static_cast<double>(bias) * bias;
    for (const float value : row_values) sum += static_cast<double>(value) * value;
    return sum > 0.0 ? static_cast<float>(1.0 / std::sqrt(sum)) : 0.0F;
}

TailCentres learn_tail(const FeaturesView& x, const LabelsView& label_rows, std::span<const float> propensities,
                       std::span<const float> row_weights, const TailConfig& config, Control& control) {
    const auto weight = [&](std::int32_t row) { return row_weights.empty() ? 1.0 : row_weights[row]; };
    TailCentres out;
    SparseSum centre(std::visit([](const auto& view) { return view.n_cols; }, x));
    Ascent ascent(x, row_weights, config, control);
    for (std::int64_t label_id = config.first_label; label_id < config.last_label; ++label_id) {
        control.throw_if_stopped();
        const auto rows = label_rows.row_labels(label_id);
        double total = 0.0;
        for (const std::int32_t row : rows) total += weight(row);
        for (const std::int32_t row : rows) centre.add(scaled_row(x, row, config.bias), weight(row) / total);
        if (config.max_steps > 0 && !rows.empty())
            ascent.climb(rows, propensities[static_cast<std::size_t>(label_id)], centre);
        write_centre(centre, out);
    }
    return out;
}

}  // namespace longtail::fastxml
