"""The declarations of the papers' tables and figures: one TOML file per paper in `papers/`.

title, source, note             of the paper; the note says what differs for all of its tables

[systems.NAME]                  a system as the paper names it
estimator = "FastXML"           how we run it: params, none (parameters set to None), extras (bench/extras.py),
                                unit_rows (rows of length one; dense rows always stay as they are)
seconds = { Bibtex = 10 }       rough time of one cell on one core, until there is a measured one
deterministic = true            the seed changes nothing: one seed is enough
why_not = "…"                   instead of an estimator: why there is none

[[items]]                       a table or figure
table = "2"                     or figure = "1"
metrics = ["P@1", …]            the columns
seeds = 3                       models per cell
why_not = "…"                   instead of blocks: why it cannot be reproduced

[[items.blocks]]                one data set of it
data = "Bibtex"
stands_for = "Ads-430K"         the paper's data set, if it is another one: no differences are shown then
sample_labels = 500             a random sample of the labels, where a figure is about their distribution
rows.FastXML = [63.26, [39.19, 0.66], ""]   published value, value and standard deviation, or none, per metric
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from longtail.bench.extras import NAMES as EXTRAS
from longtail.bench.matrix import Cell, Data
from longtail.bench.systems import System
from longtail.saving.registry import check_names

FOLDER = Path(__file__).with_name("papers")
DRAWINGS = ("trees", "cost", "counts", "propensities", "curves", "incomplete", "missing", "tail", "course")
FROM_DATA = ("counts", "propensities", "curves")  # drawings that need no model


@dataclass(frozen=True)
class Figure:
    """A published number; the standard deviation is None where the paper gives none."""

    value: float
    deviation: float | None = None


@dataclass(frozen=True)
class Declared:
    """A system of a paper: how we run it, why nobody can, or what this version of longtail lacks for it."""

    name: str
    title: str
    system: System | None
    why_not: str = ""
    lacks: str = ""
    unit_rows: bool = False
    deterministic: bool = False
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A system in a block, with the published number of each metric (None where there is none)."""

    declared: Declared
    published: tuple[Figure | None, ...] = ()
    series: str = ""


@dataclass(frozen=True)
class Block:
    """The part of a table or figure that is about one data set."""

    data_name: str
    data: Data | None
    rows: tuple[Row, ...] = ()
    stands_for: str = ""
    why_not: str = ""
    origin: str = ""

    def missing_files(self, folder: Path) -> list[str]:
        """Return the files of the data set that are not in the folder."""
        if self.data is None:
            return []
        return [name for name in (self.data.train, self.data.test) if not (folder / name).exists()]

    def how_to_get(self, folder: Path) -> str:
        """Say where to get a missing data set and in which format to put it where."""
        names = " and ".join(self.missing_files(folder))
        return (
            f"{self.data_name} is missing: put {names} (XMC text, see docs/formats.md) into {folder.resolve()}, "
            f"which --data-folder or LONGTAIL_DATA names; get it from {self.origin}"
        )


@dataclass(frozen=True)
class Item:
    """A table or figure."""

    kind: str
    number: str
    caption: str
    note: str = ""
    why_not: str = ""
    metrics: tuple[str, ...] = ()
    seeds: int = 1
    draw: str = ""
    panels: tuple[str, ...] = ()
    ratio_to: str = ""
    blocks: tuple[Block, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    def with_seeds(self, seeds: int) -> Item:
        return replace(self, seeds=seeds)

    def only(self, data: Collection[str], systems: Collection[str]) -> Item:
        """Return the part about some data sets and systems; no names mean all. Drawings of data have no system."""
        blocks = [block for block in self.blocks if not data or block.data_name in data]
        if systems and self.draw not in FROM_DATA:
            kept = [tuple(row for row in block.rows if row.declared.name in systems) for block in blocks]
            blocks = [replace(block, rows=rows) for block, rows in zip(blocks, kept, strict=True) if rows]
        return replace(self, blocks=tuple(blocks))


@dataclass(frozen=True)
class Paper:
    """A paper and what it measures."""

    key: str
    title: str
    source: str
    note: str
    items: tuple[Item, ...]

    def find(self, kind: str, number: str) -> Item:
        """Return a table or figure by its number."""
        for item in self.items:
            if (item.kind, item.number) == (kind, number):
                return item
        known = ", ".join(item.number for item in self.items if item.kind == kind) or "none"
        raise ValueError(f"reproduce: {kind} of {self.key} must be one of {known}, got {number!r}")


def paper_keys() -> list[str]:
    """List the papers that are declared."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != "data")


@cache
def read_paper(key: str) -> Paper:
    """Read the declaration of a paper, such as "fastxml".

    Examples
    --------
    >>> from longtail.reproduce import read_paper
    >>> read_paper("fastxml").find("table", "2").metrics
    ('P@1', 'P@3', 'P@5')
    """
    if key not in paper_keys():
        close = difflib.get_close_matches(key, paper_keys(), n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise ValueError(f"reproduce: a paper must be one of {', '.join(paper_keys())}, got {key!r}{hint}")
    sets = tomllib.loads((FOLDER / "data.toml").read_text(encoding="utf-8"))
    table = tomllib.loads((FOLDER / f"{key}.toml").read_text(encoding="utf-8"))
    systems = {name: _system(name, entry) for name, entry in table.get("systems", {}).items()}
    items = tuple(_item(f"{key}.toml", entry, systems, sets) for entry in table["items"])
    return Paper(key, table["title"], table["source"], " ".join(table.get("note", "").split()), items)


def cells_of(item: Item, block: Block, row: Row, limit_seconds: float = 3600.0) -> list[Cell]:
    """List the cells of one row: one for each seed."""
    declared = row.declared
    if block.data is None or declared.system is None:
        return []
    data = replace(block.data, unit_rows=declared.unit_rows and not block.data.dense)
    return [
        Cell(
            data,
            replace(declared.system, params=declared.system.params | {"random_state": seed}),
            limit_seconds=limit_seconds,
        )
        for seed in range(1 if declared.deterministic else item.seeds)
    ]


def _system(name: str, entry: dict[str, Any]) -> Declared:
    _check(f"system {name!r}", entry, "estimator params none extras title unit_rows deterministic seconds why_not")
    title = str(entry.get("title", name))
    if "why_not" in entry:
        return Declared(name, title, None, str(entry["why_not"]))
    estimator = str(entry["estimator"])
    params = entry.get("params", {}) | dict.fromkeys(entry.get("none", []))
    try:
        check_names(estimator, params)
    except ValueError:
        asked = f"{estimator} with {', '.join(params)}" if params else estimator
        return Declared(name, title, None, lacks=f"this version of longtail has no {asked}")
    _check(f"extras of system {name!r}", entry.get("extras", {}), " ".join(EXTRAS))
    return Declared(
        name,
        title,
        System(name, title, {"estimator": estimator, **params}, entry.get("extras", {})),
        unit_rows=bool(entry.get("unit_rows", False)),
        deterministic=bool(entry.get("deterministic", False)),
        seconds=dict(entry.get("seconds", {})),
    )


def _item(owner: str, entry: dict[str, Any], systems: dict[str, Declared], sets: dict[str, Any]) -> Item:
    kind = "table" if "table" in entry else "figure"
    _check(f"{owner}: {kind}", entry, "table figure caption note why_not metrics seeds draw panels ratio_to blocks")
    draw = str(entry.get("draw", ""))
    if draw and draw not in DRAWINGS:
        raise ValueError(f"{owner}: draw must be one of {', '.join(DRAWINGS)}, got {draw!r}")
    metrics = tuple(entry.get("metrics", ()))
    return Item(
        kind,
        str(entry[kind]),
        str(entry["caption"]),
        str(entry.get("note", "")),
        str(entry.get("why_not", "")),
        metrics,
        int(entry.get("seeds", 1)),
        draw,
        tuple(entry.get("panels", ())),
        str(entry.get("ratio_to", "")),
        tuple(_block(owner, block, systems, sets, len(metrics)) for block in entry.get("blocks", ())),
    )


def _block(
    owner: str, entry: dict[str, Any], systems: dict[str, Declared], sets: dict[str, Any], n_metrics: int
) -> Block:
    _check(f"{owner}: block", entry, "data stands_for why_not rows systems series missing sample_labels")
    name = str(entry["data"])
    if "why_not" in entry:
        return Block(name, None, why_not=str(entry["why_not"]))
    known = dict(sets[name])
    origin = str(known.pop("origin"))
    rows = [Row(systems[system], _published(owner, system, values, n_metrics)) for system, values in
            entry.get("rows", {}).items()]  # fmt: skip
    rows += [Row(systems[system]) for system in entry.get("systems", ())]
    rows += [
        Row(systems[system], series=series) for series, names in entry.get("series", {}).items() for system in names
    ]
    data = Data(name, **known, missing=entry.get("missing", {}), sample_labels=int(entry.get("sample_labels", 0)))
    return Block(name, data, tuple(rows), str(entry.get("stands_for", "")), origin=origin)


def _published(owner: str, system: str, values: list[Any], n_metrics: int) -> tuple[Figure | None, ...]:
    if len(values) != n_metrics:
        raise ValueError(f"{owner}: {system} must have {n_metrics} figures, got {len(values)}")
    return tuple(
        None if value == "" else Figure(*map(float, value)) if isinstance(value, list) else Figure(float(value))
        for value in values
    )


def _check(owner: str, entry: dict[str, Any], names: str) -> None:
    unknown = sorted(set(entry) - set(names.split()))
    if unknown:
        raise ValueError(f"reproduce: {owner} has no {unknown[0]!r}; it takes {', '.join(names.split())}")
