"""Labels that come, go and change their names after training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail._fitted import State
from tests.cli.test_commands import longtail
from tests.contract.estimators import ESTIMATORS
from tests.word_counter import WordCounter

N_TOPICS = 12


def corpus(n_texts: int = 240, n_topics: int = N_TOPICS) -> tuple[list[str], list[list[str]]]:
    """Texts whose labels can be read off their words: topic 3 writes 'word3' and 'thing3'."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for i in range(n_texts):
        topics = {i % n_topics, int(rng.integers(n_topics))}
        texts.append(" ".join(f"{w}{t}" for t in topics for w in ("word", "thing")) + f" noise{rng.integers(9)}")
        labels.append([f"topic {t:02d}" for t in sorted(topics)])
    return texts, labels


def scores(tagger: lt.Tagger, texts: list[str]) -> list[dict[str, float]]:
    return [{tag.label: tag.score for tag in row} for row in tagger.tag(texts, top_k=None)]


MODELS = {
    **ESTIMATORS,
    "int8": lambda: lt.DiSMEC(n_jobs=1, weight_type="int8"),
    "parabel": lambda: lt.LabelTree.parabel(max_leaf_size=2, beam_width=100, n_jobs=1),
    "int8 tree": lambda: lt.LabelTree(max_leaf_size=2, fan_out=3, beam_width=100, weight_type="int8", n_jobs=1),
    "Blend": lambda: lt.Blend(first=lt.DiSMEC(n_jobs=1), second=lt.FastXML(n_trees=5, n_jobs=1), n_jobs=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_removed_labels_are_gone_and_the_others_keep_their_scores(name: str, tmp_path: Path) -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(MODELS[name](), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    tagger.calibrate(texts, labels)
    before = scores(tagger, texts[:40])
    removed = ["topic 01", "topic 02", "topic 07"]
    if type(tagger.estimator)._State.keep_labels is State.keep_labels:  # systems that papers compare with
        with pytest.raises(ValueError, match="cannot remove labels; call block"):
            tagger.remove_labels(removed)
        return
    tagger.remove_labels(removed)
    assert tagger.label_names_ == [f"topic {t:02d}" for t in range(N_TOPICS) if t not in (1, 2, 7)]
    assert tagger.n_labels_ == len(tagger.label_counts_) == 9
    lt.save(tagger, tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    for found in (tagger, loaded):
        for old, new in zip(before, scores(found, texts[:40]), strict=True):
            expected = {label: score for label, score in old.items() if label not in removed}
            if name == "Blend":  # looks deeper into each ranking when there are fewer labels
                assert expected.keys() <= new.keys()
            else:
                assert new == expected
    assert loaded.encode([["topic 01", "topic 11"]])[0].toarray().tolist() == [[0] * 8 + [1]]
    assert all(tag.proba is not None for row in loaded.tag(texts[:3]) for tag in row)


def test_a_tree_loses_the_nodes_whose_labels_are_all_gone() -> None:
    texts, labels = corpus()
    tree = lt.LabelTree(max_leaf_size=2, fan_out=2, n_jobs=1)
    tagger = lt.Tagger(tree, lt.TextVectorizer(min_df=1)).fit(texts, labels)
    n_nodes = len(tagger.estimator.child_indptr_)
    tagger.remove_labels([f"topic {t:02d}" for t in range(1, N_TOPICS)])
    assert [tag.label for tag in tagger.tag(["word0"], top_k=None)[0]] == ["topic 00"]
    assert len(tagger.estimator.child_indptr_) < n_nodes
    with pytest.raises(ValueError, match="must leave a label"):
        tagger.remove_labels(["topic 00"])


@pytest.mark.parametrize("name", ["DiSMEC", "LabelTree"])
def test_new_labels_are_learnt_and_old_ones_stay(name: str, tmp_path: Path) -> None:
    texts, labels = corpus()
    known = [[label for label in row if label != "topic 05"] for row in labels]
    tagger = lt.Tagger(ESTIMATORS[name](), lt.TextVectorizer(min_df=1)).fit(texts, known)
    tagger.calibrate(texts, known)
    tagger.evaluate(texts, known)
    before = tagger.tag(texts[:20], top_k=None)
    tagger.add_labels(texts, labels)
    assert tagger.label_names_[-1] == "topic 05"
    assert tagger.metrics_ == {}, "measured with other labels"
    assert tagger.tag(["word5 thing5"], top_k=1)[0][0].label == "topic 05"
    lt.save(tagger, tmp_path / "m")
    assert lt.load(tmp_path / "m").tag(["word5 thing5"], top_k=1) == tagger.tag(["word5 thing5"], top_k=1)
    after = tagger.tag(texts[:20], top_k=None)
    for old, new in zip(before, after, strict=True):
        kept = {tag.label: tag for tag in new}
        assert all(kept[tag.label] == tag for tag in old if tag.label in kept)
    if name == "DiSMEC":  # a tree does not learn the path to a new label, so its probability stays lower
        assert "topic 05" in tagger.predict(["word5 thing5"])[0]


def test_a_calibrated_estimator_can_get_labels() -> None:
    rng = np.random.default_rng(1)
    X = sp.random_array((200, 20), density=0.3, rng=rng, dtype=np.float32, format="csr")
    Y = sp.csr_array((X[:, [0, 1, 2, 3]].toarray() > 0.2).astype(np.float32))
    for model in (lt.DiSMEC(n_jobs=1), lt.LabelTree(n_jobs=1)):
        model.fit(X, Y[:, [0, 1, 2]], calibrate=True).add_labels(X, Y[:, [3]])
        assert model.predict(X).shape == (200, 4)
        assert np.isfinite(model.predict_top_k(X, 4, utility="macro-f1").scores).all()


def test_names_change_and_nothing_else(tmp_path: Path) -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), blocked=["topic 00"]).fit(texts, labels)
    tagger.evaluate(texts, labels)
    measured = dict(tagger.metrics_)
    before = tagger.tag(["word3 thing3"])[0][0]
    tagger.rename_labels({"topic 03": "three", "topic 00": "nought", "topic 01": "topic 02", "topic 02": "topic 01"})
    assert tagger.tag(["word3 thing3"])[0][0] == before._replace(label="three")
    assert tagger.tag(["word1 thing1"])[0][0].label == "topic 02", "two labels may swap their names"
    assert tagger.blocked == ["nought"]
    assert "nought" not in [tag.label for tag in tagger.tag(["word0"], top_k=None)[0]]
    assert tagger.metrics_ == measured
    lt.save(tagger, tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    assert isinstance(loaded, lt.Tagger)
    assert loaded.search_labels("thre") == ["three"]
    assert [word.word for word in loaded.explain("word3", "three").words] == ["word3"]


def test_block_and_unblock_by_name() -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, labels)
    tagger.block(["topic 03"]).block(["topic 04"])
    assert tagger.blocked == ["topic 03", "topic 04"]
    assert tagger.tag(["word3 thing3"])[0][0].label != "topic 03"
    tagger.unblock(["topic 03"])
    assert tagger.tag(["word3 thing3"])[0][0].label == "topic 03"
    with pytest.raises(ValueError, match="label 'topic 03' is not blocked"):
        tagger.unblock(["topic 03"])


def test_what_cannot_be_changed_is_refused_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    WordCounter.register(monkeypatch)
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, labels)
    state = tagger._state
    with pytest.raises(ValueError, match="there is no label 'topic 3'"):
        tagger.remove_labels(["topic 3"])
    with pytest.raises(ValueError, match="there is no label 'topics'"):
        tagger.block(["topics"])
    with pytest.raises(ValueError, match="'topic 04' would name two labels"):
        tagger.rename_labels({"topic 03": "topic 04"})
    with pytest.raises(ValueError, match="must be a text that is not blank"):
        tagger.rename_labels({"topic 03": " "})
    with pytest.raises(TypeError, match="takes a dict"):
        tagger.rename_labels(["topic 03"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a list of label names"):
        tagger.remove_labels("topic 03")
    with pytest.raises(ValueError, match="does not know yet, got none"):
        tagger.add_labels(texts, labels)
    with pytest.raises(ValueError, match="label 'new' must be missing from some texts"):
        tagger.add_labels(["word1", "word2"], [["new"], ["new"]])
    assert tagger._state is state
    other = lt.Tagger(WordCounter()).fit(texts, labels)
    with pytest.raises(ValueError, match="WordCounter cannot remove labels; call block"):
        other.remove_labels(["topic 03"])
    with pytest.raises(ValueError, match="got WordCounter; call fit"):
        other.add_labels(texts, [["new"], *[[]] * (len(texts) - 1)])


def test_the_command_lists_and_changes_labels(tmp_path: Path) -> None:
    texts, labels = corpus()
    data, model = tmp_path / "train.jsonl", tmp_path / "m"

    def write(rows: list[list[str]]) -> None:
        lines = (json.dumps({"text": t, "labels": r}) + "\n" for t, r in zip(texts, rows, strict=True))
        data.write_text("".join(lines))

    write([[label for label in row if label != "topic 05"] for row in labels])
    longtail("train", data, "-o", model, "--n-jobs", "1")
    write(labels)
    assert "1 new label" in longtail("labels", model, "add", data).stderr
    longtail("labels", model, "rename", "topic 05", "five", "topic 06", "six")
    longtail("labels", model, "remove", "topic 01", "topic 02")
    result = json.loads(longtail("labels", model, "block", "topic 03", "--json").stdout)
    assert result == {"model": str(model), "n_labels": 10, "n_new": 0, "blocked": ["topic 03"]}
    rows = [json.loads(line) for line in longtail("labels", model, "--json").stdout.splitlines()]
    assert {"label": "topic 03", "n_rows": sum("topic 03" in row for row in labels), "blocked": True} in rows
    assert {"five", "six"} <= {row["label"] for row in rows}
    assert "(blocked)" in longtail("labels", model, "list").stdout
    longtail("labels", model, "unblock", "topic 03")
    assert "five" in longtail("tag", model, "word5 thing5", "--top-k", "1").stdout
    for arguments in (["rename", "five"], ["remove"], ["list", "five"], ["block", "five", "--text-column", "x"]):
        refused = longtail("labels", model, *arguments, ok=False)
        assert (refused.code, refused.stderr.count("\n")) == (2, 1), arguments


def test_a_renamed_label_keeps_what_the_vocabulary_says_of_it() -> None:
    texts, labels = ["web server", "web browser", "mail server", "mail reader"] * 3, [["w"], ["w"], ["m"], ["m"]] * 3
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, labels)
    concepts = [
        lt.Concept(id="w", names={"en": "web"}),
        lt.Concept(id="m", names={"en": "mail"}, parents=["w"], retired=True),
        lt.Concept(id="other", names={"en": "something else"}),
    ]
    tagger.set_vocabulary(lt.Vocabulary(concepts)).rename_labels({"w": "www", "m": "post"})
    vocabulary = tagger.vocabulary_
    assert vocabulary is not None
    assert (vocabulary.name("www"), vocabulary.name("post")) == ("web", "mail")
    assert vocabulary.parents("post") == ["www"]
    assert {tag.label for tag in tagger.tag(["web mail"])[0]} == {"www"}, "a retired label stays retired"
    tagger.rename_labels({"www": "other"})
    assert tagger.vocabulary_ is not None
    assert tagger.vocabulary_.name("other") == "something else", "the name belongs to the id"
    tagger.set_vocabulary(lt.Vocabulary(concepts)).rename_labels({"other": "w", "post": "m"}).rename_labels(
        {"w": "m", "m": "w"}
    )
    assert tagger.vocabulary_.name("m") == "web"
