"""predict_proba of every estimator, with scikit-learn's tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

import longtail as lt
from tests.contract.estimators import ESTIMATORS


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    made = lt.datasets.make_synthetic(n_rows=240, n_features=60, n_labels=6, labels_per_row=2)
    return made.X, made.Y


@pytest.mark.parametrize("name", ESTIMATORS)
def test_probabilities_are_those_of_the_calibration(name: str, data: Any, monkeypatch: Any) -> None:
    X, Y = data
    model = ESTIMATORS[name]().fit(X, Y)
    if name != "Blend":
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match="predict_proba needs a calibrated model; fit with calibrate=True"):
            model.predict_proba(X)
    model.calibrate(X, Y)
    proba = model.predict_proba(X)
    assert proba.shape == Y.shape
    assert proba.dtype == np.float32
    assert ((proba >= 0) & (proba <= 1)).all()
    label_ids, scores = model.predict_top_k(X, 6, utility="score")
    expected = model.calibration_.proba(label_ids, scores)
    given = label_ids >= 0
    found = np.take_along_axis(proba, np.maximum(label_ids, 0), axis=1)
    np.testing.assert_array_equal(found[given], expected[given])
    assert log_loss(Y.toarray().ravel(), proba.ravel()) < log_loss(Y.toarray().ravel(), np.full(Y.shape, 0.5).ravel())
    three = model.predict_proba(X, top_k=3)
    assert sp.issparse(three)
    assert (np.diff(three.indptr) <= 3).all()
    best = np.sort(proba, axis=1)[:, -3:].sum()
    np.testing.assert_allclose(three.sum(), best, rtol=1e-5)
    monkeypatch.setattr("longtail._dense_scores._MAX_DENSE_SCORES", 10)
    with pytest.raises(ValueError, match="limited to 10 scores, got 240 rows times 6 labels; pass top_k"):
        model.predict_proba(X)
    assert model.predict_proba(X, top_k=2).shape == Y.shape


def test_unfitted_models_have_no_probabilities() -> None:
    assert not hasattr(lt.DiSMEC(), "predict_proba")


def test_probabilities_of_classes_add_up_to_one(data: Any) -> None:
    X, Y = data
    classes = np.array(["ant", "bee", "cat"])[np.asarray(Y[:, :3].argmax(axis=1)).ravel()]
    model = lt.DiSMEC(n_jobs=1).fit(X, classes, calibrate=True)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    loss = cross_val_score(
        lt.DiSMEC(n_jobs=1), X, classes, cv=KFold(2), scoring="neg_log_loss", params={"calibrate": True}
    )
    assert np.isfinite(loss).all()
    held_out = cross_val_predict(
        lt.DiSMEC(n_jobs=1), X, classes, cv=KFold(2), method="predict_proba", params={"calibrate": True}
    )
    assert held_out.shape == (240, 3)
