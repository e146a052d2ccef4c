#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/control.hpp"
#include "vectorizer/analyzer.hpp"

namespace longtail {

struct CsrParts {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
    std::vector<float> values;
};

// Turns texts into tf-idf rows over a known vocabulary. `bytes` and `ends` (see Vocabulary) must outlive it.
class TfidfKernel {
public:
    // Throws std::invalid_argument when a feature occurs twice: its column would never be used.
    TfidfKernel(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> ends, std::int64_t n_words);

    std::int64_t n_features() const { return static_cast<std::int64_t>(ends_.size()); }

    struct Weights {
        std::span<const float> tf;   // tf[count]: what a feature that occurs so often weighs
        std::span<const float> idf;  // of each feature
        bool unit_rows;              // scale rows to length 1, in the arithmetic of scikit-learn's normalize
    };

    // tf must reach to the greatest count that a text can have: twice its length in bytes, and two.
    CsrParts transform(std::span<const std::string_view> texts, const Analyzer& analyzer, const Weights& weights,
                       int n_threads, Control& control) const;

private:
    struct Scratch;
    void add_row(std::string_view text, const Analyzer& analyzer, const Weights& weights, Scratch& scratch,
                 CsrParts& out) const;

    WordTable::Words words() const { return {bytes_, ends_.data()}; }

    const char* bytes_;
    std::span<const std::int64_t> ends_;
    // Two tables: a word and a character n-gram may be spelt alike and are still two features.
    WordTable word_ids_;
    WordTable character_ids_;
};

}  // namespace longtail
