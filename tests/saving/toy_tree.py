"""A small estimator with everything the format can hold: a tree, scalars, an inner model, an estimator as parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._matrices import Matrix
from longtail._rules import Bool, Choice, Instance, Int, Nothing, Real, Rule
from longtail._topk import TopK
from longtail.execution import Run
from longtail.saving.registry import HOMES, Home


@dataclass(kw_only=True, eq=False, repr=False)
class ToyTree(XMCClassifier):
    """A fixed complete tree over whatever it is given; it ranks like the model it owns."""

    depth: int = 2
    rate: float = 0.5
    mode: str = "fast"
    is_deep: bool = False
    helper: XMCClassifier | None = None

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "depth": (Int(1, 10),),
        "rate": (Real(0, 1),),
        "mode": (Choice("fast", "exact"),),
        "is_deep": (Bool(),),
        "helper": (Nothing(), Instance("XMCClassifier")),
    }
    _state: ClassVar[dict[str, ArraySpec]] = {
        "children_": ArraySpec(np.int32, shape=(None, 2), min=-1),
        "weights_": ArraySpec(np.float32, ndim=1, finite=True),
    }
    _scalars: ClassVar[dict[str, tuple[Rule, ...]]] = {"gain_": (Nothing(), Real())}
    _models: ClassVar[dict[str, tuple[Rule, ...]]] = {"inner_": (Nothing(), Instance("XMCClassifier"))}
    children_: Any = field(init=False)
    weights_: Any = field(init=False)
    gain_: float | None = field(init=False)
    inner_: XMCClassifier | None = field(init=False)

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run) -> None:
        n_nodes = 2 ** (self.depth + 1) - 1
        n_inner = 2**self.depth - 1
        self.children_ = np.full((n_nodes, 2), -1, np.int32)
        self.children_[:n_inner] = 1 + 2 * np.arange(n_inner)[:, None] + [0, 1]
        self.weights_ = np.linspace(-1, 1, n_nodes, dtype=np.float32)
        self.gain_ = 0.25
        self.inner_ = (self.helper or lt.Popularity(n_jobs=1)).fit(X, Y)

    def _top_k(self, X: Matrix, top_k: int) -> TopK:
        if self.inner_ is None:
            return TopK(np.full((X.shape[0], top_k), -1, np.int32), np.zeros((X.shape[0], top_k), np.float32))
        return self.inner_._top_k(X, top_k)

    def _check_state(self) -> None:
        n_nodes = len(self.children_)
        if len(self.weights_) != n_nodes:
            raise ValueError(f"ToyTree: {n_nodes} nodes must have as many weights, got {len(self.weights_)}")
        if n_nodes and self.children_.max() >= n_nodes:
            raise ValueError(f"ToyTree: a child must be one of {n_nodes} nodes, got {self.children_.max()}")
        if ((self.children_ >= 0) & (self.children_ <= np.arange(n_nodes)[:, None])).any():
            raise ValueError("ToyTree: every child id must be greater than its parent's")
        if self.inner_ is not None and self.inner_.n_labels_ != self.n_labels_:
            raise ValueError(f"ToyTree: inner_ must have {self.n_labels_} labels, got {self.inner_.n_labels_}")


def register(monkeypatch: Any) -> None:
    """Let the closed table know the toy for the time of one test."""
    monkeypatch.setitem(HOMES, "ToyTree", Home(__name__, "estimator"))
