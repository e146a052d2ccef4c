"""Stored lines: read, append, and sum up repetitions."""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What every line has, failed or not; and how the names of measurements end.
_KINDS: dict[str, type] = {
    "dataset": str,
    "data": dict,
    "system": str,
    "title": str,
    "ours": bool,
    "params": dict,
    "threads": int,
    "repetition": int,
}
_NUMBERS = ("_seconds", "_mb", "_per_row", "_single_row", "@1", "@3", "@5", "_rows", "_features", "_labels")


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
    try:
        texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a file of results: it is not UTF-8 text") from None
    lines = []
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            raise ValueError(f"{path}, line {number}: not JSON; remove it, and its cell runs again") from None
        reason = _defect(line)
        if reason:
            raise ValueError(f"{path}, line {number}: not a result of longtail bench ({reason}); remove it")
        lines.append(line)
    return lines


def _defect(line: Any) -> str:
    """Say what a line lacks that every result has; nothing when it is one."""
    if not isinstance(line, dict):
        return "not an object"
    for name, kind in _KINDS.items():
        if type(line.get(name)) is not kind:
            return f"{name} must be of type {kind.__name__}, got {line.get(name)!r}"
    for name, value in line.items():
        if name.endswith(_NUMBERS) and (isinstance(value, bool) or not isinstance(value, int | float)):
            return f"{name} must be a number, got {value!r}"
    return ""


def append_result(path: Path, record: dict[str, Any]) -> None:
    """Add a line, on a line of its own even where an editor took the end of the last one away."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record).encode() + b"\n")


def check_writable(path: Path) -> None:
    """Raise unless lines can be added: now, not after the first cell has run for an hour."""
    existed = path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("ab").close()
    if not existed:
        path.unlink()


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
