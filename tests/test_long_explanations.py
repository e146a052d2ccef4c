"""Explanations of long texts: linear cost, and the same spans as a search feature by feature."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import longtail as lt
from longtail.dismec.lookup import places_of_label
from tests.word_counter import WordCounter

ALPHABET = st.text(alphabet="abAİßé \n\t\x1c\u3000_-'", max_size=60)


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], list[list[str]]]:
    """Texts of 200 words out of 20,000, five labels."""
    rng = np.random.default_rng(0)
    words = [f"w{number:05d}" for number in range(20_000)]
    texts = [" ".join(rng.choice(words, size=200)) for _ in range(150)]
    return texts, [[f"label {row_id % 5}"] for row_id in range(150)]


LONG = 100_000


@pytest.mark.parametrize("settings", [{}, {"max_ngram": 2}, {"max_chars": 4}], ids=["words", "pairs", "characters"])
def test_a_long_text_is_explained_in_a_moment(corpus, settings) -> None:
    """Searching each feature among all words took more than a minute for this text."""
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1, prune_below=0.0), lt.TextVectorizer(min_df=1, **settings)).fit(*corpus)
    text = " ".join(corpus[0])[:LONG]
    begin = time.process_time()
    found = tagger.explain(text, "label 1")
    assert time.process_time() - begin < 3, "expected 0.05 s; the bound leaves room for slow machines"
    assert len(found.words) > 10_000
    assert found.bias + sum(word.contribution for word in found.words) == pytest.approx(found.score, rel=1e-4)


def test_an_estimator_without_explanations_is_asked_a_bounded_number_of_times(corpus) -> None:
    """A matrix with one row for each feature left out would take 100 million entries for this text."""
    tagger = lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1)).fit(*corpus)
    text = " ".join(corpus[0])[:LONG]
    begin = time.process_time()
    found = tagger.explain(text, "label 1")
    assert time.process_time() - begin < 10
    assert 0 < len(found.words) <= 256


def test_only_the_strongest_words_are_listed_and_the_rest_is_summed(corpus) -> None:
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1, prune_below=0.0), lt.TextVectorizer(min_df=1)).fit(*corpus)
    whole = tagger.explain(corpus[0][0], "label 0")
    part = tagger.explain(corpus[0][0], "label 0", max_words=7)
    assert part.words == whole.words[:7]
    assert whole.rest == 0
    total = part.bias + part.rest + sum(word.contribution for word in part.words)
    assert total == pytest.approx(part.score, rel=1e-6)


def test_max_words_must_be_positive(corpus) -> None:
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(*corpus)
    with pytest.raises(ValueError, match="Tagger: max_words must be"):
        tagger.explain("w00001", "label 0", max_words=0)


def _word_spans(text: str, stop_words: set[str], name: str) -> list[tuple[int, int]]:
    """The naive twin: compare the words of one name at every position."""
    words = [match.span() for match in re.finditer(r"\w\w+", text) if match.group() not in stop_words]
    parts = name.split(" ")
    return [
        (words[first][0], words[first + len(parts) - 1][1])
        for first in range(len(words) - len(parts) + 1)
        if all(text[slice(*words[first + i])] == part for i, part in enumerate(parts))
    ]


def _character_spans(text: str, name: str) -> list[tuple[int, int]]:
    """The naive twin: search one name in every padded word."""
    found = []
    for piece in re.finditer(r"\S+", text):
        padded = f" {piece.group()} "
        for at in range(len(padded) - len(name) + 1):
            if padded[at : at + len(name)] == name:
                begin = piece.start() + at - 1
                found.append((max(begin, piece.start()), min(begin + len(name), piece.end())))
    return found


@settings(max_examples=200, deadline=None)
@given(text=ALPHABET, stop_words=st.sets(st.sampled_from(["ab", "ba", "aa"])))
def test_features_are_found_where_the_twins_find_them(text: str, stop_words: set[str]) -> None:
    vectorizer = lt.TextVectorizer(
        min_df=1, max_ngram=2, min_chars=1, max_chars=4, stop_words=sorted(stop_words) or None, lowercase=False
    )
    try:
        vectorizer.fit([text])
    except ValueError:
        assume(False)  # nothing is left of the text
    ids = range(len(vectorizer.vocabulary_))
    found = vectorizer.locate(text, ids)
    for feature_id, name in zip(ids, vectorizer.vocabulary_, strict=True):
        is_word = feature_id < vectorizer.n_words_
        expected = _word_spans(text, stop_words, name) if is_word else _character_spans(text, name)
        assert found[feature_id] == sorted(expected), name


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=8), label_id=st.integers(0, 9))
def test_weights_of_a_label_are_found_where_they_are(rows: list[set[int]], label_id: int) -> None:
    label_ids = np.array([label for row in rows for label in sorted(row)], dtype=np.int32)
    indptr = np.cumsum([0, *map(len, rows)])
    feature_ids = np.arange(len(rows), dtype=np.int32)
    expected = [
        begin + sorted(row).index(label_id) if label_id in row else -1
        for begin, row in zip(indptr[:-1].tolist(), rows, strict=True)
    ]
    assert places_of_label(indptr, label_ids, feature_ids, label_id).tolist() == expected
