"""A small estimator with everything the format can hold: a tree, scalars, an inner model, an estimator as parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import longtail as lt
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix
from longtail._rules import Bool, Choice, Instance, Int, Nothing, Real
from longtail._topk import TopK
from longtail.execution import Run
from longtail.saving.registry import HOMES, Home


@dataclass(frozen=True, eq=False)
class ToyState(State):
    """A tree, a number that may be missing, and a model inside the model."""

    children: Annotated[NDArray[np.int32], ArraySpec(np.int32, shape=(None, 2), min=-1)]
    weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    gain: Annotated[float | None, Nothing(), Real()]
    inner: Annotated[XMCClassifier | None, Nothing(), Instance("XMCClassifier")]

    def check(self, owner: str, facts: Facts) -> None:
        n_nodes = len(self.children)
        if len(self.weights) != n_nodes:
            raise ValueError(f"ToyTree: {n_nodes} nodes must have as many weights, got {len(self.weights)}")
        if n_nodes and self.children.max() >= n_nodes:
            raise ValueError(f"ToyTree: a child must be one of {n_nodes} nodes, got {self.children.max()}")
        if ((self.children >= 0) & (self.children <= np.arange(n_nodes)[:, None])).any():
            raise ValueError("ToyTree: every child id must be greater than its parent's")
        if self.inner is not None and self.inner.n_labels_ != facts.n_labels:
            raise ValueError(f"ToyTree: inner_ must have {facts.n_labels} labels, got {self.inner.n_labels_}")


@dataclass(kw_only=True, eq=False, repr=False)
class ToyTree(XMCClassifier):
    """A fixed complete tree over whatever it is given; it ranks like the model it owns."""

    depth: Annotated[int, Int(1, 10)] = 2
    rate: Annotated[float, Real(0, 1)] = 0.5
    mode: Annotated[str, Choice("fast", "exact")] = "fast"
    is_deep: Annotated[bool, Bool()] = False
    helper: Annotated[XMCClassifier | None, Nothing(), Instance("XMCClassifier")] = None

    _State: ClassVar = ToyState

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> ToyState:
        n_nodes = 2 ** (self.depth + 1) - 1
        n_inner = 2**self.depth - 1
        children = np.full((n_nodes, 2), -1, np.int32)
        children[:n_inner] = 1 + 2 * np.arange(n_inner)[:, None] + [0, 1]
        weights = np.linspace(-1, 1, n_nodes, dtype=np.float32)
        return ToyState(children, weights, 0.25, (self.helper or lt.Popularity(n_jobs=1)).fit(X, Y))

    def _top_k(self, fitted: Fitted[ToyState], X: Matrix, top_k: int) -> TopK:
        inner = fitted.state.inner
        if inner is None:
            return TopK(np.full((X.shape[0], top_k), -1, np.int32), np.zeros((X.shape[0], top_k), np.float32))
        return inner.predict_top_k(X, top_k)


def register(monkeypatch: Any) -> None:
    """Let the closed table know the toy for the time of one test."""
    monkeypatch.setitem(HOMES, "ToyTree", Home(__name__, "estimator"))
