#include "xmc_text/row_parser.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "xmc_text/numbers.hpp"

namespace longtail {
namespace {

// What is wrong, and at which character.
struct SyntaxError : std::runtime_error {
    SyntaxError(const char* at, const std::string& what) : std::runtime_error(what), where(at) {}
    const char* where;
};

std::string describe(char c) {
    if (c == '\n') return "the end of the line";
    if (c > ' ' && c < 0x7F) return std::string("'") + c + "'";
    char text[16];
    std::snprintf(text, sizeof text, "byte 0x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    return c == ' ' ? "a blank" : c == '\t' ? "a tab" : c == '\r' ? "a carriage return" : text;
}

std::string range_message(const char* what, std::int64_t id, std::int64_t first, std::int64_t last) {
    const std::string shown = id == kTooLargeId ? "too large" : std::to_string(id);
    if (last < first) return std::string(what) + " is " + shown + ", but there are none";
    return std::string(what) + " is " + shown + ", outside " + std::to_string(first) + " .. " + std::to_string(last);
}

constexpr std::int64_t kMaxInsertionSort = 32;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

class RowParser {
public:
    RowParser(const RowFormat& format, RowBlock& block)
        : format_(format),
          n_feature_ids_(format.n_features < 0 ? INT32_MAX : format.n_features),
          n_label_ids_(format.n_labels < 0 ? INT32_MAX : format.n_labels),
          block_(block),
          feature_ids_(block.feature_ids.get()),
          values_(block.values.get()),
          label_ids_(block.label_ids.get()) {}

    // Parse the line that begins at `text`; returns the begin of the next.
    const char* parse_line(const char* text) {
        n_features_ = first_feature_ = block_.n_features;
        n_labels_ = first_label_ = block_.n_labels;
        if (format_.has_comments && (*text == '\n' || *text == '\r' || *text == '#')) {
            if (const char* next = skip_empty_line(text)) return next;
        }
        const char* next = format_.has_labels ? parse_labels(text) : text;
        next = parse_features(next);
        if (!features_are_sorted_) sort_features(text);
        if (!labels_are_sorted_) sort_labels();
        if (n_features_ > first_feature_)
            block_.max_feature_id = std::max<std::int64_t>(block_.max_feature_id, feature_ids_[n_features_ - 1]);
        if (n_labels_ > first_label_)
            block_.max_label_id = std::max<std::int64_t>(block_.max_label_id, label_ids_[n_labels_ - 1]);
        block_.n_features = n_features_;
        block_.n_labels = n_labels_;
        block_.feature_ends.push_back(n_features_);
        block_.label_ends.push_back(n_labels_);
        return next;
    }

private:
    // A line that is empty but for a comment is no row; a line of blanks is a row without labels and features.
    static const char* skip_empty_line(const char* text) {
        while (*text == '\r') ++text;
        if (*text == '#')
            while (*text != '\n') ++text;
        return *text == '\n' ? text + 1 : nullptr;
    }

    const char* parse_labels(const char* next) {
        labels_are_sorted_ = true;
        if (static_cast<unsigned char>(*next - '0') >= 10) return next;  // parse_features says what is wrong, if it is
        const char* const begin = next;
        std::int64_t previous = -1;
        for (;;) {
            const ParsedId parsed = parse_id(next);
            if (parsed.id < 0) throw SyntaxError(next, "expected a label id, got " + describe(*next));
            if (*parsed.end == ':' && n_labels_ == first_label_) return begin;  // no labels: the first feature
            if (parsed.id >= n_label_ids_)
                throw SyntaxError(next, range_message("label id", parsed.id, 0, n_label_ids_ - 1));
            labels_are_sorted_ = labels_are_sorted_ && parsed.id > previous;
            previous = parsed.id;
            label_ids_[n_labels_++] = static_cast<std::int32_t>(parsed.id);
            next = parsed.end;
            if (*next != ',') break;
            ++next;
        }
        if (!is_blank(*next) && *next != '\n' && *next != '\r' && !(*next == '#' && format_.has_comments))
            throw SyntaxError(next, "expected ',' or a blank after a label id, got " + describe(*next));
        return next;
    }

    // Parse features to the end of the line; returns the begin of the next line.
    const char* parse_features(const char* next) {
        features_are_sorted_ = true;
        const std::int64_t first_id = format_.first_feature_id;
        const std::int64_t n_ids = n_feature_ids_;
        std::int64_t previous = -1;
        for (;;) {
            while (is_blank(*next)) ++next;
            const ParsedId parsed = parse_id(next);
            if (parsed.id < 0) return end_line(next);
            const std::int64_t id = parsed.id - first_id;
            if (id < 0 || id >= n_ids) [[unlikely]]
                throw SyntaxError(next, range_message("feature id", parsed.id, first_id, n_ids - 1 + first_id));
            if (*parsed.end != ':') [[unlikely]]
                throw SyntaxError(parsed.end, "expected ':' after a feature id, got " + describe(*parsed.end));
            const ParsedFloat value = parse_float(parsed.end + 1);
            if (value.error != NumberError::none) [[unlikely]]
                refuse_value(parsed.end + 1, value);
            next = value.end;
            if (!is_blank(*next) && *next != '\n' && *next != '\r' && *next != '#') [[unlikely]]
                throw SyntaxError(next, "expected a blank after a value, got " + describe(*next));
            features_are_sorted_ = features_are_sorted_ && id > previous;
            previous = id;
            feature_ids_[n_features_] = static_cast<std::int32_t>(id);
            values_[n_features_++] = value.value;
        }
    }

    const char* end_line(const char* next) const {
        if (*next == '\n') [[likely]]
            return next + 1;
        const char* const here = next;
        if (*next == '#' && format_.has_comments) {
            while (*next != '\n') ++next;
            return next + 1;
        }
        while (*next == '\r' || is_blank(*next)) ++next;
        if (*next == '\n') return next + 1;
        throw SyntaxError(here, "expected a feature id, got " + describe(*here));
    }

    [[noreturn]] static void refuse_value(const char* begin, const ParsedFloat& value) {
        if (value.error == NumberError::too_large) throw SyntaxError(begin, "the value is too large for float32");
        throw SyntaxError(value.end, "expected a finite decimal number as value, got " + describe(*value.end));
    }

    // Order the row's features, repeated ones in the order they came, then add those up.
    void sort_features(const char* line) {
        std::int32_t* const ids = feature_ids_ + first_feature_;
        float* const values = values_ + first_feature_;
        const std::int64_t n_found = n_features_ - first_feature_;
        if (n_found <= kMaxInsertionSort) {
            for (std::int64_t i = 1; i < n_found; ++i) {
                const std::int32_t id = ids[i];
                const float value = values[i];
                std::int64_t at = i;
                for (; at > 0 && ids[at - 1] > id; --at) {
                    ids[at] = ids[at - 1];
                    values[at] = values[at - 1];
                }
                ids[at] = id;
                values[at] = value;
            }
        } else {
            pairs_.resize(n_found);
            for (std::int64_t i = 0; i < n_found; ++i) pairs_[i] = {ids[i], values[i]};
            std::stable_sort(pairs_.begin(), pairs_.end(), [](auto& a, auto& b) { return a.first < b.first; });
            for (std::int64_t i = 0; i < n_found; ++i) std::tie(ids[i], values[i]) = pairs_[i];
        }
        n_features_ = first_feature_ + add_up_repeats(ids, values, n_found, line);
    }

    std::int64_t add_up_repeats(std::int32_t* ids, float* values, std::int64_t n_found, const char* line) const {
        std::int64_t n_kept = 0;
        for (std::int64_t i = 0; i < n_found; ++n_kept) {
            const std::int32_t id = ids[i];
            auto sum = static_cast<double>(values[i++]);
            for (; i < n_found && ids[i] == id; ++i) sum += static_cast<double>(values[i]);
            ids[n_kept] = id;
            values[n_kept] = static_cast<float>(sum);
            if (!std::isfinite(values[n_kept]))
                throw SyntaxError(line, "the sum of the values of repeated feature " +
                                            std::to_string(id + format_.first_feature_id) +
                                            " is too large for float32");
        }
        return n_kept;
    }

    void sort_labels() {
        std::int32_t* const begin = label_ids_ + first_label_;
        std::sort(begin, label_ids_ + n_labels_);
        n_labels_ = std::unique(begin, label_ids_ + n_labels_) - label_ids_;
    }

    const RowFormat& format_;
    const std::int64_t n_feature_ids_;
    const std::int64_t n_label_ids_;
    RowBlock& block_;
    std::int32_t* const feature_ids_;
    float* const values_;
    std::int32_t* const label_ids_;
    std::int64_t first_feature_ = 0;
    std::int64_t first_label_ = 0;
    std::int64_t n_features_ = 0;
    std::int64_t n_labels_ = 0;
    bool features_are_sorted_ = true;
    bool labels_are_sorted_ = true;
    std::vector<std::pair<std::int32_t, float>> pairs_;
};

}  // namespace

void RowBlock::reset(std::int64_t n_bytes) {
    if (n_bytes > capacity_bytes_) {
        // A feature takes four characters at least ("0:1" and what parts it from the next), a label two.
        feature_ids = std::make_unique_for_overwrite<std::int32_t[]>(n_bytes / 4 + 1);
        values = std::make_unique_for_overwrite<float[]>(n_bytes / 4 + 1);
        label_ids = std::make_unique_for_overwrite<std::int32_t[]>(n_bytes / 2 + 1);
        capacity_bytes_ = n_bytes;
    }
    feature_ends.clear();
    label_ends.clear();
    n_features = n_labels = n_lines = 0;
    max_feature_id = max_label_id = -1;
    error.clear();
}

void parse_rows(const char* begin, const char* end, const RowFormat& format, RowBlock& block) {
    block.reset(end - begin);
    RowParser parser(format, block);
    for (const char* line = begin; line < end;) {
        try {
            line = parser.parse_line(line);
            ++block.n_lines;
        } catch (const SyntaxError& error) {
            block.error = error.what();
            block.error_line = block.n_lines + 1;
            block.error_column = error.where - line + 1;
            return;
        }
    }
}

}  // namespace longtail
