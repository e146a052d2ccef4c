#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "vectorizer/analyzer.hpp"
#include "vectorizer/tfidf.hpp"
#include "vectorizer/vocabulary.hpp"

namespace longtail {
namespace {

CharacterClasses ascii() {
    static const std::vector<std::int32_t> letters{'0', '9' + 1, '_', '_' + 1, 'a', 'z' + 1};
    static const std::vector<std::int32_t> blanks{' ', ' ' + 1};
    return {letters, blanks};
}

std::vector<std::string> words_of(const std::string& text, int max_ngram, const std::vector<std::string>& stops = {}) {
    const Analyzer analyzer({max_ngram, 1, 0}, stops, ascii());
    Analyzer::Scratch scratch;
    std::vector<std::string> found;
    analyzer.words(text, scratch, [&](std::string_view word) { found.emplace_back(word); });
    return found;
}

std::vector<std::string> characters_of(const std::string& text, int min_chars, int max_chars) {
    const Analyzer analyzer({0, min_chars, max_chars}, {}, ascii());
    Analyzer::Scratch scratch;
    std::vector<std::string> found;
    analyzer.characters(text, scratch, [&](std::string_view piece) { found.emplace_back(piece); });
    return found;
}

using Strings = std::vector<std::string>;

TEST_CASE("words have two characters or more, n-grams skip what lies between") {
    CHECK(words_of("a web, server-x tls", 1) == Strings{"web", "server", "tls"});
    CHECK(words_of("web the tls", 2, {"the"}) == Strings{"web", "tls", "web tls"});
    CHECK(words_of("", 3).empty());
    CHECK(words_of("..", 3).empty());
}

TEST_CASE("runs of scripts without blanks give short runs of characters beside the words") {
    // Capital letters stand for ideographs, digits for a script like Thai.
    const std::vector<std::int32_t> letters{'0', '9' + 1, 'A', 'Z' + 1, 'a', 'z' + 1}, blanks{' ', ' ' + 1};
    const std::vector<std::int32_t> ideographs{'A', 'Z' + 1}, unspaced{'0', '9' + 1};
    const Analyzer analyzer({2, 1, 0}, {"BC"}, CharacterClasses(letters, blanks, ideographs, unspaced));
    Analyzer::Scratch scratch;
    const auto words = [&](std::string_view text) {
        Strings found;
        analyzer.words(text, scratch, [&](std::string_view word) { found.emplace_back(word); });
        return found;
    };
    CHECK(words("webABCtls") == Strings{"web", "tls", "web tls", "A", "B", "C", "AB"});
    CHECK(words("12345") == Strings{"12", "23", "34", "45", "123", "234", "345", "1234", "2345"});
    CHECK(words("1 A a") == Strings{"1", "A"});
    CHECK(words("A1") == Strings{"A", "1"});
    CHECK(words("").empty());
}

TEST_CASE("character n-grams are padded by a blank, short words count once") {
    CHECK(characters_of("ab", 2, 3) == Strings{" a", "ab", "b ", " ab", "ab "});
    CHECK(characters_of("  a ", 3, 5) == Strings{" a "});
    CHECK(characters_of("a", 4, 5) == Strings{" a "});
    CHECK(characters_of("  ", 1, 2).empty());
}

TEST_CASE("a word table numbers what a map numbers") {
    Random random(1, 0);
    std::map<std::string, std::int32_t> expected;
    std::string bytes;
    std::vector<std::int64_t> ends;
    WordTable table;
    for (int i = 0; i < 5000; ++i) {
        std::string word;
        for (std::uint32_t n = random.below(12); n > 0; --n) word += static_cast<char>('a' + random.below(3));
        const auto new_id = static_cast<std::int32_t>(ends.size());
        const std::int32_t id = table.find_or_add({bytes.data(), ends.data()}, word, hash_bytes(word), new_id);
        CHECK(id == expected.emplace(word, new_id).first->second);
        if (id == new_id) {
            bytes += word;
            ends.push_back(static_cast<std::int64_t>(bytes.size()));
        }
    }
    CHECK(table.find({bytes.data(), ends.data()}, "xyz", hash_bytes("xyz")) == -1);
}

TEST_CASE("a vocabulary is sorted, counted by rows and cut to size; rows follow it") {
    const std::vector<std::string_view> texts{"bb bb aa", "dd cc bb", "dd"};
    const Analyzer analyzer({1, 1, 0}, {}, ascii());
    Control control;
    const Vocabulary all = learn_vocabulary(texts, analyzer, {1, 3, -1}, control);
    CHECK(std::string(all.bytes.begin(), all.bytes.end()) == "aabbccdd");
    CHECK(all.n_rows == std::vector<std::int64_t>{1, 2, 1, 2});
    const Vocabulary three = learn_vocabulary(texts, analyzer, {1, 3, 3}, control);
    CHECK(std::string(three.bytes.begin(), three.bytes.end()) == "aabbdd");
    const Vocabulary frequent = learn_vocabulary(texts, analyzer, {2, 3, -1}, control);
    CHECK(std::string(frequent.bytes.begin(), frequent.bytes.end()) == "bbdd");

    const std::vector<std::uint8_t> bytes(frequent.bytes.begin(), frequent.bytes.end());
    const TfidfKernel kernel(bytes, frequent.ends, frequent.n_words);
    const std::vector<float> tf{0, 1, 2, 3}, idf{1, 10};
    for (const int n_threads : {1, 3}) {
        const CsrParts rows = kernel.transform(texts, analyzer, {tf, idf, false}, n_threads, control);
        CHECK(rows.indptr == std::vector<std::int64_t>{0, 1, 3, 4});
        CHECK(rows.indices == std::vector<std::int32_t>{0, 0, 1, 1});
        CHECK(rows.values == std::vector<float>{2, 1, 10, 10});
    }
}

}  // namespace
}  // namespace longtail
