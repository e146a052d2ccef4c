"""Choose an estimator from the shape of the data and from estimates of time and memory."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from longtail import _os, _rules
from longtail._base import XMCClassifier
from longtail._declared import Collected
from longtail._estimate import Estimate
from longtail._estimator import Parameters
from longtail._matrices import checked_labels
from longtail._rules import Bool, Int, Nothing, Real
from longtail._threads import resolve_n_jobs
from longtail._words import counted

_logger = logging.getLogger(__name__)

# Linear classifiers cannot separate many labels with so few features; trees over rows can, given enough rows.
_FEW_FEATURES = 256
_ROWS_PER_FEATURE = 50
# One-vs-all gets through at least this many labels times non-zeros per second and thread. Below the limit that follows
# from it no probe is needed, and the choice does not depend on the clock.
_LEAST_SPEED = 1e8
_MEMORY_SHARE = 0.8
# From so many labels on, a label tree with exact leaves is nearly as accurate as one-vs-all at a fraction of its time.
_MANY_LABELS = 10_000


class Choice(NamedTuple):
    """What `Auto.choose` returns.

    Attributes
    ----------
    estimator : XMCClassifier, not fitted
    reason : str, one line
    estimate : Estimate or None, what its fit is expected to take; None if the shape of the data was enough
    """

    estimator: XMCClassifier
    reason: str
    estimate: Estimate | None


@dataclass(kw_only=True, eq=False, repr=False)
class Auto(Parameters):
    """Choose an estimator for some data: the most accurate one whose fit takes neither too long nor too much memory.

    The candidates are, in this order: exact one-vs-all (`DiSMEC`), a label tree with exact leaves, and a plain label
    tree. Where rows are many and features few, it is `FastXML`. Small problems are decided by their shape alone;
    otherwise the candidates are tried on a few labels, which takes up to a minute. With 10,000 labels or more only the
    trees are: exact leaves are nearly as accurate as one-vs-all there, at a fraction of its time. Estimates vary with
    the load of the machine, so a choice near a limit may differ from run to run: name an estimator where a model must
    be reproducible.

    A `Tagger` without an estimator, and ``longtail train`` without ``-e``, use it with its defaults.

    Parameters
    ----------
    max_seconds : float, default 600
        How long a fit may take, by the clock.
    max_memory_bytes : int or None, default None
        How much memory a fit may take besides X and Y; None means 80 % of what is free.
    unit_rows, n_jobs, random_state
        Passed on to the estimator.

    Examples
    --------
    >>> import longtail as lt
    >>> data = lt.datasets.make_synthetic(n_rows=500, n_features=200, n_labels=50)
    >>> choice = lt.Auto(n_jobs=1).choose(data.X, data.Y)
    >>> print(choice.reason)
    DiSMEC: exact one-vs-all is fast on 500 rows and 50 labels
    >>> model = choice.estimator.fit(data.X, data.Y)
    """

    max_seconds: Annotated[float, Real(0, above=True)] = 600.0
    max_memory_bytes: Annotated[int | None, Int(1), Nothing()] = None
    unit_rows: Annotated[bool, Bool()] = False
    n_jobs: Annotated[int | None, _rules.N_JOBS] = None
    random_state: Annotated[int, _rules.SEED] = 0

    _rules: ClassVar[Any] = Collected(*_rules.KINDS)
    _always_calibrates: ClassVar[bool] = False  # none of the candidates does

    def choose(self, X: Any, y: Any) -> Choice:
        """Choose an estimator, and log which and why (logger ``longtail.auto``, level INFO).

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        y : CSR matrix or 0/1 array (n_rows, n_labels), or 1-D classes
        """
        self.check_params()
        X = X if sp.issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"Auto: X must be a matrix, got {X.ndim} dimensions")
        Y = checked_labels("Auto", y, X.shape[0]).Y
        _os.require_memory("Auto", X.shape[1], Y.shape[1])
        choice = self._by_shape(X, Y) or self._by_estimate(X, Y)
        _logger.info("%s", choice.reason)
        return choice

    def resolve(self, X: Any, y: Any) -> Any:
        """Return the estimator that fits these rows."""
        return self.choose(X, y).estimator

    def with_parts(self) -> Any:
        """Return the estimator to search parameters for: a DiSMEC."""
        return self._make("dismec", "DiSMEC")

    def check_params(self) -> None:
        """Raise ValueError or TypeError if a parameter is not allowed."""
        _rules.check_params("Auto", self.get_params(deep=False), self._rules)

    def _by_shape(self, X: Any, Y: sp.csr_array) -> Choice | None:
        n_rows, n_features = X.shape
        n_labels = len(np.unique(Y.indices))
        if n_features <= _FEW_FEATURES and n_rows >= _ROWS_PER_FEATURE * n_features:
            reason = f"FastXML: {counted(n_rows, 'row')} with {counted(n_features, 'feature')} suit trees over rows"
            return Choice(self._make("fastxml", "FastXML"), reason, None)
        n_entries = X.nnz if sp.issparse(X) else X.size
        threads = resolve_n_jobs(self.n_jobs)
        is_fast = n_entries * n_labels <= _LEAST_SPEED * threads * self.max_seconds
        if is_fast and 16 * n_features * n_labels <= self._free_bytes:
            size = f"{counted(n_rows, 'row')} and {counted(n_labels, 'label')}"
            return Choice(self._make("dismec", "DiSMEC"), f"DiSMEC: exact one-vs-all is fast on {size}", None)
        return None

    def _by_estimate(self, X: Any, Y: sp.csr_array) -> Choice:
        passed_over: list[str] = []
        free = self._free_bytes
        n_labels = len(np.unique(Y.indices))
        if n_labels >= _MANY_LABELS:
            passed_over.append(f"DiSMEC would take long with {counted(n_labels, 'label')}")
        for name, estimator in self._candidates(n_labels):
            estimate: Estimate = estimator.estimate(X, Y)
            fits = estimate.seconds <= self.max_seconds and estimate.memory_bytes <= free
            if fits:
                break
            passed_over.append(f"{name} would take {_taken(estimate)}")
        reason = f"{name}: about {_taken(estimate)}" if fits else f"{name}: all exceed the limits, this one least"
        return Choice(estimator, "; ".join([reason, *passed_over]), estimate)

    def _candidates(self, n_labels: int) -> Iterator[tuple[str, Any]]:
        """Yield estimators, the most accurate one first."""
        if n_labels < _MANY_LABELS:
            yield "DiSMEC", self._make("dismec", "DiSMEC")
        yield "LabelTree with exact leaves", self._make("label_tree", "LabelTree", leaves="exact")
        yield "LabelTree", self._make("label_tree", "LabelTree")

    def _make(self, module: str, name: str, **params: Any) -> Any:
        """Make an estimator; its module is imported only now, because a Tagger that is loaded needs one of them."""
        shared = {"unit_rows": self.unit_rows, "n_jobs": self.n_jobs, "random_state": self.random_state}
        return getattr(importlib.import_module(f"longtail.{module}"), name)(**shared, **params)

    @property
    def _free_bytes(self) -> float:
        if self.max_memory_bytes is not None:
            return float(self.max_memory_bytes)
        return _MEMORY_SHARE * _os.available_memory_bytes()


def _taken(estimate: Estimate) -> str:
    seconds = estimate.seconds
    if seconds < 90:
        time = f"{seconds:.0f} s"
    elif seconds < 5400:
        time = f"{seconds / 60:.0f} min"
    elif seconds < 2 * 86400:
        time = f"{seconds / 3600:.0f} h"
    else:
        time = f"{seconds / 86400:.0f} days"
    return f"{time} and {estimate.memory_bytes / 1e9:.1f} GB"
