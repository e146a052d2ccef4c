"""Published numbers beside ours: means over seeds, differences, and which of them are more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from longtail.bench.matrix import key_of
from longtail.reproduce.paper import Block, Figure, Item, Row, cells_of

Lines = Mapping[str, dict[str, Any]]
_COSTS = ("_seconds", "_mb", "root_")  # of another machine, or not on the scale of the paper's: never marked
_N_DEVIATIONS = 2.0


@dataclass(frozen=True)
class Measured:
    """Our value of one metric of one row.

    Attributes
    ----------
    metric : str
    published : Figure or None
    value, deviation : float or None
        Mean and standard deviation over the seeds that have a result; no deviation for one seed.
    n_seeds : int
    difference : float or None
        Ours minus the paper's, where both are about the same data.
    noise : float or None
        Two standard deviations of that difference.
    """

    metric: str
    published: Figure | None
    value: float | None = None
    deviation: float | None = None
    n_seeds: int = 0
    difference: float | None = None
    noise: float | None = None

    @property
    def is_marked(self) -> bool:
        """Whether the difference is more than noise."""
        return self.difference is not None and self.noise is not None and abs(self.difference) > self.noise


def by_key(lines: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Index stored results by their cell; the newest counts."""
    return {key_of(line): line for line in lines}


def compare_row(item: Item, block: Block, row: Row, lines: Lines) -> list[Measured]:
    """Return ours beside the paper's for each metric of a row."""
    found = good_lines(item, block, row, lines)
    published = row.published or (None,) * len(item.metrics)
    return [
        _measure(metric, figure, found, same_data=not block.stands_for)
        for metric, figure in zip(item.metrics, published, strict=True)
    ]


def good_lines(item: Item, block: Block, row: Row, lines: Lines) -> list[dict[str, Any]]:
    """Return the results of a row's cells that ended well."""
    found = [lines[cell.key()] for cell in cells_of(item, block, row) if cell.key() in lines]
    return [line for line in found if "failed" not in line]


def failure(item: Item, block: Block, row: Row, lines: Lines) -> str:
    """Return why a row has no value: the reason of a failed cell, or nothing."""
    if row.declared.system is None:
        return row.declared.why_not or "not run"
    found = [lines[cell.key()] for cell in cells_of(item, block, row) if cell.key() in lines]
    if found and all("failed" in line for line in found):
        return f"failed: {found[-1]['failed']}"
    return "" if found else "not run"


def value_of(line: Mapping[str, Any], metric: str) -> float | None:
    """Return a measurement of a line; of an attribute that is a matrix, the mean of its last column."""
    value = line.get(metric, line.get("attributes", {}).get(metric))
    if isinstance(value, list):
        return statistics.fmean(float(part[-1]) for part in value) if value and value[0] else None
    return None if value is None else float(value)


def is_cost(metric: str) -> bool:
    """Tell times and sizes from measures of accuracy."""
    return any(part in metric for part in _COSTS)


def _measure(metric: str, published: Figure | None, lines: list[dict[str, Any]], *, same_data: bool) -> Measured:
    values = [value for line in lines if (value := value_of(line, metric)) is not None]
    if not values:
        return Measured(metric, published)
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    measured = Measured(metric, published, mean, deviation, len(values))
    if published is None or not same_data or is_cost(metric):
        return measured
    noise = _noise(published, mean, deviation, len(values), int(lines[0].get("n_test_rows", 0)), metric)
    return Measured(metric, published, mean, deviation, len(values), mean - published.value, noise)


def _noise(
    published: Figure, mean: float, deviation: float | None, n_seeds: int, n_test_rows: int, metric: str
) -> float | None:
    """Return two standard deviations of the difference.

    The paper's part is its deviation over splits; where it gives none, the standard error of a share over the test
    rows. Ours is the standard error of the mean over the seeds.
    """
    theirs = published.deviation
    if theirs is None:
        if "@" not in metric and not metric.startswith("binary_"):
            return None
        share = min(max(mean / 100, 0.0), 1.0)
        theirs = 100 * math.sqrt(share * (1 - share) / max(n_test_rows, 1))
    ours = 0.0 if deviation is None else deviation / math.sqrt(n_seeds)
    return _N_DEVIATIONS * math.hypot(theirs, ours)
