"""Stored lines: read, append, and sum up repetitions."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Summary:
    """The repetitions of one cell; medians of what was measured.

    Attributes
    ----------
    lines : list of dict
        The newest line of each repetition that ended well.
    failed : str or None
        The reason, when there is no such line.
    first : dict
        A line that names data set, system and threads.
    """

    lines: list[dict[str, Any]]
    failed: str | None
    first: dict[str, Any]

    def median(self, name: str) -> float | None:
        values = [float(line[name]) for line in self.lines if name in line]
        return statistics.median(values) if values else None

    def spread(self, name: str) -> tuple[float, float] | None:
        """Return the least and the greatest value, if there are several."""
        values = [float(line[name]) for line in self.lines if name in line]
        return (min(values), max(values)) if len(values) > 1 else None


def read_results(path: Path) -> list[dict[str, Any]]:
    """Read stored lines; none if there is no file yet."""
    lines = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], start=1):
        try:
            line = json.loads(text)
        except ValueError:
            raise ValueError(f"{path}, line {number}: not JSON; remove it, and its cell runs again") from None
        if not isinstance(line, dict) or "dataset" not in line or "system" not in line:
            raise ValueError(f"{path}, line {number}: not a result of longtail bench")
        lines.append(line)
    return lines


def append_result(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def summarise(lines: list[dict[str, Any]]) -> list[Summary]:
    """Sum up the repetitions of each (data set, system, threads), in the order in which they first occur.

    Of lines with other parameters or data than the newest one of their cell, none counts.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["system"], line["threads"]), []).append(line)
    summaries = []
    for group in groups.values():
        newest = group[-1]
        same = [line for line in group if (line["params"], line["data"]) == (newest["params"], newest["data"])]
        repetitions = {line["repetition"]: line for line in same}
        good = [line for line in repetitions.values() if "failed" not in line]
        failed = None if good else str(newest.get("failed"))
        summaries.append(Summary(good, failed, newest))
    return summaries
