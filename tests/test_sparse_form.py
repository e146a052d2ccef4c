"""Sparse matrices have one form inside, are not changed by a call, and work with scipy when they come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.calibration import find_hits
from longtail.model_selection import stratified_split

TEXTS = ["web server", "web browser", "mail server", "mail reader"] * 5


def _untidy() -> sp.csr_array:
    """Make a 0/1 matrix (20, 3) with unsorted columns and stored zeros."""
    one = sp.csr_array((np.array([1.0, 0.0, 1.0, 1.0]), np.array([2, 1, 0, 1]), np.array([0, 3, 4])), shape=(2, 3))
    return sp.csr_array(
        (np.tile(one.data, 10), np.tile(one.indices, 10), np.append(0, np.cumsum(np.tile([3, 1], 10)))), shape=(20, 3)
    )


def _fit_tagger(Y: sp.csr_array) -> None:
    lt.Tagger(lt.Popularity()).fit(TEXTS, Y)


@pytest.mark.parametrize(
    "call",
    [
        lambda Y: find_hits(np.zeros((20, 1), np.int32), Y),
        stratified_split,
        _fit_tagger,
        lambda Y: lt.metrics.precision_at_k(np.zeros((20, 1), np.int32), Y, k=1),
        lt.datasets.unit_rows,
        lambda Y: lt.Popularity().fit(Y, Y),
    ],
    ids=["find_hits", "stratified_split", "Tagger.fit", "precision_at_k", "unit_rows", "fit"],
)
def test_a_call_does_not_change_the_matrix_of_its_caller(call: Callable[[Any], object]) -> None:
    Y = _untidy()
    before = [part.tobytes() for part in (Y.indptr, Y.indices, Y.data)]
    call(Y)
    assert [part.tobytes() for part in (Y.indptr, Y.indices, Y.data)] == before


def test_matrices_that_come_out_work_with_scipy() -> None:
    Y = _untidy()
    model = lt.Popularity().fit(np.eye(20), Y, calibrate=True)
    tagger = lt.Tagger(lt.Popularity()).fit(TEXTS, Y)
    for made in (model.predict_proba(np.eye(20), top_k=2), tagger.predict(TEXTS), tagger.encode(Y)[0]):
        assert made.tocoo().nnz == made.nnz
        assert len(made.nonzero()[0]) == np.count_nonzero(made.toarray())


@pytest.mark.parametrize(
    "call",
    [lt.datasets.unit_rows, lambda Y: lt.metrics.precision_at_k(np.zeros((1, 1), np.int32), Y, k=1)],
    ids=["unit_rows", "precision_at_k"],
)
def test_wide_indices_do_not_wrap_into_range(call: Callable[[Any], object]) -> None:
    wild = sp.csr_array((1, 5), dtype=np.float32)
    wild.data, wild.indices, wild.indptr = np.ones(1, np.float32), np.array([2**32 + 3]), np.array([0, 1])
    with pytest.raises(ValueError, match=r"column indices must be in 0 \.\. 4"):
        call(wild)
