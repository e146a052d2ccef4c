"""Measures as scorers for scikit-learn: ``cross_val_score(model, X, Y, scoring=lt.scorers["psp@5"])``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from longtail import metrics
from longtail.metrics.evaluation import MACRO
from longtail.propensity import from_counts

_NAMES = {"p": "P", "ndcg": "nDCG", "recall": "recall", "psp": "PSP", "psndcg": "PSnDCG"}
_NAMES |= {name.lower(): name for name in MACRO}
_DECISIONS = ("precision", "recall", "f1")
_AVERAGES = ("micro", "macro", "samples")
_NAME = re.compile(r"([a-z0-9-]+)@([1-9][0-9]{0,5})")


@dataclass(frozen=True)
class RankingScorer:
    """Score a fitted estimator or Tagger by a ranking measure, in percent.

    Propensities of ``psp`` and ``psndcg`` come from the label counts of the model's own training rows.

    Parameters
    ----------
    measure : "P", "nDCG", "recall", "PSP", "PSnDCG", "macro-F1" or another of `longtail.metrics.evaluate`
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


@dataclass(frozen=True)
class DecisionScorer:
    """Score what `predict` decides, with scikit-learn's measure of this name; also for a Tagger and lists of names.

    scikit-learn's own scorers take label matrices only.

    Parameters
    ----------
    measure : "precision", "recall" or "f1"
    average : "micro", "macro" or "samples"
    """

    measure: str
    average: str

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Decide the labels of X and compare with y: a label matrix, 1-D classes or, for a Tagger, lists of names."""
        from sklearn.metrics import precision_recall_fscore_support

        model, inputs = _last_step(estimator, X)
        Y, Y_hat = _matrix_of(model, y), _matrix_of(model, model.predict(inputs))
        found = precision_recall_fscore_support(Y, Y_hat, average=self.average, zero_division=0.0)
        return float(found[_DECISIONS.index(self.measure)])


class _Scorers(Mapping[str, RankingScorer | DecisionScorer]):
    """Scorers by name: ``p@1``, ``ndcg@5``, ``recall@10``, ``psp@3``, ``psndcg@5``, for any k, in percent.

    ``macro-precision@5``, ``macro-recall@5``, ``macro-f1@5``, ``balanced-accuracy@5`` and ``correct-coverage@5`` are
    means over labels.
    ``f1_micro``, ``precision_macro``, ``recall_samples`` and the like are scikit-learn's, in [0, 1].
    """

    def __getitem__(self, name: str) -> RankingScorer | DecisionScorer:
        match = _NAME.fullmatch(name.lower()) if isinstance(name, str) else None
        if match is not None and match.group(1) in _NAMES:
            return RankingScorer(_NAMES[match.group(1)], int(match.group(2)))
        measure, _, average = name.partition("_") if isinstance(name, str) else ("", "", "")
        if measure in _DECISIONS and average in _AVERAGES:
            return DecisionScorer(measure, average)
        raise KeyError(
            f"scorers: name must be one of {', '.join(_NAMES)} with @k, such as 'psp@5', or one of "
            f"{', '.join(_DECISIONS)} with {', '.join(_AVERAGES)}, such as 'f1_micro'; got {name!r}"
        )

    def __iter__(self) -> Iterator[str]:
        yield from (f"{name}@{k}" for name in _NAMES for k in (1, 3, 5))
        yield from (f"{measure}_{average}" for measure in _DECISIONS for average in _AVERAGES)

    def __len__(self) -> int:
        return 3 * len(_NAMES) + len(_DECISIONS) * len(_AVERAGES)

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
