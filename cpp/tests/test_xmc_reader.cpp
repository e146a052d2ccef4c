#include <doctest/doctest.h>

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "xmc_text/reader.hpp"
#include "xmc_text/writer.hpp"

using namespace longtail;

namespace {

struct Rows {
    std::vector<std::int64_t> feature_indptr{0}, label_indptr{0};
    std::vector<std::int32_t> feature_ids, label_ids;
    std::vector<float> values;
    bool operator==(const Rows&) const = default;
};

Rows to_rows(TextRows&& text) {
    const auto copy = [](auto& array) { return std::vector(array.data(), array.data() + array.size()); };
    return {copy(text.feature_indptr), copy(text.label_indptr), copy(text.feature_indices), copy(text.label_indices),
            copy(text.feature_values)};
}

Rows read_stream(const std::string& text, std::size_t block_bytes, int n_threads, const RowFormat& format = {}) {
    Control control;
    TextReader reader("text", format);
    for (std::size_t at = 0; at < text.size(); at += block_bytes)
        reader.feed(std::span(text).subspan(at, std::min(block_bytes, text.size() - at)), n_threads, control);
    return to_rows(reader.finish(control));
}

struct TemporaryFile {
    explicit TemporaryFile(const std::string& text) {
        // The tests of several instruction sets run at the same time, so the name must be unique among processes.
        std::string name = std::filesystem::temp_directory_path() / "longtail_test_XXXXXX";
        const int file = mkstemp(name.data());
        REQUIRE(file >= 0);
        close(file);
        path = name;
        std::ofstream(path, std::ios::binary) << text;
    }
    ~TemporaryFile() { std::filesystem::remove(path); }
    std::filesystem::path path;
};

Rows read_file(const std::string& text, int n_threads, const RowFormat& format = {}) {
    const TemporaryFile file(text);
    Control control;
    TextReader reader("text", format);
    reader.read_file(file.path, n_threads, control);
    return to_rows(reader.finish(control));
}

std::string error_of(const std::string& text, int n_threads, std::size_t block_bytes, const RowFormat& format = {}) {
    try {
        block_bytes == 0 ? read_file(text, n_threads, format) : read_stream(text, block_bytes, n_threads, format);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

// The naive twin: one line at a time, ordered maps, strtof.
Rows read_naively(const std::string& text) {
    Rows rows;
    std::istringstream lines(text);
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::string word;
        std::set<std::int32_t> labels;
        std::map<std::int32_t, double> features;
        while (words >> word) {
            const auto colon = word.find(':');
            if (colon == std::string::npos) {
                std::istringstream ids(word);
                while (std::getline(ids, word, ',')) labels.insert(std::stoi(word));
            } else {
                features[std::stoi(word.substr(0, colon))] +=
                    static_cast<double>(std::strtof(word.c_str() + colon + 1, nullptr));
            }
        }
        for (const auto& [id, value] : features) {
            rows.feature_ids.push_back(id);
            rows.values.push_back(static_cast<float>(value));
        }
        rows.label_ids.insert(rows.label_ids.end(), labels.begin(), labels.end());
        rows.feature_indptr.push_back(static_cast<std::int64_t>(rows.feature_ids.size()));
        rows.label_indptr.push_back(static_cast<std::int64_t>(rows.label_ids.size()));
    }
    return rows;
}

// Lines from empty to longer than a piece, in any order of ids, with every kind of blank and line end.
std::string random_text(std::uint64_t seed, int n_rows, std::uint32_t n_features, std::uint32_t n_labels) {
    Random random(seed, 0);
    std::string text =
        std::to_string(n_rows) + " " + std::to_string(n_features) + " " + std::to_string(n_labels) + "\n";
    for (int row = 0; row < n_rows; ++row) {
        const std::uint32_t n_row_labels = random.below(5);
        for (std::uint32_t i = 0; i < n_row_labels; ++i) {
            if (i > 0) text += ',';
            text += std::to_string(random.below(n_labels));
        }
        const std::uint32_t n_row_features = random.below(random.below(50) == 0 ? 60'000 : 30);
        for (std::uint32_t i = 0; i < n_row_features; ++i) {
            char word[64];
            std::snprintf(word, sizeof word, "%s%u:%.*f", random.below(20) == 0 ? "\t " : " ", random.below(n_features),
                          static_cast<int>(random.below(9)), random.normal());
            text += word;
        }
        if (random.below(10) == 0) text += " \t";
        text += random.below(10) == 0 ? "\r\n" : "\n";
    }
    return text;
}

}  // namespace

TEST_CASE("random text is read as the naive twin reads it, from files and streams, cut anywhere, on any threads") {
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
        std::string text = random_text(seed, 300, 100'000, 5000);
        if (seed == 2) text.pop_back();  // no last newline
        const Rows expected = read_naively(text);
        CHECK(expected.values.size() > 10'000);
        for (const int n_threads : {1, 2, 5}) {
            CHECK(read_file(text, n_threads) == expected);
            for (const std::size_t block_bytes : {std::size_t{1009}, std::size_t{1} << 16, text.size()})
                CHECK(read_stream(text, block_bytes, n_threads) == expected);
        }
    }
}

TEST_CASE("a stream may be cut between any two characters") {
    const std::string text = "3 5 4\n0,3 1:0.5 4:-2e-1\n 0:1\r\n2,1 3:7";
    const Rows expected = read_naively(text);
    for (std::size_t block_bytes = 1; block_bytes <= text.size(); ++block_bytes)
        CHECK(read_stream(text, block_bytes, 1) == expected);
}

TEST_CASE("lines that end exactly at the border of two pieces belong to one of them") {
    for (int shift = -3; shift <= 3; ++shift) {
        std::string text = "4000 9 9\n";
        const std::size_t begin = text.size();
        const std::string line = "1 2:3.5\n";
        text +=
            std::string(TextReader::kPieceBytes + shift - 2 * line.size(), ' ') + "0:1\n";  // one long line of blanks
        for (int i = 1; i < 4000; ++i) text += line;
        CAPTURE(shift);
        const Rows expected = read_naively(text);
        CHECK(expected.feature_indptr.size() == 4001);
        CHECK(text.size() - begin > static_cast<std::size_t>(TextReader::kPieceBytes));
        for (const int n_threads : {1, 3}) CHECK(read_file(text, n_threads) == expected);
    }
}

TEST_CASE("the first error in the text is reported, whatever the number of threads") {
    std::string text = "100000 9 9\n";
    for (int i = 0; i < 100'000; ++i) text += i % 20'000 == 19'999 ? "1 2:3.5 bad\n" : "1 2:3.5 7:1\n";
    const std::string expected = "text, line 20001, column 9: expected a feature id, got 'b'";
    for (const int n_threads : {1, 2, 7})
        for (const std::size_t block_bytes : {0, 100'000, 10'000'000})
            CHECK(error_of(text, n_threads, block_bytes) == expected);
}

TEST_CASE("rows beyond the header's count are refused, blank lines after the last row are not") {
    std::string text = "2 3 2\n0 1:1\n1 2:1\n";
    CHECK(read_file(text + "\n \r\n\t\n" + std::string(1'000'000, '\n'), 2).feature_indptr.size() == 3);
    CHECK(error_of(text + "\n\n0:0\n", 1, 0) ==
          "text, line 6, column 1: more rows than the 2 that the header promises");
    CHECK(error_of("3 3 2\n0 1:1\n", 1, 0) ==
          "text, line 3, column 1: the file ends after 1 rows, but its header promises 3");
    CHECK(error_of("9223372036854775807 3 2\n0 1:1\n", 1, 7) ==
          "text, line 3, column 1: the file ends after 1 rows, but its header promises 9223372036854775807");
}

TEST_CASE("a line longer than the limit is refused, in files and streams, before it fills the memory") {
    RowFormat format;
    format.max_line_bytes = 1 << 20;
    const std::string text = "2 3 2\n0 1:1\n0 " + std::string(4 << 20, ' ') + "1:1\n";
    for (const std::size_t block_bytes : {0, 1000}) {
        CHECK(error_of(text, 2, block_bytes, format) ==
              "text, line 3, column 1048576: the line is longer than 1048576 bytes");
        CHECK(error_of(std::string(1 << 20, '1'), 2, block_bytes) != "");
    }
}

TEST_CASE("comments and empty lines are no rows where the format has comments") {
    RowFormat format;
    format.n_header_numbers = 0;
    format.has_comments = true;
    format.first_feature_id = 1;
    const Rows rows = read_file("# made by hand\n\n1,0 1:2 # the first\r\n\r\n \n0#\n 3:1\n#", 1, format);
    CHECK(rows.feature_indptr == std::vector<std::int64_t>{0, 1, 1, 1, 2});
    CHECK(rows.label_indptr == std::vector<std::int64_t>{0, 2, 2, 3, 3});
    CHECK(rows.feature_ids == std::vector<std::int32_t>{0, 2});
    CHECK(error_of("1 0:5\n", 1, 0, format) == "text, line 1, column 3: feature id is 0, outside 1 .. 2147483647");
    CHECK(error_of("# c\n\n1 qid:3 1:1\n", 1, 0, format) == "text, line 3, column 3: expected a feature id, got 'q'");
}

TEST_CASE("reading stops when the control says so") {
    const TemporaryFile file("1 1 1\n" + std::string(10'000'000, '\n'));
    Control control([] { return true; });
    TextReader reader("text", {});
    CHECK_THROWS_AS(reader.read_file(file.path, 2, control), Cancelled);
}

TEST_CASE("written rows are read back, for any range of rows and any number of threads") {
    const std::string text = random_text(9, 700, 50'000, 3000);
    Rows rows = read_naively(text);
    const CsrView x{700, 50'000, rows.feature_indptr, rows.feature_ids, rows.values};
    const LabelsView y{700, 3000, rows.label_indptr, rows.label_ids};
    for (const int n_threads : {1, 3}) {
        std::string written = "700 50000 3000\n";
        for (const auto& [first, last] : {std::pair{0, 1}, {1, 1}, {1, 600}, {600, 700}}) {
            Control control;
            for (const auto& part : write_rows(x, y, {}, first, last, n_threads, control)) written += part;
        }
        CHECK(read_stream(written, 1 << 16, 1) == rows);
    }
}
