#include "vectorizer/analyzer.hpp"

#include <algorithm>
#include <utility>

namespace longtail {

Analyzer::Analyzer(const AnalyzerConfig& config, const std::vector<std::string>& stop_words, CharacterClasses classes)
    : config_(config), classes_(std::move(classes)), stop_words_(stop_words.size()) {
    for (const std::string& word : stop_words) {
        const auto id = static_cast<std::int32_t>(stop_ends_.size());
        if (stop_words_.find_or_add({stop_bytes_.data(), stop_ends_.data()}, word, hash_bytes(word), id) != id)
            continue;
        stop_bytes_ += word;
        stop_ends_.push_back(static_cast<std::int64_t>(stop_bytes_.size()));
    }
}

bool Analyzer::is_stop_word(std::string_view word) const {
    if (stop_ends_.empty()) return false;
    return stop_words_.find({stop_bytes_.data(), stop_ends_.data()}, word, hash_bytes(word)) >= 0;
}

// Collect the character n-grams of a run in a script without blanks, and return where it ends. A run shorter than the
// shortest n-gram is one feature, whole.
std::size_t Analyzer::collect_run(std::string_view text, std::size_t begin, Script script, Scratch& scratch) const {
    scratch.offsets.clear();
    std::size_t end = begin;
    while (end < text.size()) {
        const CodePoint next = decode(text, end);
        if (!classes_.is_word(next.value) || classes_.script(next.value) != script) break;
        scratch.offsets.push_back(static_cast<std::uint32_t>(end));
        end += next.n_bytes;
    }
    scratch.offsets.push_back(static_cast<std::uint32_t>(end));
    const std::size_t length = scratch.offsets.size() - 1;
    const std::size_t longest = script == Script::ideographic ? 2 : 4;
    const std::size_t shortest = std::min(script == Script::ideographic ? std::size_t{1} : std::size_t{2}, length);
    for (std::size_t n = shortest; n <= longest && n <= length; ++n) {
        for (std::size_t i = 0; i + n <= length; ++i) {
            const std::string_view piece = text.substr(scratch.offsets[i], scratch.offsets[i + n] - scratch.offsets[i]);
            if (!is_stop_word(piece)) scratch.pieces.push_back(piece);
        }
    }
    return end;
}

void Analyzer::collect_words(std::string_view text, Scratch& scratch) const {
    scratch.joined.clear();
    scratch.begins.clear();
    scratch.ends.clear();
    scratch.pieces.clear();
    const bool knows_scripts = classes_.knows_scripts();
    std::size_t position = 0;
    while (position < text.size()) {
        const CodePoint first = decode(text, position);
        std::size_t end = position + first.n_bytes;
        if (!classes_.is_word(first.value)) {
            position = end;
            continue;
        }
        if (knows_scripts) {
            const Script script = classes_.script(first.value);
            if (script != Script::spaced) {
                position = collect_run(text, position, script, scratch);
                continue;
            }
        }
        std::size_t n_characters = 1;
        while (end < text.size()) {
            const CodePoint next = decode(text, end);
            if (!classes_.is_word(next.value)) break;
            if (knows_scripts && classes_.script(next.value) != Script::spaced) break;
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
