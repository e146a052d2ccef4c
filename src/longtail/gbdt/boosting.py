"""The boosting rounds of GBDTSparse as steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import Matrix
from longtail.execution import Run, Shard
from longtail.gbdt.column_blocks import TreeWorkers, make_booster, total_weight
from longtail.gbdt.forest import add_tree


class LabelledRows(NamedTuple):
    """Rows, their labels, and how much each row counts: None for all the same."""

    X: Matrix
    Y: sp.csr_array
    weights: NDArray[np.float32] | None = None


class Boosting:
    """Grows one tree per step; the first step also learns the projection, which its shard holds.

    Parameters
    ----------
    run : Run
    train : rows to learn from
    held : rows to validate on, or None
    params : of the native booster
    patience : number of trees without a smaller validation loss after which to stop; used with `held` only
    learn_projection : returns the projection
    prepare : returns the rows as the trees see them, given the projection
    """

    def __init__(
        self,
        run: Run,
        train: LabelledRows,
        held: LabelledRows | None,
        params: Mapping[str, object],
        patience: int,
        learn_projection: Callable[[], NDArray[np.float32]],
        prepare: Callable[[Matrix, NDArray[np.float32]], Matrix],
    ) -> None:
        self._run, self._train, self._held = run, train, held
        self._params, self._patience = params, patience
        self._learn_projection, self._prepare = learn_projection, prepare
        self._workers: TreeWorkers | None = None
        self._validation: _Validation | None = None
        self.held_losses: list[float] = []

    def advance(self, step_id: int) -> Shard:
        first: Shard = {}
        if self._workers is None:
            first = {"projection": self._learn_projection()}
            self._workers = self._begin(first["projection"])
        tree = self._workers.grow(step_id)
        self._validate(tree)
        return tree | first

    def restore(self, step_id: int, shard: Shard) -> None:
        if self._workers is None:
            self._workers = self._begin(shard["projection"])
        self._workers.add(shard)
        self._validate(shard)

    def is_done(self) -> bool:
        return bool(self.held_losses) and len(self.held_losses) - self.n_best() >= self._patience

    def n_best(self) -> int:
        """Return the number of trees with the smallest validation loss."""
        return int(np.argmin(self.held_losses)) + 1

    def _begin(self, projection: NDArray[np.float32]) -> TreeWorkers:
        if self._held is not None:
            rows = self._held._replace(X=self._prepare(self._held.X, projection))
            self._validation = _Validation(rows, self._params, self._run)
        X, Y, weights = self._train._replace(X=self._prepare(self._train.X, projection))
        return TreeWorkers(self._run, X, Y, self._params, weights)

    def _validate(self, tree: Shard) -> None:
        if self._validation is not None:
            self.held_losses.append(self._validation.add(tree))


class _Validation:
    """The scores of the rows that are held out."""

    def __init__(self, rows: LabelledRows, params: Mapping[str, object], run: Run) -> None:
        X, Y, weights = rows
        self._booster = make_booster(X, Y.indptr, Y.indices, Y.shape[1], params, row_weights=weights)
        self._n_rows, self._run = total_weight(weights, X.shape[0]), run

    def add(self, tree: Shard) -> float:
        """Add a tree and return the mean loss per row."""
        threads: tuple[int, _core.Control] = (self._run.n_jobs, self._run.control)
        add_tree(self._booster, tree, *threads)
        return self._booster.loss(*threads) / self._n_rows
