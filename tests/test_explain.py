"""Explanations: exact where they say so, and words where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail.fastxml.forest import LinearForest
from longtail.fastxml.paths import sum_linear_paths
from longtail.gbdt.forest import vote
from longtail.gbdt.paths import sum_paths
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


@pytest.fixture(scope="module")
def sample() -> tuple[list[str], list[list[str]]]:
    """Two hundred texts: each topic has words of its own, and all share some."""
    rng = np.random.default_rng(0)
    topics = [[f"{letter}{i}x" for i in range(8)] for letter in "abcdef"]
    texts, labels = [], []
    for _ in range(200):
        chosen = rng.choice(6, size=rng.integers(1, 3), replace=False)
        words = [str(rng.choice(topics[topic])) for topic in chosen for _ in range(3)]
        texts.append(" ".join([*words, *(f"common{i}" for i in rng.choice(9, size=3))]))
        labels.append([f"topic {'abcdef'[topic]}" for topic in chosen])
    return texts, labels


LINEAR = {
    "DiSMEC": lambda: lt.DiSMEC(n_jobs=1),
    "DiSMEC without bias": lambda: lt.DiSMEC(n_jobs=1, bias=0.0),
    "DiSMEC int8": lambda: lt.DiSMEC(n_jobs=1, weight_type="int8"),
    "LEML": lambda: lt.LEML(n_jobs=1, n_components=10),
    "LPSR": lambda: lt.LPSR(n_jobs=1, max_leaf_size=100),
    "LPSRNB": lambda: lt.LPSRNB(n_jobs=1, max_leaf_size=100),
}
TREES = {
    "FastXML": lambda: lt.FastXML(n_jobs=1, n_trees=20),
    "FastXML on unit rows": lambda: lt.FastXML(n_jobs=1, n_trees=20, unit_rows=True, bias=0.0),
    "GBDTSparse": lambda: lt.GBDTSparse(n_jobs=1, n_trees=20, min_leaf_size=3, n_components=20, shrinkage=0.3),
    "GBDTSparse on words": lambda: lt.GBDTSparse(
        n_jobs=1, n_trees=20, min_leaf_size=3, projection="none", shrinkage=0.3
    ),
}


@pytest.mark.parametrize("make", LINEAR.values(), ids=LINEAR)
def test_linear_explanations_add_up_to_the_score(make: Any, sample: Any) -> None:
    tagger = lt.Tagger(make(), lt.TextVectorizer(min_df=1)).fit(*sample)
    for text in [*sample[0][:5], "a1x b2x common1", "unknown words", ""]:
        for tag in tagger.tag([text], top_k=6)[0]:
            found = tagger.explain(text, tag.label)
            assert found.exact
            assert found.score == pytest.approx(tag.score, rel=1e-4, abs=1e-5)
            total = found.bias + sum(word.contribution for word in found.words)
            assert total == pytest.approx(found.score, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_tree_explanations_give_the_score_and_add_up(make: Any, sample: Any) -> None:
    tagger = lt.Tagger(make(), lt.TextVectorizer(min_df=1)).fit(*sample)
    for text in [*sample[0][:5], "a1x b2x common1", ""]:
        for tag in tagger.tag([text], top_k=3)[0]:
            found = tagger.explain(text, tag.label)
            assert not found.exact
            assert found.score == pytest.approx(tag.score, rel=1e-4, abs=1e-5)
            total = found.bias + sum(word.contribution for word in found.words)
            assert total == pytest.approx(found.score, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("make", [*LINEAR.values(), *TREES.values()], ids=[*LINEAR, *TREES])
def test_the_topics_own_words_speak_for_it(make: Any, sample: Any) -> None:
    texts, labels = sample
    tagger = lt.Tagger(make(), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    right = [
        tagger.explain(text, names[0]).words[0].word.startswith(names[0][-1])
        for text, names in zip(texts[:40], labels[:40], strict=True)
        if len(names) == 1 and tagger.explain(text, names[0]).words
    ]
    assert np.mean(right) > 0.85


def test_paths_add_up_to_the_votes_of_the_trees(sample: Any) -> None:
    """The vectorised walk against the one-row walk of GBDTSparse.explain_row, tree by tree."""
    rng = np.random.default_rng(0)
    X = rng.random((80, 6)).astype(np.float32)
    Y = np.eye(4)[X[:, :4].argmax(axis=1)]
    model = lt.GBDTSparse(n_jobs=1, n_trees=6, min_leaf_size=2, leaf_top_k=2).fit(X, Y)
    forest = model._whole().state.forest
    for row in X[:10]:
        for label_id in range(4):
            votes = [vote(forest, tree_id, row, label_id) for tree_id in range(6)]
            sums = sum_paths(forest, row, label_id)
            assert sums.score == pytest.approx(sum(v.contribution for v in votes), abs=1e-5)
            used = {split.feature_id for v in votes for split in v.path}
            assert set(np.flatnonzero(sums.by_feature)) <= used


def test_linear_splits_share_their_gain_among_the_words_that_decide() -> None:
    """One tree of one split: 2·x0 − x1 >= 0 leads to a leaf that knows the label, the other side does not."""
    forest = LinearForest(
        tree_roots=np.array([0], np.int32),
        right_child=np.array([2, 0, 0], np.int32),
        biases=np.zeros(3, np.float32),
        split_indptr=np.array([0, 2, 2, 2]),
        split_features=np.array([0, 1], np.int32),
        split_weights=np.array([2, -1], np.float32),
        leaf_indptr=np.array([0, 0, 0, 1]),
        leaf_labels=np.array([3], np.int32),
        leaf_values=np.array([0.8], np.float32),
    )
    features = np.arange(3, dtype=np.int32)
    sums = sum_linear_paths(forest, features, np.array([1, 1, 1], np.float32), 3)
    assert sums.score == pytest.approx(0.8)
    assert sums.bias == pytest.approx(0.4), "a tree knows nothing before its first decision"
    np.testing.assert_allclose(sums.by_feature, [0.8, -0.4, 0], atol=1e-6)
    away = sum_linear_paths(forest, features[1:2], np.array([1], np.float32), 3)
    assert away.score == 0
    np.testing.assert_allclose(away.by_feature, [-0.4], atol=1e-6)
    assert sum_linear_paths(forest, features, np.array([1, 1, 1], np.float32), 2).score == 0
