"""`estimate` of every estimator: it refuses what `fit` refuses, and says nothing about the few rows that it fits."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from longtail.dismec import estimator as dismec_estimator
from tests.contract.estimators import ESTIMATORS

RANDOM = np.random.default_rng(0)
X = sp.csr_array((RANDOM.random((60, 30)) < 0.2).astype(np.float32))
Y = sp.csr_array((RANDOM.random((60, 5)) < 0.3).astype(np.int8))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_without_rows_are_refused_as_by_fit(name: str) -> None:
    for call in (ESTIMATORS[name]().fit, ESTIMATORS[name]().estimate):
        with pytest.raises(ValueError, match="y must have a label in at least one row, got none in 60 rows"):
            call(X, 0 * Y)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "Blend"])  # which holds out its own rows
def test_too_few_rows_for_a_calibration_are_refused_as_by_fit(name: str) -> None:
    for call in (ESTIMATORS[name]().fit, ESTIMATORS[name]().estimate):
        with pytest.raises(ValueError, match="calibrate=True needs 20 rows or more, got 15"):
            call(X[:15], Y[:15], calibrate=True)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimates_do_not_warn_of_the_few_rows_of_a_probe(name: str) -> None:
    many = np.arange(300) % 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ESTIMATORS[name]().estimate(X[many], Y[many])
        lt.GBDTSparse(n_trees=2, n_jobs=1).estimate(X[many], Y[many])  # in twenty rows no tree has a split


def test_ctrl_c_during_an_estimate_is_a_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise _core.Cancelled("stopped before the end")

    monkeypatch.setattr(dismec_estimator, "probe", stop)
    with pytest.raises(KeyboardInterrupt):
        lt.DiSMEC(n_jobs=1).estimate(X, Y)


@pytest.mark.parametrize("name", ["DiSMEC", "LabelTree"])
def test_estimates_count_the_copies_of_rows(name: str) -> None:
    rows = RANDOM.random((2000, 64)).astype(np.float32)
    labels = sp.csr_array((RANDOM.random((2000, 5)) < 0.1).astype(np.int8))

    def told(rows: Any, **params: Any) -> int:
        return int(getattr(lt, name)(n_jobs=1, **params).estimate(rows, labels).memory_bytes)

    values = 4 * rows.size
    as_they_are = told(rows)
    assert told(rows.astype(np.float64)) - as_they_are == pytest.approx(values, rel=0.1)
    assert told(rows, unit_rows=True) - as_they_are == pytest.approx(values, rel=0.1)
    if name == "DiSMEC":  # trains well-filled rows as an array
        assert told(sp.csr_array(rows)) - as_they_are == pytest.approx(values, rel=0.1)
