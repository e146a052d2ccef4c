"""Explanations: exact where they say so, and words where they stand."""

from __future__ import annotations

import pytest

import longtail as lt
from tests.word_counter import WordCounter

TEXTS = ["a web server", "a web browser", "mail server", "chess puzzle"]
LABELS = [["net", "server"], ["net"], ["net", "server"], ["game"]]


@pytest.fixture
def tagger() -> lt.Tagger:
    return lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1, max_ngram=2)).fit(TEXTS, LABELS)


def test_an_estimator_that_cannot_tell_is_asked_without_each_word(tagger: lt.Tagger) -> None:
    text = "Chess, the web-server! WEB"
    found = tagger.explain(text, "server")
    score = {tag.label: tag.score for tag in tagger.tag([text])[0]}["server"]
    assert not found.exact
    assert found.score == pytest.approx(score)
    words = {word.word: word for word in found.words}
    assert "chess" not in words, "it says nothing about this label"
    assert [text[a:b] for a, b in words["web"].spans] == ["web", "WEB"]
    assert [text[a:b] for a, b in words["web server"].spans] == ["web-server"]
    assert all(word.contribution > 0 for word in found.words)
    # A linear scorer loses exactly what the word gave.
    assert found.bias + sum(word.contribution for word in found.words) == pytest.approx(found.score, rel=1e-5)


def test_words_that_matter_most_come_first(tagger: lt.Tagger) -> None:
    sizes = [abs(word.contribution) for word in tagger.explain("web server mail browser", "net").words]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("text", ["", "nothing known here", "web"])
def test_texts_of_no_or_one_known_word_can_be_explained(tagger: lt.Tagger, text: str) -> None:
    found = tagger.explain(text, "net")
    assert [word.word for word in found.words] == (["web"] if text == "web" else [])
    assert found.bias == 0


def test_popularity_owes_nothing_to_words() -> None:
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(TEXTS, LABELS)
    found = tagger.explain("web server", "net")
    assert found.words == []
    assert found.score == found.bias == pytest.approx(0.75)
