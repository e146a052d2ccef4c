#include "vectorizer/tfidf.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/parallel_for.hpp"

namespace longtail {

namespace {
constexpr std::size_t kTextsPerTask = 64;
}

struct TfidfKernel::Scratch {
    Analyzer::Scratch analyzer;
    std::vector<std::int32_t> found;  // the features of the current text, as often as they occur
};

TfidfKernel::TfidfKernel(std::span<const std::uint8_t> bytes, std::span<const std::int64_t> ends, std::int64_t n_words)
    : bytes_(reinterpret_cast<const char*>(bytes.data())),
      ends_(ends),
      word_ids_(static_cast<std::size_t>(n_words)),
      character_ids_(ends.size() - static_cast<std::size_t>(n_words)) {
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(ends.size()); ++id) {
        const std::string_view feature = words()[id];
        WordTable& table = id < n_words ? word_ids_ : character_ids_;
        const std::int32_t first = table.find_or_add(words(), feature, hash_bytes(feature), id);
        if (first != id)
            throw std::invalid_argument("vocabulary: feature " + std::to_string(id) + " is the same as feature " +
                                        std::to_string(first) + "; every feature must occur once");
    }
}

void TfidfKernel::add_row(std::string_view text, const Analyzer& analyzer, const Weights& weights, Scratch& scratch,
                          CsrParts& out) const {
    const auto count = [&](const WordTable& table, std::string_view feature) {
        const std::int32_t id = table.find(words(), feature, hash_bytes(feature));
        if (id >= 0) scratch.found.push_back(id);
    };
    analyzer.words(text, scratch.analyzer, [&](std::string_view feature) { count(word_ids_, feature); });
    analyzer.characters(text, scratch.analyzer, [&](std::string_view feature) { count(character_ids_, feature); });
    std::sort(scratch.found.begin(), scratch.found.end());

    const std::size_t begin = out.values.size();
    double sum_of_squares = 0;
    for (std::size_t i = 0; i < scratch.found.size();) {
        const std::int32_t id = scratch.found[i];
        const std::size_t first = i;
        while (i < scratch.found.size() && scratch.found[i] == id) ++i;
        const float value = weights.tf[i - first] * weights.idf[id];
        const float square = value * value;
        sum_of_squares += static_cast<double>(square);
        out.indices.push_back(id);
        out.values.push_back(value);
    }
    scratch.found.clear();
    out.indptr.push_back(static_cast<std::int64_t>(out.values.size()));
    if (!weights.unit_rows || sum_of_squares == 0) return;
    const double length = std::sqrt(sum_of_squares);
    for (std::size_t i = begin; i < out.values.size(); ++i)
        out.values[i] = static_cast<float>(static_cast<double>(out.values[i]) / length);
}

CsrParts TfidfKernel::transform(std::span<const std::string_view> texts, const Analyzer& analyzer,
                                const Weights& weights, int n_threads, Control& control) const {
    const std::size_t n_tasks = (texts.size() + kTextsPerTask - 1) / kTextsPerTask;
    std::vector<CsrParts> blocks(n_tasks);
    std::vector<Scratch> scratches(static_cast<std::size_t>(n_threads));
    parallel_for(static_cast<std::int64_t>(n_tasks), n_threads, control, [&](std::int64_t task, int worker) {
        Scratch& scratch = scratches[worker];
        const std::size_t first = static_cast<std::size_t>(task) * kTextsPerTask;
        const std::size_t last = std::min(first + kTextsPerTask, texts.size());
        for (std::size_t row = first; row < last; ++row) {
            control.throw_if_stopped();
            add_row(texts[row], analyzer, weights, scratch, blocks[task]);
        }
    });

    CsrParts all;
    std::size_t n_values = 0;
    for (const CsrParts& block : blocks) n_values += block.values.size();
    all.indptr.reserve(texts.size() + 1);
    all.indptr.push_back(0);
    all.indices.reserve(n_values);
    all.values.reserve(n_values);
    for (const CsrParts& block : blocks) {
        const std::int64_t before = static_cast<std::int64_t>(all.values.size());
        for (const std::int64_t end : block.indptr) all.indptr.push_back(before + end);
        all.indices.insert(all.indices.end(), block.indices.begin(), block.indices.end());
        all.values.insert(all.values.end(), block.values.begin(), block.values.end());
    }
    return all;
}

}  // namespace longtail
