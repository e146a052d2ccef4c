#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vectorizer/characters.hpp"
#include "vectorizer/word_table.hpp"

namespace longtail {

struct AnalyzerConfig {
    int max_ngram{};  // words in a feature, at most; 0: no words
    int min_chars{};
    int max_chars{};  // characters in a feature, at most; 0: no characters
};

// Cuts a text into features, exactly as scikit-learn's vectorizers do with their default pattern: words are runs of two
// or more word characters, their n-grams are joined by one blank; character n-grams (analyzer="char_wb") stay within
// what blanks separate, with one blank added on both sides. Where the character classes know scripts without blanks, runs
// of those scripts are cut out of the words and give runs of 1 to 2 (ideographs, kana) or 2 to 4 characters (Thai and
// the like) as features beside the words; they take no part in the n-grams of words.
class Analyzer {
public:
    struct Scratch {
        std::string joined;                 // the words of a text, one blank between them, or one padded word
        std::vector<std::uint32_t> begins;  // of the words (or characters) in `joined`
        std::vector<std::uint32_t> ends;
        std::vector<std::string_view> pieces;  // features from scripts without blanks, as parts of the text
        std::vector<std::uint32_t> offsets;    // of the characters of the current run
    };

    Analyzer(const AnalyzerConfig& config, const std::vector<std::string>& stop_words, CharacterClasses classes);

    const AnalyzerConfig& config() const { return config_; }

    // Call use(feature) for every word and word n-gram, in scikit-learn's order: all of one length, then the next.
    template <class Use>
    void words(std::string_view text, Scratch& scratch, Use&& use) const {
        if (config_.max_ngram == 0) return;
        collect_words(text, scratch);
        const std::string_view joined = scratch.joined;
        const std::size_t n_words = scratch.begins.size();
        for (std::size_t n = 1; n <= static_cast<std::size_t>(config_.max_ngram) && n <= n_words; ++n)
            for (std::size_t i = 0; i + n <= n_words; ++i)
                use(joined.substr(scratch.begins[i], scratch.ends[i + n - 1] - scratch.begins[i]));
        for (const std::string_view piece : scratch.pieces) use(piece);
    }

    template <class Use>
    void characters(std::string_view text, Scratch& scratch, Use&& use) const {
        if (config_.max_chars == 0) return;
        std::size_t position = 0;
        while (next_padded(text, position, scratch)) {
            const std::string_view padded = scratch.joined;
            const std::size_t length = scratch.begins.size() - 1;  // the last entry is the end
            const auto slice = [&](std::size_t begin, std::size_t end) {
                return padded.substr(scratch.begins[begin], scratch.begins[end] - scratch.begins[begin]);
            };
            for (auto n = static_cast<std::size_t>(config_.min_chars); n <= static_cast<std::size_t>(config_.max_chars);
                 ++n) {
                if (length <= n) {  // a short word counts once, whole, and longer n-grams would repeat it
                    use(slice(0, length));
                    break;
                }
                for (std::size_t i = 0; i + n <= length; ++i) use(slice(i, i + n));
            }
        }
    }

private:
    void collect_words(std::string_view text, Scratch& scratch) const;
    std::size_t collect_run(std::string_view text, std::size_t begin, Script script, Scratch& scratch) const;
    bool next_padded(std::string_view text, std::size_t& position, Scratch& scratch) const;
    bool is_stop_word(std::string_view word) const;

    AnalyzerConfig config_;
    CharacterClasses classes_;
    std::string stop_bytes_;
    std::vector<std::int64_t> stop_ends_;
    WordTable stop_words_;
};

}  // namespace longtail
