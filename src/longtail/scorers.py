"""Ranking measures as scorers for scikit-learn: ``cross_val_score(model, X, Y, scoring=lt.scorers["psp@5"])``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from longtail import metrics
from longtail.propensity import from_counts

_NAMES = {"p": "P", "ndcg": "nDCG", "recall": "recall", "psp": "PSP", "psndcg": "PSnDCG"}
_NAME = re.compile(r"([a-z]+)@([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class RankingScorer:
    """Score a fitted estimator or Tagger by a ranking measure, in percent.

    Propensities of ``psp`` and ``psndcg`` come from the label counts of the model's own training rows.

    Parameters
    ----------
    measure : "P", "nDCG", "recall", "PSP" or "PSnDCG"
    k : int, how many labels of each row count
    """

    measure: str
    k: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Rank X and compare with y: a label matrix, 1-D classes or, for a Tagger, lists of names."""
        model, inputs = _last_step(estimator, X)
        Y = _matrix_of(model, y)
        propensity = from_counts(model.label_counts_, model.n_rows_) if self.measure.startswith("PS") else None
        found = metrics.evaluate(model.predict_top_k(inputs, self.k), Y, propensity=propensity, ks=(self.k,))
        return float(found[f"{self.measure}@{self.k}"])


class _Scorers(Mapping[str, RankingScorer]):
    """Scorers by name: ``p@1``, ``ndcg@5``, ``recall@10``, ``psp@3``, ``psndcg@5``, for any k."""

    def __getitem__(self, name: str) -> RankingScorer:
        match = _NAME.fullmatch(name.lower()) if isinstance(name, str) else None
        if match is None or match.group(1) not in _NAMES:
            raise KeyError(f"scorers: name must be one of {', '.join(_NAMES)} with @k, such as 'psp@5'; got {name!r}")
        return RankingScorer(_NAMES[match.group(1)], int(match.group(2)))

    def __iter__(self) -> Iterator[str]:
        return (f"{name}@{k}" for name in _NAMES for k in (1, 3, 5))

    def __len__(self) -> int:
        return 3 * len(_NAMES)

    def __repr__(self) -> str:
        return f"scorers({', '.join(self)}, …)"


scorers = _Scorers()


def _last_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Take a Pipeline apart: the fitted model at its end, and X as that model gets it."""
    if hasattr(estimator, "steps"):
        return estimator.steps[-1][1], estimator[:-1].transform(X)
    return estimator, X


def _matrix_of(model: Any, y: Any) -> Any:
    if model.label_names_:
        return model.encode(y)[0]
    if not sp.issparse(y) and getattr(y, "ndim", 1) == 1:
        ids = {value: label_id for label_id, value in enumerate(model.classes_.tolist())}
        columns = [ids.get(value, -1) for value in y.tolist()]
        known = [(row, column) for row, column in enumerate(columns) if column >= 0]
        rows, kept = ([row for row, _ in known], [column for _, column in known])
        return sp.csr_array(([1.0] * len(known), (rows, kept)), shape=(len(columns), model.n_labels_))
    return sp.csr_array(y)
