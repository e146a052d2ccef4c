"""Every estimator can be calibrated and then ranks for a utility."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail._estimate import Estimate
from longtail.dismec import estimator
from tests.contract.estimators import ESTIMATORS


def rows(n_rows: int = 240, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows, 30)) < 0.2).astype(np.float32)
    weights = np.random.default_rng(7).normal(size=(30, 10))
    scores = X @ weights - np.linspace(0, 2, 10)
    return sp.csr_array(X), sp.csr_array((scores > 1).astype(np.float32))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_calibrates_without_other_rows(name: str, tmp_path: Path) -> None:
    X, Y = rows()
    model = ESTIMATORS[name]().fit(X, Y, calibrate=True)
    plain = ESTIMATORS[name]().fit(X, Y)
    assert (plain.calibration_ is None) == (name != "Blend")
    same = model.predict_top_k(X, 5, utility="score")
    assert same.scores.tobytes() == plain.predict_top_k(X, 5, utility="score").scores.tobytes()
    calibration = model.calibration_
    assert calibration.label_counts_.tolist() == model.label_counts_.tolist()
    assert calibration.n_training_rows_ == model.n_rows_
    assert calibration.n_rows_ == (48 if name == "Blend" else 96)  # held out: a fifth, or 0.4 of few rows
    lt.save(model, tmp_path / "m")
    loaded = lt.load(tmp_path / "m", verify=True)
    for utility in (None, "precision", "psp", "power:0.5", "macro-f1", "coverage", "macro-f1-by-row"):
        found = model.predict_top_k(X, 5, utility=utility)
        assert found.label_ids.shape == (240, 5)
        assert loaded.predict_top_k(X, 5, utility=utility).label_ids.tobytes() == found.label_ids.tobytes()
    assert (loaded.predict(X) != model.predict(X)).nnz == 0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_held_out_rows_calibrate_a_fitted_model(name: str) -> None:
    model = ESTIMATORS[name]().fit(*rows()).calibrate(*rows(seed=1), measure="precision", floor=0.1)
    assert model.calibration_.n_rows_ == 240
    assert model.calibration_.measure == "precision"


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_rankings_by_value_are_those_of_all_labels(name: str, power: float) -> None:
    """The kernels that rank by value, and the short lists of the others, find what a sort of all labels finds."""
    X, Y = rows()
    model = ESTIMATORS[name]().fit(X, Y, calibrate=True)
    X, _ = rows(300, seed=2)
    top = model.predict_top_k(X, 10, utility="score")
    weights = model.calibration_.inverse_propensities()[top.label_ids] ** power
    values = np.where(top.label_ids >= 0, model.calibration_.proba(*top) * weights, -1)
    found = model.predict_top_k(X, 3, utility=f"power:{power:g}")
    expected = np.maximum(-np.sort(-values, axis=1)[:, :3], 0)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-5)
    places = np.argmax(top.label_ids[:, None, :] == found.label_ids[:, :, None], axis=2)
    is_label = found.label_ids >= 0
    np.testing.assert_allclose(np.take_along_axis(values, places, axis=1)[is_label], expected[is_label], rtol=1e-5)


def test_a_model_that_is_not_calibrated_says_what_to_do() -> None:
    X, Y = rows()
    model = lt.Popularity().fit(X, Y)
    with pytest.raises(ValueError, match="fit with calibrate=True or call calibrate"):
        model.predict_top_k(X, utility="psp")
    with pytest.raises(ValueError, match="calibrate=True needs 20 rows or more, got 10"):
        lt.Popularity().fit(X[:10], Y[:10], calibrate=True)
    with pytest.raises(ValueError, match="y must have 10 labels, as in training; got 3"):
        model.calibrate(X, Y[:, :3])
    with pytest.raises(ValueError, match=r"max_loss must be None for a model that is not calibrated, got 0\.1"):
        model.predict_top_k(X, max_loss=0.1)


@pytest.mark.parametrize("max_loss", [-1, 101, float("nan"), "much", True])
def test_a_price_is_a_number_of_points(max_loss: Any) -> None:
    X, Y = rows()
    model = lt.Popularity().fit(X, Y, calibrate=True)
    for utility in ("psp", "macro-f1"):
        with pytest.raises(ValueError, match=r"max_loss must be in 0 .. 100 \(points of precision\), got"):
            model.predict_top_k(X, utility=utility, max_loss=max_loss)
    with pytest.raises(ValueError, match="max_loss must be None for utility 'score'"):
        model.predict_top_k(X, utility="score", max_loss=max_loss)


def test_too_few_labels_to_hold_some_out_are_refused_before_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = rows()
    few = sp.lil_array(Y.shape, dtype=np.float32)
    few[0, 0] = few[1, 1] = 1
    monkeypatch.setattr(lt.DiSMEC, "_fit", lambda *_, **__: pytest.fail("nothing should be fitted"))
    with pytest.raises(ValueError, match=r"DiSMEC: calibrate=True needs held-out rows with labels .* in 2 of 240 rows"):
        lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(few), calibrate=True)
    blend = lt.Blend(first=lt.DiSMEC(), second=lt.Popularity(), n_jobs=1)
    with pytest.raises(ValueError, match="Blend: some held-out rows must have labels that other rows have"):
        blend.fit(X, sp.csr_array(few))


def test_classes_are_calibrated_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    model = lt.DiSMEC(n_jobs=1).fit(X, y, calibrate=True)
    assert (model.predict(X) == y).mean() > 0.8
    model.calibrate(X, np.where(y == "c", "new", y))
    assert model.calibration_.n_rows_ == 300


def test_a_failed_calibration_leaves_the_model_as_it_was() -> None:
    X, Y = rows()
    model = lt.Popularity().fit(X, Y)
    with pytest.raises(ValueError, match="none of the 240 held-out rows"):
        model.calibrate(X, sp.csr_array(Y.shape, dtype=np.float32))
    assert model.calibration_ is None


def test_fewer_trees_are_not_read_on_the_surface_of_all() -> None:
    X = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    model = lt.FastXML(n_trees=4, n_jobs=1).fit(X, X, calibrate=True)
    plain = lt.FastXML(n_trees=4, n_jobs=1).fit(X, X)
    found, expected = model.predict_top_k(X, 2, n_trees=2), plain.predict_top_k(X, 2, n_trees=2)
    assert found.scores.tobytes() == expected.scores.tobytes()
    with pytest.raises(ValueError, match="utility must be None or 'score', and max_loss None, with n_trees"):
        model.predict_top_k(X, 2, n_trees=2, utility="psp")
    with pytest.raises(ValueError, match="n_trees must be None for a calibrated model"):
        model.propose(X, 2, n_trees=2)
    assert plain.propose(X, 1, n_trees=2)[0][0].label == 0


def test_the_cost_of_calibration_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Estimate(seconds=10.0, cpu_seconds=20.0, memory_bytes=5, model_bytes=3, probe_seconds=1.0)
    assert told.with_calibration(0.8) == replace(told, seconds=18.0, cpu_seconds=36.0)
    monkeypatch.setattr(estimator, "probe", lambda *given, **options: told)
    X, Y = rows()
    assert lt.DiSMEC(n_jobs=1).estimate(X, Y, calibrate=True).seconds == 17.5  # few rows: 0.4 are held out
    assert lt.DiSMEC(n_jobs=1).estimate(X, Y).seconds == 10.0
