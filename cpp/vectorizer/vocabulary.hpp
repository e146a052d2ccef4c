#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/control.hpp"
#include "vectorizer/analyzer.hpp"

namespace longtail {

// The features of a corpus: first the words, then the character n-grams, each sorted by code point.
struct Vocabulary {
    std::vector<char> bytes;           // all features one after the other, UTF-8
    std::vector<std::int64_t> ends;    // of each feature in `bytes`
    std::vector<std::int64_t> n_rows;  // texts in which it occurs
    std::int64_t n_words = 0;          // how many features are words (the rest: characters)
};

struct VocabularyLimits {
    std::int64_t min_rows{};
    std::int64_t max_rows{};
    std::int64_t max_features{};  // keep the most frequent ones (occurrences, ties by code point); -1: all
};

Vocabulary learn_vocabulary(std::span<const std::string_view> texts, const Analyzer& analyzer,
                            const VocabularyLimits& limits, Control& control);

}  // namespace longtail
