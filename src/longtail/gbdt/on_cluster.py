"""Grow the trees of GBDTSparse on a cluster: actors that own blocks of columns, a small exchange a level."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail import _core
from longtail._matrices import Matrix
from longtail.execution import RayExecutor, Run, Shard, TaskLost
from longtail.execution.ray_actors import ActorGroup, ActorLost
from longtail.gbdt.column_blocks import BlockWorker, cut_columns, grow_together

_log = logging.getLogger(__name__)


class ClusterBlocks:
    """The workers of one fit. When one is lost, all are made anew and told the finished trees.

    Parameters
    ----------
    X, Y : what the trees are grown on
    params : of the native booster
    booster : a booster over all columns in this process, which tells the leaf of each row in a finished tree
    """

    def __init__(
        self,
        executor: RayExecutor,
        run: Run,
        X: Matrix,
        Y: sp.csr_array,
        params: dict[str, object],
        booster: _core.Booster,
    ) -> None:
        self._executor, self._run = executor, run
        self._X, self._Y, self._params, self._booster = X, Y, params, booster
        self._group: ActorGroup | None = None

    def grow(self, tree_id: int, finished: list[Shard]) -> Shard:
        """Grow the next tree after the finished ones; return its arrays."""
        max_retries = self._executor.max_retries
        for n_lost in range(max_retries + 1):
            try:
                if self._group is None:
                    self._group = self._make(finished)
                return grow_together(self._group, tree_id)
            except ActorLost as error:
                _log.warning("%s: tree %d lost a worker: %s", self._run.owner, tree_id, error)
                self.close()
                if n_lost == max_retries:
                    raise TaskLost(
                        f"{self._run.owner}: tree {tree_id} lost a worker {n_lost + 1} times, the last time because "
                        f"{error}; look into the nodes' logs and memory, or raise RayExecutor(max_retries=...)"
                    ) from error
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None

    def _make(self, finished: list[Shard]) -> ActorGroup:
        ray = self._executor.connect()
        n_features = self._X.shape[1]
        labels = [ray.put(self._Y.indptr), ray.put(self._Y.indices)]
        arguments: list[list[Any]] = []
        for first, last in cut_columns(n_features, max(1, self._executor.count_slots())):
            block = self._X[:, first:last]
            block = block if sp.issparse(block) else np.ascontiguousarray(block)
            own = [ray.put(block), first, n_features, *labels, self._Y.shape[1], self._params, self._executor.n_cpus]
            arguments.append(own)
        group = ActorGroup(self._executor, self._run.owner, BlockWorker, arguments, self._run.control)
        for tree in finished:
            parts = (tree["split_features"], tree["thresholds"], tree["left_children"])
            leaf_of_row = self._booster.find_leaves(*parts, self._run.n_jobs, _core.Control())
            group("add_leaves", tree, leaf_of_row)
        return group
