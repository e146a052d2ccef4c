"""Rare and frequent labels measured apart, each number with its confidence interval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longtail._words import counted
from longtail.metrics import _inputs
from longtail.metrics._inputs import LabelMatrix, Rankings
from longtail.metrics.macro import Entries, Interval, LabelTable, ranked_entries

MEASURES = ("precision", "recall", "f1", "balanced_accuracy", "coverage")
_TITLES = ("precision", "recall", "F1", "balanced", "coverage")


@dataclass(frozen=True)
class LabelGroup:
    """Labels of similar frequency.

    Attributes
    ----------
    least, most : int or None
        Training rows of the labels, both ends included; `most` is None where there is no upper end.
    n_labels : int
        Labels of the group that occur in the evaluated rows.
    measures : dict
        "precision", "recall", "f1", "balanced_accuracy" and "coverage" (share of the labels given correctly at least
        once), each a mean over these labels in percent, as an `Interval`.
    """

    least: int
    most: int | None
    n_labels: int
    measures: dict[str, Interval]

    @property
    def title(self) -> str:
        """The range of training rows, as text."""
        return f"{self.least}+" if self.most is None else f"{self.least}-{self.most}"


@dataclass(frozen=True, repr=False)
class TailEvaluation:
    """What a ranking does for labels of every frequency. ``str`` gives an aligned table.

    Attributes
    ----------
    everything : LabelGroup, all labels that occur
    groups : list of LabelGroup, from rare to frequent
    rankings : dict, "P@1", …, "P@k" and, with propensities, "PSP@1", …, "PSP@k", each an `Interval`
    k, n_rows : int
    level : float, confidence level of the intervals
    """

    everything: LabelGroup
    groups: list[LabelGroup]
    rankings: dict[str, Interval]
    k: int
    n_rows: int
    level: float

    def __str__(self) -> str:
        lines = [f"{'training rows':<14}{'labels':>8}" + "".join(f"{f'{title}@{self.k}':>17}" for title in _TITLES)]
        for name, group in [(group.title, group) for group in self.groups] + [("all", self.everything)]:
            cells = "".join(f"{_cell(group.measures[measure]) if group.n_labels else '–':>17}" for measure in MEASURES)
            lines.append(f"{name:<14}{group.n_labels:>8}{cells}")
        lines.append(", ".join(f"{name} {_cell(found)}" for name, found in self.rankings.items()))
        note = f"means over labels in %, {counted(self.n_rows, 'row')}; ± half of the {100 * self.level:g} % interval"
        return "\n".join([*lines, note])

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: ``{"k", "n_rows", "level", "P@1": {…}, …, "groups": [{"least", "f1": {…}, …}]}``."""
        groups = [
            {"least": group.least, "most": group.most, "n_labels": group.n_labels} | _rounded(group.measures)
            for group in (self.everything, *self.groups)
        ]
        about = {"k": self.k, "n_rows": self.n_rows, "level": self.level}
        return about | _rounded(self.rankings) | {"all": groups[0], "groups": groups[1:]}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)


class _Group(NamedTuple):
    least: int
    most: int | None
    members: NDArray[np.bool_]


def evaluate_tail(
    top: Rankings,
    Y: LabelMatrix,
    label_counts: ArrayLike,
    k: int = 5,
    *,
    propensity: ArrayLike | None = None,
    edges: Sequence[int] = (1, 6, 21, 101, 1001),
    level: float = 0.95,
    n_resamples: int = 200,
    random_state: int = 0,
) -> TailEvaluation:
    """Measure labels of similar frequency together, with confidence intervals by a bootstrap over rows.

    Parameters
    ----------
    top : TopK, int array of shape (n_rows, at least k) or sparse score matrix of shape (n_rows, n_labels)
        Ranked label ids of each row, best first, padded with -1.
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
    label_counts : array (n_labels,)
        Training rows of each label.
    k : int, default 5
    propensity : array (n_labels,), optional
        Propensities in (0, 1], see `longtail.propensity`: with them PSP is measured, too.
    edges : rising ints, default (1, 6, 21, 101, 1001)
        The first count of each group: 1 to 5, 6 to 20, …; labels below the first are in no group.
    level : float, default 0.95
    n_resamples : int, default 200
        The interval is the value ± z standard deviations over draws of rows with replacement. Means are over
        the labels that occur in a draw; rare labels are missing from some, which shifts all draws alike, and a
        deviation does not change by a shift.
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import evaluate_tail
    >>> top, Y = np.array([[0], [0], [1]] * 20), np.array([[1, 0], [0, 1], [0, 1]] * 20)
    >>> found = evaluate_tail(top, Y, label_counts=[3, 500], k=1)
    >>> [(group.title, round(group.measures["f1"].value, 1)) for group in found.groups if group.n_labels]
    [('1-5', 66.7), ('101-1000', 66.7)]
    """
    k = _inputs.check_k("k", k)
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level!r}")
    entries = ranked_entries(top, Y, k)
    whole = entries.table()
    groups = _groups(np.asarray(label_counts), whole, edges)
    weights = None if propensity is None else _inputs.as_weights(propensity, _inputs.as_labels(Y))[0]
    by_row = _by_row(entries, sorted({1, min(3, k), k}), weights)

    def measured(drawn: NDArray[np.int64] | None) -> NDArray[np.float64]:
        found = [_measured(entries.table(drawn) if drawn is not None else whole, groups).ravel()]
        for gains, most in by_row.values():
            counts = np.ones(entries.n_rows) if drawn is None else drawn
            found.append(np.atleast_1d(100 * (counts @ gains) / max(float(counts @ most), 1e-300)))
        return np.concatenate(found)

    values = measured(None)
    random = np.random.default_rng(random_state)
    draws = [
        measured(_drawn(random, entries.n_rows))
        for _ in range(_inputs.check_k("n_resamples", n_resamples) if entries.n_rows else 0)
    ]
    spread = np.zeros_like(values) if not draws else np.stack(draws).std(axis=0)
    half = NormalDist().inv_cdf((1 + level) / 2) * spread
    low, high = np.maximum(values - half, 0), np.minimum(values + half, 100)
    intervals = [Interval(*map(float, parts)) for parts in zip(values, low, high, strict=True)]
    n_measures = len(MEASURES)
    found = [
        LabelGroup(
            group.least,
            group.most,
            int((group.members & whole.occurs).sum()),
            dict(zip(MEASURES, intervals[i * n_measures : (i + 1) * n_measures], strict=True)),
        )
        for i, group in enumerate(groups)
    ]
    rankings = dict(zip(by_row, intervals[len(groups) * n_measures :], strict=True))
    return TailEvaluation(found[0], found[1:], rankings, k, entries.n_rows, level)


def _by_row(
    entries: Entries, ks: Sequence[int], weights: NDArray[np.float64] | None
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return what the ranking of each row gains and the most it could, for each measure: the ratio of their sums."""
    n_rows = entries.n_rows
    ranks = _places_in_rows(entries.given_rows)
    found: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for k in ks:
        hits = entries.is_hit & (ranks < k)
        found[f"P@{k}"] = np.bincount(entries.given_rows[hits], minlength=n_rows) / k, np.ones(n_rows)
    if weights is not None:
        given, true = weights[entries.given_labels], weights[entries.true_labels]
        rarest = np.lexsort((-true, entries.true_rows))
        rows, places = entries.true_rows[rarest], _places_in_rows(entries.true_rows[rarest])
        for k in ks:
            hits, best = entries.is_hit & (ranks < k), places < k
            gains = np.bincount(entries.given_rows[hits], given[hits], n_rows).astype(np.float64)
            found[f"PSP@{k}"] = gains, np.bincount(rows[best], true[rarest][best], n_rows).astype(np.float64)
    return found


def _places_in_rows(row_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many entries of the same row come before each; rows are rising."""
    return np.arange(len(row_ids)) - np.searchsorted(row_ids, row_ids)


def _rounded(measures: dict[str, Interval]) -> dict[str, dict[str, float]]:
    return {name: {key: round(x, 4) for key, x in found._asdict().items()} for name, found in measures.items()}


def _groups(counts: NDArray[Any], table: LabelTable, edges: Sequence[int]) -> list[_Group]:
    if counts.shape != table.n_rows.shape:
        raise ValueError(
            f"label_counts must have one number for each of {len(table.n_rows)} labels, got {counts.shape}"
        )
    if list(edges) != sorted(set(edges)) or not edges:
        raise ValueError(f"edges must be rising numbers, got {edges!r}")

    def all_groups() -> Iterator[_Group]:
        yield _Group(0, None, np.ones(len(counts), dtype=np.bool_))
        for least, most in zip(edges, [*(edge - 1 for edge in edges[1:]), None], strict=True):
            yield _Group(int(least), most, (counts >= least) & (counts <= (np.inf if most is None else most)))

    return list(all_groups())


def _measured(table: LabelTable, groups: list[_Group]) -> NDArray[np.float64]:
    """Return the mean of each measure (columns) over the labels of each group (rows) that occur; 0 without any."""
    by_label = np.stack([getattr(table, name) for name in MEASURES])
    found = np.zeros((len(groups), len(MEASURES)))
    for i, group in enumerate(groups):
        inside = group.members & table.occurs
        if inside.any():
            found[i] = 100 * by_label[:, inside].mean(axis=1)
    return found


def _drawn(random: np.random.Generator, n_rows: int) -> NDArray[np.int64]:
    """Return how often each row is drawn."""
    return np.bincount(random.integers(0, n_rows, n_rows), minlength=n_rows)


def _cell(found: Interval) -> str:
    return f"{found.value:.1f} ± {(found.high - found.low) / 2:.1f}"
