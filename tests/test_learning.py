"""Corrections change the labels they speak of, and nothing else."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import longtail as lt
from longtail.dismec import updating

WORDS = {"web": "web server", "mail": "mail reader", "music": "music player", "game": "chess game"}


def corpus() -> tuple[list[str], list[list[str]]]:
    texts, labels = [], []
    for start in ("a small", "a big", "the small", "the big", "some new", "an old"):
        for label, words in WORDS.items():
            texts.append(f"{start} {words}")
            labels.append([label, "program"])
    return texts, labels


@pytest.fixture
def tagger() -> lt.Tagger:
    texts, labels = corpus()
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels).calibrate(texts, labels)


def weights(tagger: lt.Tagger, label: str) -> dict[str, float]:
    features, values, bias = tagger.estimator.label_weights(tagger.label_names_.index(label))
    names = tagger.vectorizer.feature_names(features)
    return {**dict(zip(names, values.tolist(), strict=True)), "bias": bias}


def test_only_labels_that_were_spoken_of_change(tagger: lt.Tagger) -> None:
    before = {label: weights(tagger, label) for label in tagger.label_names_}
    learnt = tagger.learn(["a chess server"], [["game"]], rejected=[["web"]], complete=False)
    assert (learnt.n_corrected, learnt.new_labels, learnt.n_new_words) == (2, [], 0)
    for label in tagger.label_names_:
        same = weights(tagger, label) == before[label]
        assert same == (label not in ("game", "web")), label


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
@pytest.mark.parametrize("part", ["weight", "bias"])
def test_labels_that_changed_without_a_correction_are_counted(
    weight_type: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1, weight_type=weight_type), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    untouched = tagger.learn(["a zork server"], [["mail"]], complete=False)
    assert (untouched.n_new_words, untouched.n_others_changed) == (1, 0)
    assert "others unchanged" in str(untouched)
    correct = updating.correct

    def careless(*given: object) -> updating.WeightIndex:
        index = correct(*given)
        is_coded = index.codes > 1 if weight_type == "int8" else index.weights != 0  # exact weights have the code 0
        at, changed = int(np.flatnonzero((index.label_ids == 0) & is_coded)[0]), {}
        for name in ("biases",) if part == "bias" else ("codes" if weight_type == "int8" else "weights",):
            changed[name] = getattr(index, name).copy()
            changed[name][0 if part == "bias" else at] -= 1
        return replace(index, **changed)

    monkeypatch.setattr(updating, "correct", careless)
    assert tagger.label_names_[0] not in ("mail", "web")
    learnt = tagger.learn(["a quux server"], [["web"]], complete=False)
    assert learnt.n_others_changed == 1
    assert "1 other label changed" in str(learnt)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_labels_that_nobody_judged_keep_their_scores(loss: str) -> None:
    """Right labels are known of ten texts, nothing of forty that share a word with them: the word must not rise."""
    X = np.eye(110, dtype=np.float32)
    X[:, 0] = 1  # the shared word
    trained = lt.Tagger(lt.DiSMEC(n_jobs=1, loss=loss), None).fit(X[:60], [["yes"]] * 20 + [["no"]] * 40)

    def drift(n_rows: int) -> float:
        tagger = copy.deepcopy(trained)
        rows = X[60 : 60 + n_rows]
        tagger.learn(rows, [["yes"]] * 10 + [[]] * (n_rows - 10), complete=False)
        then, now = ({tag.label: tag.score for tag in model.tag(X[:1], top_k=2)[0]} for model in (trained, tagger))
        return now["yes"] - then["yes"]

    assert 0 <= drift(50) < 0.6 * drift(10)


def test_corrections_are_learnt(tagger: lt.Tagger) -> None:
    text = "a chess server"
    assert tagger.tag([text], top_k=2)[0][0].label == "program"
    before = {tag.label: tag.score for tag in tagger.tag([text], top_k=5)[0]}
    tagger.learn([text], [["game"]], rejected=[["web"]], complete=False)
    after = {tag.label: tag.score for tag in tagger.tag([text], top_k=5)[0]}
    assert after["game"] > before["game"] + 0.3
    assert after["web"] < before["web"] - 0.1
    assert after["mail"] == pytest.approx(before["mail"])


def test_new_labels_and_words_are_added(tagger: lt.Tagger) -> None:
    old_words = tagger.vectorizer.vocabulary_
    old_idf = tagger.vectorizer.idf_.copy()
    learnt = tagger.learn(["quux zork", "quux plugh"], [["cave"], ["cave"]], complete=False)
    assert learnt.new_labels == ["cave"]
    assert learnt.n_new_words == 3
    assert tagger.vectorizer.vocabulary_ == [*old_words, "plugh", "quux", "zork"]
    np.testing.assert_array_equal(tagger.vectorizer.idf_[: len(old_idf)], old_idf)
    tags = tagger.tag(["another quux", "a small web server"], top_k=6)
    assert {tag.label for tag in tags[0][:2]} == {"cave", "program"}  # every text was a program
    assert "cave" not in {tag.label for tag in tags[1][:2]}
    assert all(tag.proba is not None for row in tags for tag in row)


def test_texts_without_new_words_keep_their_rows(tagger: lt.Tagger) -> None:
    grown, places = tagger.vectorizer.with_new_features(["zork zork"], 10)
    assert places.tolist() == [tagger.vectorizer.n_features_]
    X, Y = tagger.vectorizer.transform(["a small web"]), grown.transform(["a small web"])
    np.testing.assert_array_equal(X.data, Y.data)
    np.testing.assert_array_equal(X.indices, Y.indices)


def test_new_words_come_before_character_runs() -> None:
    texts, labels = corpus()
    vectorizer = lt.TextVectorizer(min_df=1, max_chars=3)
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), vectorizer).fit(texts, labels)
    before = tagger.tag(texts, top_k=5)
    words = tagger.vectorizer.vocabulary_[: tagger.vectorizer.n_words_]
    pieces = tagger.vectorizer.vocabulary_[tagger.vectorizer.n_words_ :]
    tagger.learn(["zork"], [["cave"]])
    grown = tagger.vectorizer.vocabulary_
    assert grown[: len(words) + 1] == [*words, "zork"]
    assert grown[len(words) + 1 : len(words) + 1 + len(pieces)] == pieces
    assert grown[len(words) + 1 + len(pieces) :] == [" zo", "ork", "rk ", "zor"]
    assert tagger.tag(texts, top_k=5, exclude=["cave"]) == before


def test_max_features_bounds_new_words() -> None:
    vectorizer = lt.TextVectorizer(min_df=1, max_features=3).fit(["a web server", "a web browser"])
    assert len(vectorizer.with_new_features(["zork quux"], 2)[1]) == 0
    roomy = lt.TextVectorizer(min_df=1, max_features=4).fit(["a web server", "a web browser"])
    assert roomy.with_new_features(["zork quux", "quux"], 2)[0].vocabulary_[-1] == "quux"


def test_the_effect_is_measured_on_texts_held_back(tagger: lt.Tagger) -> None:
    texts = [
        f"{start} mail server" for start in ("a", "the", "one", "my", "some", "this", "small", "big", "old", "new")
    ]
    learnt = tagger.learn(texts * 3, [["mail"]] * 30, rejected=[["web"]] * 30, complete=False)
    assert learnt.n_held_back == 6
    assert learnt.precision is not None
    assert learnt.precision[1] == 1.0
    assert learnt.recall == (pytest.approx(learnt.recall[0]), 1.0)
    assert learnt.expected_precision is not None
    assert "held-back texts: precision of the corrected labels" in str(learnt)
    assert "their probabilities say" in str(learnt)
    assert "too few" in str(tagger.learn(["mail"], [["mail"]]))


def test_a_learnt_tagger_is_saved_and_loaded(tagger: lt.Tagger, tmp_path) -> None:
    tagger.learn(["quux web"], [["cave"]], rejected=[["web"]])
    lt.save(tagger, tmp_path / "m")
    loaded = lt.load(tmp_path / "m", verify=True)
    assert loaded.tag(["quux web"], top_k=5) == tagger.tag(["quux web"], top_k=5)
    loaded.learn(["quux mail"], [["cave"]], rejected=[["web"]])


def test_int8_weights_are_corrected_too() -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1, weight_type="int8"), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    before = weights(tagger, "mail")
    tagger.learn(["quux web"], [["cave"]], rejected=[["web"]], complete=False)
    assert weights(tagger, "mail") == before
    assert "cave" in {tag.label for tag in tagger.tag(["quux"], top_k=2)[0]}


def test_vectors_are_corrected_without_a_vectorizer() -> None:
    X = np.eye(4, dtype=np.float32)
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), None).fit(X, [["a"], ["b"], ["c"], ["c"]])
    tagger.learn(X[3:], [["a"]], rejected=[["c"]])
    assert tagger.tag(X[3:], top_k=1)[0][0].label == "a"


def test_mistakes_are_named(tagger: lt.Tagger) -> None:
    with pytest.raises(ValueError, match="'web' must be right or wrong for text 0, got both"):
        tagger.learn(["a"], [["web"]], rejected=[["web"]])
    with pytest.raises(ValueError, match="labels must have 1 row, got 2"):
        tagger.learn(["a"], [["web"], ["web"]])
    with pytest.raises(ValueError, match="learn needs a text with a label that is right or wrong"):
        tagger.learn(["a"], [[]])
    with pytest.raises(ValueError, match="held_back"):
        tagger.learn(["a"], [["web"]], held_back=0.9)
    texts, labels = corpus()
    with pytest.raises(ValueError, match="learn needs a DiSMEC, got Popularity; train again"):
        lt.Tagger(lt.Popularity()).fit(texts, labels).learn(["a"], [["web"]])


def test_a_label_known_only_as_wrong_is_not_made(tagger: lt.Tagger) -> None:
    learnt = tagger.learn(["web"], [["web"]], rejected=[["nosuch"]])
    assert learnt.new_labels == []
    assert "nosuch" not in tagger.label_names_


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_an_update_minimises_what_it_says(loss: str) -> None:
    """Compare with scipy's general minimiser on the objective as it is written in the module."""
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 12), density=0.4, rng=rng, format="csr")
    shares = rng.choice([0.0, 0.3, 1.0], 30)
    margins = rng.normal(size=30)
    solver = updating.Solver(loss, 0.7, 1.0)
    rows = updating.Rows.of(X, 1.0)
    scale = rng.uniform(1, 20, rows.X.shape[1])
    found = updating.update_label(solver, rows, shares, margins, scale)
    dense = np.hstack([X.toarray()[:, rows.feature_ids], np.ones((30, 1))])

    def objective(v: np.ndarray) -> float:
        at = margins + dense @ v
        yes, no = (np.maximum(0, 1 - z) ** 2 if loss == "squared_hinge" else np.log1p(np.exp(-z)) for z in (at, -at))
        return 0.5 * float((scale * v**2).sum()) + 0.7 * float((shares * yes + (1 - shares) * no).sum())

    best = scipy.optimize.minimize(objective, np.zeros(len(found)), method="BFGS", options={"gtol": 1e-8})
    assert objective(found) == pytest.approx(best.fun, rel=1e-5)


def test_replaced_columns_are_where_a_dense_matrix_has_them() -> None:
    rng = np.random.default_rng(1)
    X = sp.random_array((40, 8), density=0.5, rng=rng, format="csr", dtype=np.float32)
    Y = (rng.random((40, 5)) < 0.3).astype(int)
    model = lt.DiSMEC(n_jobs=1).fit(X, Y)
    before = model.coef_.toarray()
    new = sp.csr_array(rng.normal(size=(3, 8)).astype(np.float32) * (rng.random((3, 8)) < 0.5))
    index = updating.replace_columns(model._whole().state.index, np.array([1, 3, 5]), new, np.ones(3, np.float32))
    expected = np.vstack([before, np.zeros((1, 8), np.float32)])
    expected[[1, 3, 5]] = new.toarray()
    from longtail.dismec.index import label_major

    np.testing.assert_array_equal(label_major(index, 6).toarray(), expected)
