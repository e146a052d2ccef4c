"""The tagger from texts to names, with data whose answer a reader can see."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from tests.word_counter import WordCounter

TOPICS = {"web": ["server", "browser"], "mail": ["mailbox", "postman"], "game": ["chess", "puzzle"], "rare": ["zebra"]}


@pytest.fixture
def texts() -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(TOPICS[name][rng.integers(len(TOPICS[name]))] for name in row) for row in label_rows()]


def label_rows() -> list[list[str]]:
    rows = [["web"], ["mail"], ["game"], ["web", "mail"], ["mail", "game"]] * 12
    return [*rows, ["rare"], ["rare", "web"]]


@pytest.fixture
def tagger(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> lt.Tagger:
    WordCounter.register(monkeypatch)
    return lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1)).fit(texts, label_rows())


@pytest.fixture(scope="module")
def sample_tagger() -> lt.Tagger:
    sample = lt.datasets.load_sample()
    return lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(sample.train_texts[:800], sample.train_labels[:800], calibrate=True)


def names(tags: list[lt.Tag]) -> list[str]:
    return [tag.label for tag in tags]


def test_a_word_brings_its_label(tagger: lt.Tagger) -> None:
    assert tagger.label_names_ == ["game", "mail", "rare", "web"]
    assert [names(row)[0] for row in tagger.tag(["chess", "a zebra", "Browser!"])] == ["game", "rare", "web"]
    first = tagger.tag(["chess"], top_k=1)[0][0]
    assert first.label == "game"
    assert first.proba is None
    assert tagger.tag([]) == []


def test_an_estimate_leaves_the_tagger_unfitted(texts: list[str]) -> None:
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1))
    found = tagger.estimate(texts, label_rows())
    assert found.memory_bytes > found.model_bytes > 0
    with pytest.raises(ValueError, match="fit"):
        tagger.tag(texts[:1])


def test_blocked_and_excluded_labels_are_replaced_by_the_next_best(texts: list[str], tagger: lt.Tagger) -> None:
    text = "server mailbox chess"
    everything = names(tagger.tag([text], top_k=3)[0])
    for label in everything:
        assert names(tagger.tag([text], top_k=2, exclude=[label])[0]) == [n for n in everything if n != label]
    blocking = lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1), blocked=["web", "no label at all"])
    blocking.fit(texts, label_rows())
    assert set(blocking.blocked) == {"web", "no label at all"}
    assert "web" not in names(blocking.tag([text], top_k=4)[0])
    assert names(blocking.tag([text], exclude=["mail"])[0])[0] == "game"


@pytest.mark.parametrize("wrong", ["web", 5, [1], None])
def test_what_is_blocked_is_checked_when_it_is_set(tagger: lt.Tagger, wrong: Any) -> None:
    with pytest.raises(TypeError, match="Tagger: blocked must"):
        tagger.blocked = wrong
    with pytest.raises(TypeError, match="Tagger: blocked must"):
        lt.Tagger(blocked=wrong)
    tagger.blocked = (name for name in ["web"])
    assert tagger.blocked == ("web",)


def test_include_ranks_only_what_is_asked_for(tagger: lt.Tagger) -> None:
    tags = tagger.tag(["server mailbox chess", "zebra"], include=["rare", "game"])
    assert [set(names(row)) for row in tags] == [{"rare", "game"}, {"rare", "game"}]
    assert names(tags[1])[0] == "rare"
    assert tagger.tag(["zebra"], include=["rare"], exclude=["rare"]) == [[]]
    with pytest.raises(ValueError, match="Tagger: include: there is no label 'tiger'"):
        tagger.tag(["zebra"], include=["tiger"])


def test_a_misspelt_label_to_exclude_is_an_error_that_names_close_ones(tagger: lt.Tagger) -> None:
    with pytest.raises(ValueError, match="Tagger: exclude: there is no label 'gaem'; there is 'game'"):
        tagger.tag(["chess"], exclude=["web", "gaem"])


def test_labels_far_down_are_found_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    n_labels = 3000
    words = [f"w{i:04d}" for i in range(n_labels)]
    tagger = lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1)).fit(words, [[f"L{i:04d}"] for i in range(n_labels)])
    wanted = ["L2999", "L0007", "L1500"]
    found = tagger.tag(["w0007 w0001", "w0003"], include=wanted, top_k=2)
    assert names(found[0])[0] == "L0007"
    assert all(set(names(row)) <= set(wanted) and len(row) == 2 for row in found)
    assert tagger.tag(["w0007"], exclude=[f"L{i:04d}" for i in range(2998)], top_k=5)[0] != []


def test_calibrated_taggers_know_how_many_labels_to_give(texts: list[str], tagger: lt.Tagger) -> None:
    with pytest.raises(ValueError, match="threshold='auto' needs a calibrated model; fit with"):
        tagger.tag(texts, threshold="auto")
    tagger.calibrate(texts, label_rows())
    found = tagger.tag(texts, top_k=None, threshold="auto")
    n_right = sum(set(names(row)) == set(labels) for row, labels in zip(found, label_rows(), strict=True))
    assert n_right >= 55
    assert {len(row) for row in found} >= {1, 2}
    for row in tagger.tag(texts[:5], top_k=4):
        assert all(tag.proba is not None and 0 <= tag.proba <= 1 for tag in row)
        assert [tag.proba for tag in row] == sorted((tag.proba or 0.0 for tag in row), reverse=True)
    certain = tagger.tag(texts, threshold=0.9)
    assert all(tag.proba is not None and tag.proba >= 0.9 for row in certain for tag in row)


def test_utilities_change_what_a_tagger_proposes(texts: list[str]) -> None:
    tagger = lt.Tagger(WordCounter(), lt.TextVectorizer(min_df=1)).fit(texts, label_rows(), calibrate=True)
    text = ["server mailbox zebra"]
    by_proba, by_rarity = (tagger.tag(text, top_k=4, utility=utility)[0] for utility in ("precision", "power:10"))
    counts = dict(zip(tagger.label_names_, tagger.label_counts_.tolist(), strict=True))
    assert counts[by_rarity[0].label] == min(counts.values())
    assert {tag[:3] for tag in by_proba} == {tag[:3] for tag in by_rarity}  # same scores and chances
    assert [tag.utility for tag in by_proba] == [None] * 4
    assert [tag.utility for tag in by_rarity] == sorted((tag.utility or 0.0 for tag in by_rarity), reverse=True)
    assert names(tagger.tag(text, top_k=1, utility="power:10", max_loss=0)[0]) == names(by_proba[:1])
    assert [tag.score for tag in tagger.tag(text, 4, utility="score")[0]] == sorted(
        (tag.score for tag in by_proba), reverse=True
    )
    ids = tagger.predict_top_k(text, 4, utility="power:10").label_ids[0]
    assert [tagger.label_names_[label_id] for label_id in ids] == names(by_rarity)
    assert tagger.tag(text, 4, utility="power:10", exclude=[by_rarity[0].label])[0] == by_rarity[1:]
    least = by_proba[1].proba
    assert {tag.label for tag in tagger.tag(text, 4, utility="psp", threshold=least)[0]} == set(names(by_proba[:2]))


def test_calibrated_taggers_rank_by_probability_and_the_cut_comes_last(
    sample_tagger: lt.Tagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = lt.datasets.load_sample().test_texts[:200]
    tagger = sample_tagger
    assert tagger.calibration_ is not None
    more = replace(tagger.calibration_._fitted, balanced_power=0.2)  # as found with more rows
    monkeypatch.setattr(tagger.calibration_, "_fitted", more)
    everything = tagger.tag(texts, top_k=None)
    for row, all_of_row in zip(tagger.tag(texts, top_k=3), everything, strict=True):
        likeliest = sorted((tag.proba or 0.0 for tag in all_of_row), reverse=True)
        assert [tag.proba for tag in row] == likeliest[:3]
    for threshold in (0.5, "auto"):
        whole = tagger.tag(texts, top_k=None, threshold=threshold)  # type: ignore[arg-type]
        assert max(len(row) for row in whole) > 5
        cut = tagger.tag(texts, top_k=5, threshold=threshold)  # type: ignore[arg-type]
        assert cut == [row[:5] for row in whole]
    assert tagger.propose(texts, 3) == tagger.tag(texts, 3)
    ranked = tagger.predict_top_k(texts, 3).label_ids
    assert [[tagger.label_names_[label_id] for label_id in row] for row in ranked] == [
        names(row[:3]) for row in everything
    ]
    balanced = tagger.tag(texts, top_k=3, utility="balanced")
    assert any(names(ours) != names(others[:3]) for ours, others in zip(balanced, everything, strict=True))


def test_a_text_without_known_words_gets_no_labels(sample_tagger: lt.Tagger) -> None:
    some = sample_tagger.tag(["xyzzy plugh", "", "a web server"])
    assert [len(row) for row in some] == [0, 0, 5]
    assert sample_tagger.tag(["xyzzy plugh"], include=["role::program"]) == [[]]
    assert sample_tagger.predict(["xyzzy plugh"]) == [[]]


def test_an_uncalibrated_threshold_is_one_of_scores(tagger: lt.Tagger) -> None:
    [everything] = tagger.tag(["server mailbox"], top_k=4)
    [some] = tagger.tag(["server mailbox"], top_k=4, threshold=everything[1].score)
    assert some == everything[:2]


@pytest.mark.parametrize("measure", ["micro_f1", "macro_f1", "precision"])
def test_a_saved_tagger_answers_the_same(texts: list[str], tagger: lt.Tagger, tmp_path: Path, measure: Any) -> None:
    tagger.blocked = frozenset({"rare"})
    tagger.calibrate(texts, label_rows(), measure=measure, floor=0.8 if measure == "precision" else None)
    tagger.evaluate(texts, label_rows())
    lt.save(tagger, tmp_path / "m")
    loaded = lt.load(tmp_path / "m", verify=True)
    assert isinstance(loaded, lt.Tagger)
    for options in ({}, {"threshold": "auto"}, {"threshold": 0.5, "exclude": ["web"]}, {"include": ["mail"]}):
        assert loaded.tag(texts, **options) == tagger.tag(texts, **options)  # type: ignore[arg-type]
    assert loaded.card() == tagger.card()
    assert set(loaded.blocked) == set(tagger.blocked)
    assert loaded.example_texts_ == tagger.example_texts_
    assert loaded.explain("server", "web") == tagger.explain("server", "web")


def test_own_vectors_may_take_the_place_of_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.random((20, 6)).astype(np.float32)
    labels = [[f"L{int(row.argmax())}"] for row in vectors]
    tagger = lt.Tagger(lt.Popularity(), vectorizer=None).fit(vectors, labels)
    assert tagger.tag(vectors, top_k=2) == lt.Tagger(lt.Popularity(), None).fit(sp.csr_array(vectors), labels).tag(
        sp.csr_array(vectors), top_k=2
    )
    lt.save(tagger, tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    assert isinstance(loaded, lt.Tagger)
    assert loaded.tag(vectors[:1]) == tagger.tag(vectors[:1])
    assert tagger.example_texts_ == []
    with pytest.raises(ValueError, match="explain needs words"):
        tagger.explain("text", "L0")
    with pytest.raises(TypeError, match="takes a matrix, got texts"):
        tagger.tag(["text"])


def test_search_prefers_beginnings_and_frequent_labels() -> None:
    labels = [["web::server"], ["web::browser"], ["web::browser"], ["role::webapp"], ["cobweb"], ["Größe\nweb"]]
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["some text"] * 6, labels)
    assert tagger.search_labels("WEB") == ["web::browser", "web::server", "Größe\nweb", "role::webapp", "cobweb"]
    assert tagger.search_labels("web", limit=1) == ["web::browser"]
    assert tagger.search_labels("server") == ["web::server"]
    assert tagger.search_labels("GRÖSSE w") == ["Größe\nweb"]
    assert tagger.search_labels("", limit=2) == ["web::browser", "Größe\nweb"]
    assert tagger.search_labels("nothing") == []


def test_the_card_is_json_and_tells_what_the_model_is(texts: list[str], tagger: lt.Tagger) -> None:
    tagger.evaluate(texts, label_rows())
    card = tagger.card()
    assert json.loads(json.dumps(card)) == card
    assert (card["estimator"], card["n_rows"], card["n_labels"]) == ("WordCounter", 62, 4)
    assert card["label_counts"]["least"] == 2
    assert card["metrics"]["P@1"] > 90
    assert card["versions"]["longtail"] == lt.__version__


def test_examples_are_short_training_texts() -> None:
    texts = ["x" * 500, "y" * 10, "a readable text of a good length for a page", "z" * 1000]
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, [["a"]] * 4)
    assert tagger.example_texts_ == [texts[2]]


def test_a_new_fit_forgets_the_old_one(texts: list[str], tagger: lt.Tagger) -> None:
    tagger.calibrate(texts, label_rows()).evaluate(texts, label_rows())
    tagger.search_labels("web")
    tagger.fit(["one two", "two three"], [["x"], ["y"]])
    assert tagger.calibration_ is None
    assert tagger.metrics_ == {}
    assert tagger.search_labels("") == ["x", "y"]
    assert names(tagger.tag(["one"], exclude=["y"])[0]) == ["x"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: t.tag("one text"), TypeError, "texts must be a list of str, got one str"),
        (lambda t: t.tag([1]), TypeError, "text 0 must be a str, got 1"),
        (lambda t: t.tag(["a"], top_k=0), ValueError, "top_k must be an int >= 1 or None, got 0"),
        (lambda t: t.tag(["a"], utility="psp"), ValueError, "utility must be None or 'score' for a model that is not"),
        (lambda t: t.tag(["a"], utility="fame"), ValueError, "utility must be one of score, balanced"),
        (lambda t: t.tag(["a"], utility="score", max_loss=1), ValueError, "max_loss must be None for a model"),
        (lambda t: t.tag(["a"], max_loss=1), ValueError, "max_loss must be None for a model that is not calibrated"),
        (lambda t: t.tag(["a"], threshold="high"), ValueError, "threshold must be None or a number or one of 'auto'"),
        (lambda t: t.tag(["a"], exclude="web"), TypeError, "exclude must be a list of label names, got the str 'web'"),
        (lambda t: t.tag(["a"], include="web"), TypeError, "include must be a list of label names, got the str 'web'"),
        (lambda t: t.evaluate(["a"], [["tiger"]]), ValueError, "no text has a label that the tagger knows"),
        (lambda t: t.explain("a", "tiger"), ValueError, "there is no label 'tiger'"),
        (lambda t: t.fit(["a"], []), ValueError, "got 1 text but 0 lists of labels"),
        (lambda t: t.fit(["a"], ["web, net"]), ValueError, "labels hold ',' .*pass label_separator=','"),
        (lambda t: t.fit(["a"], [[0.5]]), ValueError, "the labels of text 0: labels must be text or whole numbers"),
        (lambda t: t.fit(["a"], [[]]), ValueError, "no text has a label"),
        (lambda t: t.fit(["a", "b"], [["c"], ["d", " "]]), ValueError, "labels must have names, but text 1 has ' '"),
        (lambda t: t.calibrate(["a"], [["web"]], measure="f1"), ValueError, "measure must be one of"),
        (lambda t: lt.Tagger("DiSMEC").fit(["a"], [["b"]]), TypeError, "estimator must be a longtail estimator"),
        (
            lambda t: lt.Tagger(None, "bm25").fit(["a"], [["b"]]),
            TypeError,
            "vectorizer must be a TextVectorizer, 'tfidf' or None",
        ),
        (lambda t: lt.Tagger().tag(["a"]), ValueError, "not fitted yet; call fit"),
        (lambda t: lt.Tagger().card(), ValueError, "not fitted yet; call fit"),
    ],
)
def test_wrong_calls_say_what_to_do(tagger: lt.Tagger, call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call(tagger)
