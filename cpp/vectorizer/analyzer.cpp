#include "vectorizer/analyzer.hpp"

#include <utility>

namespace longtail {

Analyzer::Analyzer(const AnalyzerConfig& config, const std::vector<std::string>& stop_words, CharacterClasses classes)
    : config_(config), classes_(std::move(classes)), stop_words_(stop_words.size()) {
    for (const std::string& word : stop_words) {
        const auto id = static_cast<std::int32_t>(stop_ends_.size());
        if (stop_words_.find_or_add({stop_bytes_.data(), stop_ends_.data()}, word, hash_bytes(word), id) != id) continue;
        stop_bytes_ += word;
        stop_ends_.push_back(static_cast<std::int64_t>(stop_bytes_.size()));
    }
}

bool Analyzer::is_stop_word(std::string_view word) const {
    if (stop_ends_.empty()) return false;
    return stop_words_.find({stop_bytes_.data(), stop_ends_.data()}, word, hash_bytes(word)) >= 0;
}

void Analyzer::collect_words(std::string_view text, Scratch& scratch) const {
    scratch.joined.clear();
    scratch.begins.clear();
    scratch.ends.clear();
    std::size_t position = 0;
    while (position < text.size()) {
        const CodePoint first = decode(text, position);
        std::size_t end = position + first.n_bytes;
        if (!classes_.is_word(first.value)) {
            position = end;
            continue;
        }
        std::size_t n_characters = 1;
        while (end < text.size()) {
            const CodePoint next = decode(text, end);
            if (!classes_.is_word(next.value)) break;
            end += next.n_bytes;
            ++n_characters;
        }
        const std::string_view word = text.substr(position, end - position);
        position = end;
        if (n_characters < 2 || is_stop_word(word)) continue;
        if (!scratch.joined.empty()) scratch.joined += ' ';
        scratch.begins.push_back(static_cast<std::uint32_t>(scratch.joined.size()));
        scratch.joined += word;
        scratch.ends.push_back(static_cast<std::uint32_t>(scratch.joined.size()));
    }
}

// Put the next blank-separated piece of the text, with a blank on both sides, and where each character of it begins, into
// `scratch`; false at the end of the text.
bool Analyzer::next_padded(std::string_view text, std::size_t& position, Scratch& scratch) const {
    scratch.joined.assign(1, ' ');
    scratch.begins.assign(1, 0);
    while (position < text.size()) {
        const CodePoint next = decode(text, position);
        const std::size_t begin = position;
        position += next.n_bytes;
        if (classes_.is_space(next.value)) {
            if (scratch.begins.size() > 1) break;
            continue;
        }
        scratch.begins.push_back(static_cast<std::uint32_t>(scratch.joined.size()));
        scratch.joined += text.substr(begin, next.n_bytes);
    }
    if (scratch.begins.size() == 1) return false;
    scratch.begins.push_back(static_cast<std::uint32_t>(scratch.joined.size()));
    scratch.joined += ' ';
    scratch.begins.push_back(static_cast<std::uint32_t>(scratch.joined.size()));
    return true;
}

}  // namespace longtail
