"""What a table or figure needs: its cells, the data that are missing, and the time it will take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longtail.bench.matrix import Cell
from longtail.reproduce.compare import Lines
from longtail.reproduce.paper import Block, Item, Paper, Row, cells_of

_UNKNOWN_SECONDS = 120.0  # for a cell without a declared or measured time


@dataclass(frozen=True)
class Plan:
    """What is left to do for an item.

    Attributes
    ----------
    cells : list of Cell
        All cells whose data are there, done or not.
    seconds : dict
        Estimated for each cell that is left, by its key, on one core.
    missing : list of str
        What to do about each data set that is not there.
    unavailable : list of str
        Parts that cannot be run, each with its reason.
    """

    cells: list[Cell]
    seconds: dict[str, float]
    missing: list[str]
    unavailable: list[str]

    @property
    def n_done(self) -> int:
        return len(self.cells) - len(self.seconds)

    @property
    def minutes(self) -> float:
        return sum(self.seconds.values()) / 60


def join_plans(plans: Iterable[Plan]) -> Plan:
    """Plan several items at once: each cell once, the cheapest first, so that a run cut short has the most rows."""
    cells: dict[str, Cell] = {}
    seconds: dict[str, float] = {}
    missing: list[str] = []
    unavailable: list[str] = []
    for plan in plans:
        cells |= {cell.key(): cell for cell in plan.cells}
        seconds |= plan.seconds
        missing += plan.missing
        unavailable += plan.unavailable
    ordered = sorted(cells.items(), key=lambda entry: seconds.get(entry[0], 0.0))
    return Plan([cell for _, cell in ordered], seconds, list(dict.fromkeys(missing)), list(dict.fromkeys(unavailable)))


def plan_item(item: Item, lines: Lines, folder: Path, *, limit_seconds: float = 3600.0) -> Plan:
    """Plan an item."""
    cells: dict[str, Cell] = {}
    seconds: dict[str, float] = {}
    missing: dict[str, str] = {}
    unavailable = [item.why_not] if item.why_not else []
    for block in item.blocks:
        if block.why_not:
            unavailable.append(f"{block.data_name}: {block.why_not}")
            continue
        if block.missing_files(folder):
            missing[block.data_name] = block.how_to_get(folder)
            continue
        for row in block.rows:
            if row.declared.system is None:
                unavailable.append(f"{row.declared.title}: {row.declared.why_not or row.declared.lacks}")
            for cell in cells_of(item, block, row, limit_seconds):
                if cell.key() in cells:
                    continue
                cells[cell.key()] = cell
                if cell.key() not in lines:
                    seconds[cell.key()] = estimate(block, row, lines)
    unavailable = list(dict.fromkeys(unavailable))
    return Plan(list(cells.values()), seconds, list(missing.values()), unavailable)


def estimate(block: Block, row: Row, lines: Lines) -> float:
    """Return the CPU seconds of a cell: as measured with another seed, else as declared."""
    system = row.declared.system
    if system is not None and block.data is not None:
        same = [
            line
            for line in lines.values()
            if line["dataset"] == block.data.name
            and line.get("data", {}).get("sample_labels", 0) == block.data.sample_labels
            and line["system"] == system.name
            and {key: value for key, value in line["params"].items() if key != "random_state"} == system.params
            and "train_cpu_seconds" in line
        ]
        if same:
            return float(same[-1]["train_cpu_seconds"]) + float(same[-1]["predict_cpu_seconds"]) + 5.0
    return row.declared.seconds.get(block.data_name, _UNKNOWN_SECONDS)


def check_names(papers: Iterable[Paper], data: Iterable[str], systems: Iterable[str]) -> None:
    """Refuse a data set or system that no declaration names."""
    items = [item for paper in papers for item in paper.items]
    sets = dict.fromkeys(block.data_name for item in items for block in item.blocks if block.data is not None)
    known = dict.fromkeys(row.declared.name for item in items for block in item.blocks for row in block.rows)
    for option, names, names_known in (("-d", data, sets), ("-s", systems, known)):
        for name in names:
            if name not in names_known:
                raise ValueError(f"reproduce: {option} must be one of {', '.join(names_known)}, got {name!r}")


def describe_item(paper: Paper, item: Item, lines: Lines, folder: Path) -> dict[str, Any]:
    """Describe an item for a list: what it needs, how long it takes, or why it cannot be."""
    plan = plan_item(item, lines, folder)
    sets = dict.fromkeys(block.data_name for block in item.blocks if block.data is not None)
    return {
        "paper": paper.key,
        "item": item.name,
        "caption": item.caption,
        "data": list(sets),
        "n_cells": len(plan.cells),
        "n_done": plan.n_done,
        "minutes": round(plan.minutes, 1),
        "missing": {block.data_name: block.how_to_get(folder) for block in item.blocks if block.missing_files(folder)},
        "unavailable": plan.unavailable,
    }
