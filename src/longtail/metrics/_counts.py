"""Every metric as a sum over one small table of counts.

The table (`Counts`) has a line per group of rows with equally many labels and a column per rank.
Each gain of Table 1 of the PfastreXML paper is then one expression,

    G@k = 1/n · sum over groups g and ranks r < k of  table[g, r] · factor[r] / divisor[g],

with hits in the table for the plain metric, and hits weighted by 1/p for the propensity-scored one.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """The fields of HitTable in cpp/metrics/hits.hpp; `gains` and what follows are empty without
    propensities."""

    n_observed: NDArray[np.int64]
    n_relevant: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    hits: NDArray[np.int64]
    first_hits: NDArray[np.int64]
    predicted: NDArray[np.int64]
    gains: Floats
    ideal_gains: Floats
    weight_sums: Floats

    @property
    def is_scored(self) -> bool:
        return len(self.gains) > 0

    @property
    def total_rows(self) -> int:
        return int(self.n_rows.sum())

    @classmethod
    def sum(cls, tables: "list[Counts]") -> "Counts":
        """Add tables; groups of the same row size become one, and come in a fixed order."""
        joined = {f.name: np.concatenate([getattr(table, f.name) for table in tables]) for f in fields(cls)}
        keys = np.stack((joined["n_observed"], joined["n_relevant"]), axis=1)
        unique, group = np.unique(keys, axis=0, return_inverse=True)
        summed: dict[str, Any] = {"n_observed": unique[:, 0].copy(), "n_relevant": unique[:, 1].copy()}
        for name in ("n_rows", "hits", "gains", "ideal_gains", "weight_sums"):
            values = joined[name]
            summed[name] = np.zeros((len(unique) if len(values) else 0, *values.shape[1:]), dtype=values.dtype)
            np.add.at(summed[name], group.reshape(-1)[: len(values)], values)
        for name in ("first_hits", "predicted"):
            summed[name] = np.sum([getattr(table, name) for table in tables], axis=0)
        return cls(**summed)


# (k, labels of a row, beta) -> (factor by rank, divisor by group)
Gain = Callable[[int, Floats, float], tuple[Floats, Floats]]


def discounts(k: int) -> Floats:
    """Discount of ranks 1 to k. Base 2: the first rank counts fully, so that ADG stays within 0 and 100."""
    result: Floats = 1.0 / np.log2(np.arange(2, k + 2, dtype=np.float64))
    return result


def _precision(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    return np.ones(k), np.full_like(n_labels, k)


def _recall(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    return np.ones(k), n_labels


def _reciprocal_rank(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    return 1.0 / np.arange(1, k + 1), n_labels


def _discounted(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    return discounts(k), n_labels


def _f_beta(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    return np.full(k, 1.0 + beta**2), beta**2 * n_labels + k


def _ndcg(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    """Normalise by row, as the FastXML paper does: the ideal row has min(k, labels of the row) hits."""
    ideal = np.cumsum(discounts(k))
    return discounts(k), ideal[np.clip(n_labels, 1, k).astype(np.int64) - 1]


def _scored_ndcg(k: int, n_labels: Floats, beta: float) -> tuple[Floats, Floats]:
    """Table 1 of the PfastreXML paper divides every row alike."""
    return discounts(k), np.full_like(n_labels, discounts(k).sum())


PLAIN: dict[str, Gain] = {
    "P": _precision,
    "nDCG": _ndcg,
    "recall": _recall,
    "F": _f_beta,
    "MRR": _reciprocal_rank,
    "ADG": _discounted,
}
SCORED: dict[str, Gain] = PLAIN | {"nDCG": _scored_ndcg}


def plain(counts: Counts, name: str, k: int, beta: float = 1.0) -> float:
    """100 · G@k."""
    gain = PLAIN[name](k, np.maximum(counts.n_observed, 1).astype(np.float64), beta)
    return 100.0 * min(1.0, _mean(counts, counts.hits, gain, k))  # rounding may pass 1 in the last bit


def scored(counts: Counts, name: str, k: int, beta: float = 1.0, *, normalize: bool = True) -> float:
    """100 · G@k(predicted) / G@k(truth), or without `normalize` the unbiased 100 · G@k(predicted)."""
    gain = SCORED[name](k, np.maximum(counts.n_relevant, 1).astype(np.float64), beta)
    predicted = _mean(counts, counts.gains, gain, k)
    if not normalize:
        return 100.0 * predicted
    ideal = _mean(counts, counts.ideal_gains, gain, k)
    return 100.0 * min(1.0, predicted / ideal) if ideal > 0 else 0.0


def first_reciprocal_rank(counts: Counts, k: int) -> float:
    return 100.0 * float(counts.first_hits[:k] @ (1.0 / np.arange(1, k + 1))) / counts.total_rows


def hamming(counts: Counts, k: int, n_labels: int) -> float:
    wrong = counts.n_observed @ counts.n_rows + counts.predicted[:k].sum() - 2 * counts.hits[:, :k].sum()
    return 100.0 * float(wrong) / (counts.total_rows * n_labels)


def scored_hamming(counts: Counts, k: int, n_labels: int) -> float:
    """Theorem 4.4: the sum over labels of (1 - 2ŷ)·y/p + ŷ."""
    wrong = counts.weight_sums.sum() + counts.predicted[:k].sum() - 2.0 * counts.gains[:, :k].sum()
    return 100.0 * float(wrong) / (counts.total_rows * n_labels)


def _mean(counts: Counts, table: NDArray[Any], gain: tuple[Floats, Floats], k: int) -> float:
    factor, divisor = gain
    return float((table[:, :k] @ factor / divisor).sum()) / counts.total_rows
