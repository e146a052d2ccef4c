#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/control.hpp"
#include "bindings/arrays.hpp"
#include "vectorizer/analyzer.hpp"
#include "vectorizer/tfidf.hpp"
#include "vectorizer/vocabulary.hpp"

namespace longtail::bindings {
namespace {

// The texts as UTF-8, without a copy for ASCII; the list keeps them alive while the GIL is away.
std::vector<std::string_view> views_of(const nb::list& texts) {
    std::vector<std::string_view> views;
    views.reserve(nb::len(texts));
    for (const nb::handle text : texts) {
        Py_ssize_t size = 0;
        const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
        if (bytes == nullptr) throw nb::python_error();
        if (size > INT32_MAX / 4) throw std::invalid_argument("a text must be shorter than 512 MB");
        views.emplace_back(bytes, static_cast<std::size_t>(size));
    }
    return views;
}

std::size_t longest(const std::vector<std::string_view>& texts) {
    std::size_t length = 0;
    for (const std::string_view text : texts) length = std::max(length, text.size());
    return length;
}

// The kernel together with the arrays it looks into.
struct Tfidf {
    Tfidf(Array1<std::uint8_t> bytes_in, Array1<std::int64_t> ends_in, std::int64_t n_words)
        : bytes(std::move(bytes_in)), ends(std::move(ends_in)) {
        const auto n_features = static_cast<std::int64_t>(ends.shape(0));
        if (n_features > INT32_MAX) throw std::invalid_argument("vocabulary: more than 2147483647 features");
        if (n_words < 0 || n_words > n_features)
            throw std::invalid_argument("vocabulary: n_words must be in [0, " + std::to_string(n_features) + "], got " +
                                        std::to_string(n_words));
        std::int64_t last = 0;
        for (std::int64_t i = 0; i < n_features; ++i) {
            if (ends.data()[i] <= last)
                throw std::invalid_argument("vocabulary: ends must increase from 1, got " +
                                            std::to_string(ends.data()[i]) + " at " + std::to_string(i));
            last = ends.data()[i];
        }
        if (last != static_cast<std::int64_t>(bytes.shape(0)))
            throw std::invalid_argument("vocabulary: the last feature ends at byte " + std::to_string(last) +
                                        ", but there are " + std::to_string(bytes.shape(0)));
        kernel = std::make_unique<TfidfKernel>(as_span(bytes), as_span(ends), n_words);
    }

    Array1<std::uint8_t> bytes;
    Array1<std::int64_t> ends;
    std::unique_ptr<TfidfKernel> kernel;
};

}  // namespace

void bind_vectorizer(nb::module_& m) {
    nb::class_<Analyzer>(m, "TextAnalyzer", "Cuts texts into words, word n-grams and character n-grams.")
        .def(
            "__init__",
            [](Analyzer* self, int max_ngram, int min_chars, int max_chars, const std::vector<std::string>& stop_words,
               const Array1<std::int32_t>& word_ranges, const Array1<std::int32_t>& space_ranges,
               const Array1<std::int32_t>& ideographic_ranges, const Array1<std::int32_t>& unspaced_ranges) {
                if (max_ngram < 0 || min_chars < 1 || max_chars < 0)
                    throw std::invalid_argument("n-gram lengths must not be negative");
                new (self) Analyzer({max_ngram, min_chars, max_chars}, stop_words,
                                    CharacterClasses(as_span(word_ranges), as_span(space_ranges),
                                                     as_span(ideographic_ranges), as_span(unspaced_ranges)));
            },
            nb::arg("max_ngram"), nb::arg("min_chars"), nb::arg("max_chars"), nb::arg("stop_words"),
            nb::arg("word_ranges"), nb::arg("space_ranges"), nb::arg("ideographic_ranges"), nb::arg("unspaced_ranges"));

    m.def(
        "learn_vocabulary",
        [](const nb::list& texts, const Analyzer& analyzer, std::int64_t min_rows, std::int64_t max_rows,
           std::int64_t max_features, Control& control) {
            const std::vector<std::string_view> views = views_of(texts);
            Vocabulary found;
            {
                const nb::gil_scoped_release no_gil;
                found = learn_vocabulary(views, analyzer, {min_rows, max_rows, max_features}, control);
            }
            std::vector<std::uint8_t> bytes(found.bytes.begin(), found.bytes.end());
            return nb::make_tuple(to_numpy(std::move(bytes)), to_numpy(std::move(found.ends)),
                                  to_numpy(std::move(found.n_rows)), found.n_words);
        },
        nb::arg("texts"), nb::arg("analyzer"), nb::arg("min_rows"), nb::arg("max_rows"), nb::arg("max_features"),
        nb::arg("control"),
        nb::sig("def learn_vocabulary(texts: list[str], analyzer: TextAnalyzer, min_rows: int, max_rows: int, "
                "max_features: int, control: Control) -> tuple[NDArray[numpy.uint8], NDArray[numpy.int64], "
                "NDArray[numpy.int64], int]"),
        "Return the features of the texts: their UTF-8 bytes, ends, row counts and how many of them are words.");

    nb::class_<Tfidf>(m, "Tfidf", "Turns texts into tf-idf rows over a vocabulary, which it checks.")
        .def(nb::init<Array1<std::uint8_t>, Array1<std::int64_t>, std::int64_t>(), nb::arg("bytes"), nb::arg("ends"),
             nb::arg("n_words"))
        .def(
            "transform",
            [](const Tfidf& self, const nb::list& texts, const Analyzer& analyzer, const Array1<float>& tf,
               const Array1<float>& idf, bool unit_rows, int n_threads, Control& control) {
                const std::vector<std::string_view> views = views_of(texts);
                if (static_cast<std::int64_t>(idf.shape(0)) != self.kernel->n_features())
                    throw std::invalid_argument("idf must have one value per feature");
                if (tf.shape(0) < 2 * longest(views) + 3)
                    throw std::invalid_argument("tf must reach to twice the longest text");
                if (n_threads < 1) throw std::invalid_argument("n_threads must be positive");
                CsrParts rows;
                {
                    const nb::gil_scoped_release no_gil;
                    rows = self.kernel->transform(views, analyzer, {as_span(tf), as_span(idf), unit_rows}, n_threads,
                                                  control);
                }
                return nb::make_tuple(to_numpy(std::move(rows.indptr)), to_numpy(std::move(rows.indices)),
                                      to_numpy(std::move(rows.values)));
            },
            nb::arg("texts"), nb::arg("analyzer"), nb::arg("tf"), nb::arg("idf"), nb::arg("unit_rows"),
            nb::arg("n_threads"), nb::arg("control"),
            nb::sig("def transform(self, texts: list[str], analyzer: TextAnalyzer, tf: NDArray[numpy.float32], "
                    "idf: NDArray[numpy.float32], unit_rows: bool, n_threads: int, control: Control) -> "
                    "tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32]]"),
            "Return indptr, indices and values of one CSR row per text.");
}

}  // namespace longtail::bindings
