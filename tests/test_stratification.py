"""Splits keep what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail.model_selection import stratified_folds, stratified_split


def long_tail(n_rows: int = 600, n_labels: int = 200, seed: int = 0) -> Any:
    """Draw two to four labels per row from a long-tailed distribution."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, n_labels + 1)
    rows = [rng.choice(n_labels, rng.integers(2, 5), replace=False, p=chances / chances.sum()) for _ in range(n_rows)]
    indptr = np.cumsum([0, *map(len, rows)])
    return sp.csr_array((np.ones(indptr[-1]), np.concatenate(rows), indptr), shape=(n_rows, n_labels))


def counts(Y: Any) -> Any:
    return np.asarray(Y.sum(axis=0)).ravel()


@pytest.mark.parametrize("order", [1, 2])
def test_rare_labels_are_on_both_sides(order: int) -> None:
    Y = long_tail()
    train, test = stratified_split(Y, 0.2, order=order)
    assert sorted([*train, *test]) == list(range(600))
    assert 90 <= len(test) <= 150
    often = counts(Y) >= 2
    on_both = (counts(Y[train]) > 0) & (counts(Y[test]) > 0)
    assert on_both[often].mean() > 0.95
    random = np.random.default_rng(0).permutation(600)
    by_chance = (counts(Y[random[120:]]) > 0) & (counts(Y[random[:120]]) > 0)
    assert by_chance[often].mean() < 0.85


def test_frequent_labels_have_their_share() -> None:
    Y = long_tail()
    folds = stratified_folds(Y, 5)
    for fold in range(5):
        share = counts(Y[folds == fold]) / np.maximum(counts(Y), 1)
        assert np.abs(share - 0.2)[counts(Y) >= 20].max() < 0.12
    assert np.bincount(folds).min() > 90


def test_pairs_are_spread() -> None:
    """Two labels always come together in half of their rows: both folds get as many of these rows."""
    Y = np.array([[1, 1]] * 20 + [[1, 0]] * 20 + [[0, 1]] * 20)
    folds = stratified_folds(Y, 2, order=2)
    assert abs(int((folds[:20] == 0).sum()) - 10) <= 2


def test_the_same_seed_gives_the_same_split() -> None:
    Y = long_tail()
    assert stratified_folds(Y, 3, random_state=1).tolist() == stratified_folds(Y, 3, random_state=1).tolist()
    assert stratified_folds(Y, 3, random_state=1).tolist() != stratified_folds(Y, 3, random_state=2).tolist()


def test_rows_without_labels_are_spread_too() -> None:
    folds = stratified_folds(np.zeros((10, 3)), 2)
    assert np.bincount(folds).tolist() == [5, 5]


def test_no_part_is_empty() -> None:
    for n_rows in (2, 3, 7):
        for Y in (np.ones((n_rows, 1)), np.eye(n_rows), np.zeros((n_rows, 2))):
            train, test = stratified_split(sp.csr_array(Y), 0.01)
            assert len(train) + len(test) == n_rows
            assert min(len(train), len(test)) >= 1
            assert len(np.unique(stratified_folds(sp.csr_array(Y), n_rows))) == n_rows


def test_classes_and_any_real_share_are_taken() -> None:
    classes = np.repeat(["ant", "bee", "cat"], 10)
    _, test = stratified_split(classes, np.float32(0.2))
    assert sorted(classes[test]) == ["ant"] * 2 + ["bee"] * 2 + ["cat"] * 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Y: stratified_folds(Y, 1), "n_folds must be an int >= 2, got 1"),
        (lambda Y: stratified_split(Y, 1.0), r"test_share must be in \(0, 1\), got 1.0"),
        (lambda Y: stratified_folds(Y, 2, order=3), "order must be 1 or 2, got 3"),
        (lambda Y: stratified_folds(sp.csr_array(Y[:1]), 2), "Y must have at least 2 rows, got 1"),
        (lambda _: stratified_split(None), "Y must be a 0/1 matrix or 1-D classes, got None"),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(np.eye(4))
