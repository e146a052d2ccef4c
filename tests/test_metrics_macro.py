"""Measures that count labels alike, against their definitions."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score, precision_score, recall_score

from longtail.metrics import (
    balanced_accuracy_at_k,
    confidence_interval,
    decision_table,
    evaluate,
    evaluate_tail,
    label_table,
    macro_f1_at_k,
    macro_precision_at_k,
    macro_recall_at_k,
    precision_at_k,
)


def some_ranking(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Y = (rng.random((80, 12)) < np.linspace(0.5, 0.02, 12)).astype(int)
    Y[:, 11] = 0  # a label that never occurs
    top = np.array([rng.permutation(12)[:5] for _ in range(80)])
    top[::9, 3:] = -1
    return top, Y


def given(top: np.ndarray, n_labels: int, k: int) -> np.ndarray:
    Y_hat = np.zeros((len(top), n_labels), int)
    for row, ids in enumerate(top[:, :k]):
        Y_hat[row, ids[ids >= 0]] = 1
    return Y_hat


@pytest.mark.parametrize("k", [1, 3, 5])
def test_macro_measures_are_those_of_scikit_learn(k: int) -> None:
    top, Y = some_ranking()
    occurs = Y.any(axis=0)
    Y_hat = given(top, 12, k)[:, occurs]
    how = {"average": "macro", "zero_division": 0}
    assert macro_f1_at_k(top, Y, k) == pytest.approx(100 * f1_score(Y[:, occurs], Y_hat, **how))
    assert macro_precision_at_k(top, sp.csr_array(Y), k) == pytest.approx(
        100 * precision_score(Y[:, occurs], Y_hat, **how)
    )
    assert macro_recall_at_k(top, Y, k) == pytest.approx(100 * recall_score(Y[:, occurs], Y_hat, **how))
    recall = (Y * given(top, 12, k)).sum(axis=0)[occurs] / Y.sum(axis=0)[occurs]
    others = ((1 - Y) * (1 - given(top, 12, k))).sum(axis=0)[occurs] / (1 - Y).sum(axis=0)[occurs]
    assert balanced_accuracy_at_k(top, Y, k) == pytest.approx(100 * ((recall + others) / 2).mean())


def test_the_table_is_written_as_csv_and_json() -> None:
    top, Y = some_ranking()
    table = label_table(top, Y, 3)
    names = [f"label {i}" for i in range(12)]
    rows = list(csv.DictReader(io.StringIO(table.to_csv(names))))
    assert rows[0]["label"] == "label 0"
    assert int(rows[0]["n_hits"]) == int((Y * given(top, 12, 3))[:, 0].sum())
    assert json.loads(table.to_json())[1]["n_rows"] == int(Y[:, 1].sum())


def test_groups_hold_labels_of_similar_frequency() -> None:
    top, Y = some_ranking()
    counts = np.array([500, 400, 60, 50, 40, 30, 10, 9, 8, 3, 2, 1])
    found = evaluate_tail(top, Y, counts, 3, edges=(1, 6, 100), n_resamples=20)
    assert [(group.least, group.most) for group in found.groups] == [(1, 5), (6, 99), (100, None)]
    assert sum(group.n_labels for group in found.groups) == found.everything.n_labels == int(Y.any(axis=0).sum())
    assert found.groups[2].measures["f1"].value == pytest.approx(100 * label_table(top, Y, 3).f1[:2].mean())
    assert found.everything.measures["balanced_accuracy"].value == pytest.approx(balanced_accuracy_at_k(top, Y, 3))
    hits = (Y * given(top, 12, 3)).any(axis=0)[Y.any(axis=0)]
    assert found.everything.measures["coverage"].value == pytest.approx(100 * hits.mean())
    assert json.loads(found.to_json())["groups"][2]["n_labels"] == 2
    assert str(found).splitlines()[3].startswith("100+")
    with pytest.raises(ValueError, match="edges must be rising"):
        evaluate_tail(top, Y, counts, 3, edges=(5, 1))
    with pytest.raises(ValueError, match="label_counts must have one number for each of 12 labels"):
        evaluate_tail(top, Y, counts[:3], 3)


def test_intervals_of_groups_are_those_of_a_plain_bootstrap() -> None:
    top, Y = some_ranking()
    found = evaluate_tail(top, Y, np.full(12, 7), 3, n_resamples=400).everything.measures["f1"]
    rng = np.random.default_rng(1)
    draws = [macro_f1_at_k(top[rows], Y[rows], 3) for rows in rng.integers(0, len(Y), (400, len(Y)))]
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.std(draws), rel=0.15)
    assert found.low < found.value == macro_f1_at_k(top, Y, 3) < found.high


def test_rankings_have_intervals_by_the_same_bootstrap() -> None:
    top, Y = some_ranking()
    chances = np.linspace(0.2, 1.0, 12)
    found = evaluate_tail(top, Y, np.full(12, 7), 3, propensity=chances, n_resamples=400)
    assert list(found.rankings) == ["P@1", "P@3", "PSP@1", "PSP@3"]
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, len(Y), (400, len(Y)))
    for name, interval in found.rankings.items():

        def measure(rows: Any, name: str = name) -> float:
            return evaluate(top[rows], Y[rows], chances, ks=(1, 3))[name]

        assert interval.value == pytest.approx(measure(slice(None)))
        spread = np.std([measure(rows) for rows in drawn])
        assert (interval.high - interval.low) / 2 == pytest.approx(1.96 * spread, rel=0.15)
    assert found.to_dict()["PSP@3"]["value"] == pytest.approx(found.rankings["PSP@3"].value, abs=1e-4)
    assert list(evaluate_tail(top, Y, np.full(12, 7), 1, n_resamples=2).rankings) == ["P@1"]


def test_intervals_hold_the_value_and_narrow_with_rows() -> None:
    top, Y = some_ranking()
    few = confidence_interval(lambda top, Y: precision_at_k(top, Y, 1), top[:, :1], Y)
    many = confidence_interval(
        lambda top, Y: precision_at_k(top, Y, 1), np.tile(top[:, :1], (20, 1)), np.tile(Y, (20, 1))
    )
    assert few.low <= few.value <= few.high
    assert many.high - many.low < 0.5 * (few.high - few.low)
    with pytest.raises(ValueError, match="level must be in"):
        confidence_interval(lambda top, Y: 0.0, top, Y, level=1.0)


def test_wrong_rankings_are_refused() -> None:
    with pytest.raises(ValueError, match="label ids from -1 to 2"):
        label_table(np.array([[7]]), np.ones((1, 3)), 1)
    with pytest.raises(ValueError, match="at most once per row"):
        label_table(np.array([[1, 1]]), np.ones((1, 3)), 2)


def test_decisions_are_counted_as_scikit_learn_counts_them() -> None:
    rng = np.random.default_rng(3)
    decided, Y = (rng.random((50, 8)) < 0.3 for _ in range(2))
    table = decision_table(sp.csr_array(decided.astype(np.float32)), Y.astype(np.int8))
    options = {"average": None, "zero_division": 0}
    np.testing.assert_allclose(table.precision, precision_score(Y, decided, **options))
    np.testing.assert_allclose(table.recall, recall_score(Y, decided, **options))
    assert table.micro("precision") == pytest.approx(100 * precision_score(Y, decided, average="micro"))
    assert table.micro("recall") == pytest.approx(100 * recall_score(Y, decided, average="micro"))
    assert table.micro("f1") == pytest.approx(100 * f1_score(Y, decided, average="micro"))


def test_decisions_must_have_the_shape_of_the_truth() -> None:
    with pytest.raises(ValueError, match=r"decided has shape \(2, 3\), Y has shape \(2, 4\)"):
        decision_table(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="micro: name must be one of precision, recall, f1, got 'coverage'"):
        decision_table(np.ones((2, 3)), np.ones((2, 3))).micro("coverage")
