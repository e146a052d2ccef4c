#include "tree/tail.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace longtail::tree {
namespace {

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

// One label's centre while it is learnt: factor_ * centre_, so that shrinking it towards zero costs nothing.
class Centre {
public:
    explicit Centre(std::int64_t n_features) : centre_(static_cast<std::size_t>(n_features), 0.0F) {}

    void add(const ScaledRow& row, double weight) {
        const auto step = static_cast<float>(weight / factor_ * row.scale);
        if (row.indices.empty()) {
            if (touched_.empty())
                for (std::size_t j = 0; j < row.values.size(); ++j) touched_.push_back(static_cast<std::int32_t>(j));
            for (std::size_t j = 0; j < row.values.size(); ++j) change(j, step * row.values[j]);
        } else {
            for (std::size_t k = 0; k < row.indices.size(); ++k) {
                const auto j = static_cast<std::size_t>(row.indices[k]);
                if (centre_[j] == 0.0F) touched_.push_back(row.indices[k]);
                change(j, step * row.values[k]);
            }
        }
        bias_ += weight / factor_ * row.bias;
        squared_ += 2.0 * weight / factor_ * row.bias * (bias_ - 0.5 * weight / factor_ * row.bias);
    }
    void scale(double by) {
        factor_ *= by;
        if (std::fabs(factor_) > 1e-4) return;
        for (const std::int32_t j : touched_) centre_[static_cast<std::size_t>(j)] *= static_cast<float>(factor_);
        bias_ *= factor_;
        squared_ *= factor_ * factor_;
        factor_ = 1.0;
    }
    double squared_distance(const ScaledRow& row) const {
        double dot = 0.0;
        if (row.indices.empty()) {
            for (std::size_t j = 0; j < row.values.size(); ++j) dot += static_cast<double>(centre_[j]) * row.values[j];
        } else {
            for (std::size_t k = 0; k < row.indices.size(); ++k)
                dot += static_cast<double>(centre_[static_cast<std::size_t>(row.indices[k])]) * row.values[k];
        }
        dot = factor_ * (dot * row.scale + bias_ * row.bias);
        const double norm = row.scale > 0.0F ? 1.0 : 0.0;
        return std::max(0.0, norm - 2.0 * dot + factor_ * factor_ * squared_);
    }
    // Append to `out` and be zero again.
    void write(TailCentres& out) {
        std::sort(touched_.begin(), touched_.end());
        touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
        double norm = factor_ * bias_ * factor_ * bias_;
        for (const std::int32_t j : touched_) {
            const auto value = static_cast<float>(factor_ * centre_[static_cast<std::size_t>(j)]);
            centre_[static_cast<std::size_t>(j)] = 0.0F;
            if (value == 0.0F) continue;
            out.indices.push_back(j);
            out.values.push_back(value);
            norm += static_cast<double>(value) * value;
        }
        out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
        out.biases.push_back(static_cast<float>(factor_ * bias_));
        out.squared_norms.push_back(static_cast<float>(norm));
        touched_.clear();
        factor_ = 1.0;
        bias_ = 0.0;
        squared_ = 0.0;
    }

private:
    void change(std::size_t j, float by) {
        squared_ += static_cast<double>(by) * (2.0 * centre_[j] + by);
        centre_[j] += by;
    }
    std::vector<float> centre_;
    std::vector<std::int32_t> touched_;
    double factor_ = 1.0;
    double bias_ = 0.0;
    double squared_ = 0.0;  // of (centre_, bias_)
};

// Eq. 6's stationary weights: how strongly a row pulls (label observed) or pushes (not observed).
double pull_of(bool observed, double log_v, double p) {
    if (log_v > 60.0) return observed ? 1.0 : 0.0;
    const double v = std::exp(log_v);
    return observed ? v / (1.0 + v) : -p * v / ((1.0 + v) * (1.0 + v - p));
}

void ascend(const FeaturesView& x, std::span<const std::int32_t> rows, double p, const TailConfig& config,
            Random& random, Centre& centre) {
    const auto n_rows = std::visit([](const auto& view) { return view.n_rows; }, x);
    const auto n_others = static_cast<double>(n_rows - static_cast<std::int64_t>(rows.size()));
    const double negative_weight = n_others / static_cast<double>(config.n_negatives * static_cast<std::int64_t>(rows.size()));
    std::vector<std::int32_t> order(rows.begin(), rows.end());
    double n_steps = 0.0;
    for (std::int32_t epoch = 0; epoch < config.n_epochs; ++epoch) {
        for (std::size_t k = order.size(); k > 1; --k)
            std::swap(order[k - 1], order[random.below(static_cast<std::uint32_t>(k))]);
        for (const std::int32_t positive : order) {
            // Steps shrink as 1/t beyond the first pass; one pass at rate 1/t is the running mean itself.
            const double rate = config.learning_rate / (static_cast<double>(rows.size()) + n_steps++);
            for (std::int32_t k = 0; k <= config.n_negatives; ++k) {
                const bool observed = k == 0;
                const std::int64_t row = observed ? positive : random.below(static_cast<std::uint32_t>(n_rows));
                if (!observed && std::binary_search(rows.begin(), rows.end(), static_cast<std::int32_t>(row))) continue;
                const ScaledRow sample = scaled_row(x, row, config.bias);
                const double u = pull_of(observed, config.gamma * centre.squared_distance(sample), p);
                const double step = rate * u * (observed ? 1.0 : negative_weight);
                if (std::fabs(step) < 1e-9) continue;
                const double bounded = std::clamp(step, -0.5, 0.5);
                centre.scale(1.0 - bounded);
                centre.add(sample, bounded);
            }
        }
    }
}

}  // namespace

float tail_scale(std::span<const float> row_values, float bias) {
    double sum = static_cast<double>(bias) * bias;
    for (const float value : row_values) sum += static_cast<double>(value) * value;
    return sum > 0.0 ? static_cast<float>(1.0 / std::sqrt(sum)) : 0.0F;
}

TailCentres learn_tail(const FeaturesView& x, const LabelsView& label_rows, std::span<const float> propensities,
                       const TailConfig& config, Control& control) {
    const auto n_features = std::visit([](const auto& view) { return view.n_cols; }, x);
    TailCentres out;
    Centre centre(n_features);
    for (std::int64_t label_id = config.first_label; label_id < config.last_label; ++label_id) {
        control.throw_if_stopped();
        const auto rows = label_rows.row_labels(label_id);
        for (const std::int32_t row : rows)
            centre.add(scaled_row(x, row, config.bias), 1.0 / static_cast<double>(rows.size()));
        if (config.n_epochs > 0 && !rows.empty()) {
            Random random(config.seed, static_cast<std::uint64_t>(label_id));
            ascend(x, rows, propensities[static_cast<std::size_t>(label_id)], config, random, centre);
        }
        centre.write(out);
    }
    return out;
}

double tail_log_likelihood(const FeaturesView& x, const LabelsView& label_rows, std::int64_t label_id, double propensity,
                           const TailCentres& centres, const TailConfig& config) {
    const auto n_rows = std::visit([](const auto& view) { return view.n_rows; }, x);
    const auto n_features = std::visit([](const auto& view) { return view.n_cols; }, x);
    std::vector<double> centre(static_cast<std::size_t>(n_features), 0.0);
    const std::int64_t at = label_id - config.first_label;
    for (std::int64_t k = centres.indptr[at]; k < centres.indptr[at + 1]; ++k)
        centre[static_cast<std::size_t>(centres.indices[k])] = centres.values[k];
    const auto rows = label_rows.row_labels(label_id);
    double sum = 0.0;
    for (std::int64_t row = 0; row < n_rows; ++row) {
        const ScaledRow sample = scaled_row(x, row, config.bias);
        double dot = static_cast<double>(centres.biases[at]) * sample.bias;
        for (std::size_t k = 0; k < sample.values.size(); ++k)
            dot += centre[sample.indices.empty() ? k : static_cast<std::size_t>(sample.indices[k])] * sample.values[k] *
                   sample.scale;
        const double d2 = 1.0 - 2.0 * dot + centres.squared_norms[at];
        const double chance = propensity / (1.0 + std::exp(config.gamma * d2));
        const bool observed = std::binary_search(rows.begin(), rows.end(), static_cast<std::int32_t>(row));
        sum += std::log(observed ? chance : 1.0 - chance);
    }
    return sum / static_cast<double>(n_rows);
}

}  // namespace longtail::tree
