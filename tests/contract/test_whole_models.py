"""A model is whole or not there: failed fits change nothing, and threads never see a mix of two models."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import longtail as lt
from longtail._base import XMCClassifier
from longtail.tuning import OneOf
from tests.contract.estimators import ESTIMATORS

Data = tuple[sp.csr_array, sp.csr_array]


@pytest.fixture(params=ESTIMATORS)
def estimator(request: pytest.FixtureRequest) -> XMCClassifier:
    return ESTIMATORS[request.param]()


def make_data(n_features: int, seed: int = 0, n_labels: int = 6) -> Data:
    random = np.random.default_rng(seed)
    Y = np.zeros((60, n_labels), dtype=np.float32)
    Y[np.arange(60), random.permutation(60) % n_labels] = 1
    X = random.random((60, n_features)).astype(np.float32) * (random.random((60, n_features)) < 0.5)
    X[:, : min(n_labels, n_features)] += Y[:, : min(n_labels, n_features)]
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y)


def snapshot(model: XMCClassifier) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model._fitted_arrays().items()}


def stop(_done: int, _total: int) -> bool:
    return False


def test_a_stopped_refit_leaves_the_model_as_it_was(estimator: XMCClassifier) -> None:
    X, Y = make_data(5)
    expected = estimator.fit(X, Y).predict_top_k(X)
    before = snapshot(estimator)
    with pytest.raises((lt.Stopped, KeyboardInterrupt)):
        estimator.fit(*make_data(2000), progress=stop)
    assert estimator.n_features_in_ == 5
    assert snapshot(estimator) == before
    np.testing.assert_array_equal(estimator.predict_top_k(X).label_ids, expected.label_ids)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X, Y: (X[:, :3], Y[:10]),  # rows do not match
        lambda X, Y: (X[:, :3], Y * 0),  # nothing to learn
        lambda X, Y: (X.toarray()[:, :3] * np.nan, Y),
    ],
)
def test_a_refused_refit_leaves_the_model_as_it_was(estimator: XMCClassifier, wrong: Callable[..., Any]) -> None:
    X, Y = make_data(5)
    before = snapshot(estimator.fit(X, Y))
    with pytest.raises(ValueError):
        estimator.fit(*wrong(X, Y))
    assert estimator.n_features_in_ == 5
    assert snapshot(estimator) == before


def test_fitted_attributes_cannot_be_set(estimator: XMCClassifier) -> None:
    estimator.fit(*make_data(5))
    with pytest.raises(AttributeError, match="n_rows_ is part of the fitted model"):
        estimator.n_rows_ = 3  # type: ignore[misc]


def test_a_thread_that_predicts_sees_one_model_or_the_other(estimator: XMCClassifier) -> None:
    """The two models differ in features and labels, so that a mix of both leads out of bounds."""
    first, second = make_data(12, n_labels=6), make_data(12, seed=1, n_labels=40)
    rows = first[0]
    answers = []
    for data in (first, second):
        estimator.fit(*data)
        answers.append(estimator.predict_top_k(rows, top_k=4).label_ids.tobytes())
    wrong: list[bytes] = []
    done = threading.Event()

    def predict() -> None:
        while not done.is_set():
            found = estimator.predict_top_k(rows, top_k=4).label_ids.tobytes()
            if found not in answers:
                wrong.append(found)

    thread = threading.Thread(target=predict)
    thread.start()
    try:
        for turn in range(12):
            estimator.fit(*(first, second)[turn % 2])
    finally:
        done.set()
        thread.join()
    assert not wrong


def test_a_tagger_is_whole_too() -> None:
    texts = ["red apple", "green pear", "red cherry", "green grape"] * 5
    labels = [["red"], ["green"], ["red"], ["green"]] * 5
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    expected = tagger.tag(texts[:4])
    with pytest.raises(lt.Stopped):
        tagger.fit([text + " basket" for text in texts], [["fruit"]] * 20, progress=stop)
    assert tagger.label_names_ == ["green", "red"]
    assert tagger.tag(texts[:4]) == expected
    with pytest.raises(ValueError, match="top_k must be an int"):
        tagger.predict_top_k(texts, top_k=10**7)


def test_tuning_leaves_a_fitted_estimator_alone() -> None:
    model = lt.DiSMEC(n_jobs=1).fit(*make_data(5))
    before = snapshot(model)
    lt.tune(model, *make_data(40), n_trials=2)
    assert model.n_features_in_ == 5
    assert snapshot(model) == before


def test_row_scaling_belongs_to_the_model(estimator: XMCClassifier, tmp_path: Path) -> None:
    X, Y = make_data(9)
    scaled = lt.datasets.unit_rows(X)
    model = clone(estimator).set_params(unit_rows=True).fit(X, Y)
    np.testing.assert_allclose(
        model.predict_top_k(X).scores, clone(estimator).fit(scaled, Y).predict_top_k(scaled).scores, rtol=1e-5
    )
    lt.save(model, tmp_path / "model")
    model.set_params(unit_rows=False)  # a parameter of the next fit, not of this model
    for answers in (model, lt.load(tmp_path / "model")):
        np.testing.assert_array_equal(answers.predict_top_k(X * 7).label_ids, model.predict_top_k(X).label_ids)


def wild_labels(Y: sp.csr_array) -> sp.csr_array:
    """A hand-made matrix whose column index leads far outside."""
    broken = sp.csr_array(Y.shape, dtype=np.float32)
    broken.data, broken.indices, broken.indptr = Y.data.copy(), Y.indices.copy(), Y.indptr.copy()
    broken.indices[3] = 5_000_000
    broken.has_canonical_format = True
    return broken


@pytest.mark.parametrize(
    "call",
    [
        lambda X, Y, bad: lt.DiSMEC(n_jobs=1).fit(X, Y).add_labels(X, bad),
        lambda X, Y, bad: lt.DiSMEC(n_jobs=1).estimate(X, bad),
        lambda X, Y, bad: lt.GBDTSparse(n_trees=2, patience=1, n_jobs=1).fit(X, Y, validation=(X, bad)),
        lambda X, Y, bad: lt.Popularity().fit(X, Y).calibrate(X, bad),
        lambda X, Y, bad: lt.tune(lt.Popularity(), X, bad, ranges={"random_state": OneOf(0, 1)}),
        lambda X, Y, bad: lt.Popularity().fit(X, Y).encode(bad),
    ],
    ids=["add_labels", "estimate", "validation", "calibration", "tune", "encode"],
)
def test_wild_label_indices_are_refused_wherever_labels_enter(call: Callable[..., Any]) -> None:
    X, Y = make_data(9)
    with pytest.raises(ValueError, match="ind"):
        call(X, Y, wild_labels(Y))


MODELS = sorted(path.parent for path in (Path(__file__).parents[1] / "models").glob("format-*/*/manifest.json"))


_RANK = """
import sys, numpy as np, longtail as lt
for path in sys.argv[1:]:
    model = lt.load(path)
    if not model.takes_texts:
        model.predict_top_k(np.ones((1, model.n_features_in_), np.float32), top_k=1)
    else:
        model.tag(["some words"], top_k=1)
    assert "sklearn" not in sys.modules, f"{path} imported scikit-learn"
"""


def test_loading_and_ranking_never_import_scikit_learn() -> None:
    assert MODELS
    done = subprocess.run([sys.executable, "-c", _RANK, *MODELS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
