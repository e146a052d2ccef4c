"""A toy estimator whose every score can be worked out by hand: how often words and labels went together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._fitted import Fitted, State
from longtail._matrices import Matrix
from longtail._topk import TopK
from longtail.execution import Run
from longtail.saving import registry


@dataclass(frozen=True, eq=False)
class WordCounts(State):
    weights: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]


@dataclass(kw_only=True, eq=False, repr=False)
class WordCounter(XMCClassifier):
    """A label's score: the sum, over the features of a row, of value times the label's mean value of that feature."""

    _State: ClassVar = WordCounts

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> WordCounts:
        counts = np.maximum(Y.sum(axis=0), 1)
        return WordCounts(np.ascontiguousarray((Y.T @ sp.csr_array(X)).toarray() / counts[:, None], dtype=np.float32))

    def _top_k(self, fitted: Fitted[WordCounts], X: Matrix, top_k: int) -> TopK:
        scores = sp.csr_array(X) @ fitted.state.weights.T
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k].astype(np.int32)
        found = np.take_along_axis(scores, order, axis=1).astype(np.float32)
        missing = top_k - order.shape[1]
        return TopK(np.pad(order, ((0, 0), (0, missing)), constant_values=-1), np.pad(found, ((0, 0), (0, missing))))

    @classmethod
    def register(cls, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let models of this class be saved and loaded within one test."""
        monkeypatch.setitem(registry.HOMES, cls.__name__, registry.Home(cls.__module__, "estimator"))

    def __sklearn_tags__(self) -> Any:
        return super().__sklearn_tags__()
