"""The vectorizer against scikit-learn's, which is its naive twin: equal to the last bit."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from longtail.tagging.vectorizer import _END_OF_CLASSES, TextVectorizer

TEXTS = [
    "A small web server, with TLS",
    "web-browser: fast & small; the web",
    "",
    "Größe und Straße; ΣΊΣΥΦΟΣ İstanbul 東京 サーバー",
    "mail server mail server MAIL",
    "x",
    "e\u0301te\u0301 naïve 1234 ½ _private __",
]

# Letters that grow, shrink or change with their place when lowered, digits of other scripts, marks, odd blanks.
CHARACTERS = st.one_of(
    st.sampled_from("abAB 12_-.\t\n"), st.sampled_from("ΣςßİıǅÅé\u0301\u00a0\u2028\u3000東٣²\U0001d7d8😀\x1c\x85")
)
TEXT = st.one_of(st.text(CHARACTERS, max_size=40), st.text(max_size=30))


def assert_same(found: Any, expected: Any) -> None:
    expected = sp.csr_array(expected)
    expected.sort_indices()
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data)
    assert (found.data.dtype, found.indices.dtype, found.indptr.dtype) == (np.float32, np.int32, np.int64)


def twin(**settings: Any) -> TfidfVectorizer:
    return TfidfVectorizer(dtype=np.float32, sublinear_tf=True, **settings)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=6),
    others=st.lists(TEXT, max_size=3),
    max_ngram=st.integers(1, 3),
    lowercase=st.booleans(),
    stop_words=st.sampled_from([None, ["ab", "ba"], "english"]),
    min_df=st.integers(1, 2),
)
def test_words_are_those_of_scikit_learn(
    texts: list[str], others: list[str], max_ngram: int, lowercase: bool, stop_words: Any, min_df: int
) -> None:
    expected = twin(ngram_range=(1, max_ngram), lowercase=lowercase, stop_words=stop_words, min_df=min_df)
    ours = TextVectorizer(max_ngram=max_ngram, lowercase=lowercase, stop_words=stop_words, min_df=min_df)
    try:
        expected.fit(texts)
    except ValueError:
        with pytest.raises(ValueError, match="no feature is left"):
            ours.fit(texts)
        return
    ours.fit(texts)
    assert ours.vocabulary_ == list(expected.get_feature_names_out())
    np.testing.assert_array_equal(ours.idf_, expected.idf_)
    assert_same(ours.transform(texts + others), expected.transform(texts + others))


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXT, min_size=1, max_size=5), lengths=st.tuples(st.integers(1, 4), st.integers(0, 3)))
def test_characters_are_those_of_scikit_learn(texts: list[str], lengths: tuple[int, int]) -> None:
    least, most = lengths[0], sum(lengths)
    expected = twin(analyzer="char_wb", ngram_range=(least, most))
    ours = TextVectorizer(max_ngram=0, min_chars=least, max_chars=most, min_df=1)
    try:
        expected.fit(texts)
    except ValueError:
        with pytest.raises(ValueError, match="no feature is left"):
            ours.fit(texts)
        return
    ours.fit(texts)
    assert ours.vocabulary_ == list(expected.get_feature_names_out())
    assert_same(ours.transform(texts), expected.transform(texts))


def test_words_and_characters_share_one_row() -> None:
    words, characters = CountVectorizer(), CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    counts = sp.hstack([words.fit_transform(TEXTS), characters.fit_transform(TEXTS)]).tocsr().astype(np.float32)
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    ours = TextVectorizer(min_chars=2, max_chars=3, min_df=1).fit(TEXTS)
    assert ours.vocabulary_ == [*words.get_feature_names_out(), *characters.get_feature_names_out()]
    assert_same(ours.transform(TEXTS), expected)


def test_plain_counts_and_plain_rows_are_those_of_scikit_learn() -> None:
    texts = ["web " * 300 + "server", *TEXTS]
    expected = TfidfVectorizer(dtype=np.float32, norm=None, max_df=0.4).fit(texts)
    ours = TextVectorizer(sublinear_tf=False, unit_rows=False, min_df=1, max_df=0.4).fit(texts)
    assert_same(ours.transform(texts), expected.transform(texts))


def test_max_features_keeps_the_most_frequent_and_breaks_ties_by_spelling() -> None:
    vectorizer = TextVectorizer(min_df=1, max_features=3).fit(["bb bb aa", "dd cc bb", "dd"])
    assert vectorizer.vocabulary_ == ["aa", "bb", "dd"]


def test_real_descriptions_give_the_bits_of_scikit_learn_with_any_number_of_threads(shared_data: Any) -> None:
    import gzip
    import json

    with gzip.open(shared_data("debtags/debtags_test.jsonl.gz"), "rt") as file:
        texts = [json.loads(line)["text"] for line in file][:3000]
    expected = twin(ngram_range=(1, 2), min_df=2).fit(texts)
    ours = TextVectorizer(max_ngram=2).fit(texts)
    for n_jobs in (1, 3):
        assert_same(ours.transform(texts, n_jobs=n_jobs), expected.transform(texts))


def test_no_letter_or_blank_lies_beyond_the_classes() -> None:
    beyond = "".join(map(chr, range(_END_OF_CLASSES, sys.maxunicode + 1)))
    assert re.search(r"[\w\s]", beyond) is None


def test_lone_surrogates_are_no_letters() -> None:
    vectorizer = TextVectorizer(min_df=1).fit(["web\ud800server", "mäil"])
    assert vectorizer.vocabulary_ == ["mäil", "server", "web"]
    assert vectorizer.transform(["\udfffweb \ud83d\ude00"]).nnz == 1


def test_locate_finds_words_and_ngrams_in_the_text_as_given() -> None:
    text = "İstanbul's Web, the WEB server"
    vectorizer = TextVectorizer(max_ngram=2, min_df=1, stop_words=["the"]).fit([text])
    names = vectorizer.vocabulary_
    located = {
        names[i]: [text[a:b] for a, b in spans] for i, spans in vectorizer.locate(text, range(len(names))).items()
    }
    assert located["web"] == ["Web", "WEB"]
    assert located["web server"] == ["WEB server"]
    assert located["web web"] == ["Web, the WEB"], "a stop word does not part its neighbours"
    assert located["stanbul"] == ["stanbul"], "'İ'.lower() is an i and a mark that is no letter"


@settings(max_examples=60, deadline=None)
@given(text=TEXT)
def test_every_feature_of_a_text_is_located(text: str) -> None:
    vectorizer = TextVectorizer(max_ngram=2, min_chars=2, max_chars=3, min_df=1)
    try:
        row = vectorizer.fit([text]).transform([text])
    except ValueError:
        return
    text = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    for spans in vectorizer.locate(text, row.indices).values():
        assert spans
        assert all(0 <= begin <= end <= len(text) for begin, end in spans)


def test_copies_and_pickles_answer_alike() -> None:
    vectorizer = TextVectorizer(min_df=1).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)
    for other in (copy.deepcopy(vectorizer), pickle.loads(pickle.dumps(vectorizer))):
        assert_same(other.transform(TEXTS), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_df": 0}, "TextVectorizer: min_df must be an int >= 1, got 0"),
        ({"max_ngram": 0}, "max_ngram and max_chars must not both be 0"),
        ({"min_chars": 4, "max_chars": 3}, "max_chars must be 0 or >= min_chars=4, got 3"),
        ({"stop_words": "german"}, "stop_words must be None or one of 'english' or a list of str, got 'german'"),
        ({"max_df": 0.0}, r"max_df must be a number in \(0, 1\]"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextVectorizer(**settings).fit(TEXTS)


def test_transform_before_fit_says_so() -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        TextVectorizer().transform(["a"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"idf_": np.ones(2, np.float32)}, "idf_ has 2 values, but there are 3 features"),
        ({"feature_bytes_": np.frombuffer(b"aaaabb", np.uint8)}, "feature 1 is the same as feature 0"),
        ({"feature_bytes_": np.frombuffer(b"aabb", np.uint8)}, "ends at byte 6, but there are 4"),
        ({"feature_ends_": np.array([2, 2, 6])}, "ends must increase from 1, got 2 at 1"),
        ({"feature_ends_": np.array([-1, 2, 6])}, "ends must increase from 1, got -1 at 0"),
        ({"n_words_": 4}, r"n_words must be in \[0, 3\], got 4"),
        ({"feature_bytes_": np.frombuffer(b"aabb\xff\xff", np.uint8)}, "must be UTF-8, invalid start byte at 4"),
    ],
)
def test_a_damaged_vocabulary_is_refused(arrays: dict[str, Any], message: str) -> None:
    vectorizer = TextVectorizer(min_df=1).fit(["aa bb cc"])
    vectorizer._native = None
    for name, array in arrays.items():
        setattr(vectorizer, name, array)
    with pytest.raises(ValueError, match=message):
        vectorizer.check_state()
