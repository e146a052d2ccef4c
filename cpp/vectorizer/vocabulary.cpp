#include "vectorizer/vocabulary.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace longtail {
namespace {

// The features of one family as they are met, with their counts.
class Counter {
public:
    void add(std::string_view feature, std::int64_t row) {
        const auto new_id = static_cast<std::int32_t>(ends_.size());
        const std::int32_t id = table_.find_or_add({bytes_.data(), ends_.data()}, feature, hash_bytes(feature), new_id);
        if (id == new_id) {
            if (id == std::numeric_limits<std::int32_t>::max())
                throw std::length_error("more than 2147483646 features");
            bytes_.insert(bytes_.end(), feature.begin(), feature.end());
            ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
            counts_.push_back({0, 0, -1});
        }
        Counts& counts = counts_[id];
        ++counts.n_occurrences;
        counts.n_rows += counts.last_row != row;
        counts.last_row = row;
    }

    struct Counts {
        std::int64_t n_occurrences;
        std::int64_t n_rows;
        std::int64_t last_row;
    };

    std::size_t size() const { return ends_.size(); }
    std::string_view operator[](std::int32_t id) const { return WordTable::Words{bytes_.data(), ends_.data()}[id]; }
    const Counts& counts(std::int32_t id) const { return counts_[id]; }

private:
    WordTable table_;
    std::vector<char> bytes_;
    std::vector<std::int64_t> ends_;
    std::vector<Counts> counts_;
};

struct Entry {
    std::string_view feature;
    std::int64_t n_occurrences;
    std::int64_t n_rows;
    bool is_word;
};

bool in_order(const Entry& a, const Entry& b) {
    return a.is_word != b.is_word ? a.is_word : a.feature < b.feature;  // UTF-8 sorts by code point
}

void collect(const Counter& counter, bool is_word, const VocabularyLimits& limits, std::vector<Entry>& entries) {
    for (std::size_t id = 0; id < counter.size(); ++id) {
        const auto& counts = counter.counts(static_cast<std::int32_t>(id));
        if (counts.n_rows < limits.min_rows || counts.n_rows > limits.max_rows) continue;
        entries.push_back({counter[static_cast<std::int32_t>(id)], counts.n_occurrences, counts.n_rows, is_word});
    }
}

}  // namespace

Vocabulary learn_vocabulary(std::span<const std::string_view> texts, const Analyzer& analyzer,
                            const VocabularyLimits& limits, Control& control) {
    Counter words, characters;
    Analyzer::Scratch scratch;
    for (std::size_t row = 0; row < texts.size(); ++row) {
        control.throw_if_stopped();
        const auto row_id = static_cast<std::int64_t>(row);
        analyzer.words(texts[row], scratch, [&](std::string_view feature) { words.add(feature, row_id); });
        analyzer.characters(texts[row], scratch, [&](std::string_view feature) { characters.add(feature, row_id); });
    }
    std::vector<Entry> entries;
    collect(words, true, limits, entries);
    collect(characters, false, limits, entries);
    if (limits.max_features >= 0 && entries.size() > static_cast<std::size_t>(limits.max_features)) {
        const auto more_frequent = [](const Entry& a, const Entry& b) {
            return a.n_occurrences != b.n_occurrences ? a.n_occurrences > b.n_occurrences : in_order(a, b);
        };
        std::nth_element(entries.begin(), entries.begin() + limits.max_features, entries.end(), more_frequent);
        entries.resize(static_cast<std::size_t>(limits.max_features));
    }
    std::sort(entries.begin(), entries.end(), in_order);

    Vocabulary vocabulary;
    for (const Entry& entry : entries) {
        vocabulary.bytes.insert(vocabulary.bytes.end(), entry.feature.begin(), entry.feature.end());
        vocabulary.ends.push_back(static_cast<std::int64_t>(vocabulary.bytes.size()));
        vocabulary.n_rows.push_back(entry.n_rows);
        vocabulary.n_words += entry.is_word;
    }
    return vocabulary;
}

}  // namespace longtail
