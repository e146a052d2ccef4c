"""The declared matrix: data sets × systems × threads, read from a TOML file.

[defaults]                      # settings that a run does not override
threads = [1]
repetitions = 3
limit_seconds = 400

[data."EURLex-4K"]              # files as `longtail train` takes them; or sample = true; or synthetic = {…}
train = "eurlex/eurlex_train.txt.gz"
test = "eurlex/eurlex_test.txt.gz"
unit_rows = true

[systems."FastXML 10"]          # only for systems that are not known by name (systems.py)
estimator = "FastXML"
params = { n_trees = 10 }

[[runs]]                        # most important first
data = ["EURLex-4K"]
systems = ["DiSMEC", "FastXML 10"]
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from longtail._rules import Bool, Int, Real, Rule, Text, check_params
from longtail.bench.systems import OURS, Peers, System, find_system, make_system
from longtail.datasets import make_synthetic

_RULES: dict[str, tuple[Rule, ...]] = {
    "repetitions": (Int(1),),
    "limit_seconds": (Real(0, above=True),),
    "warm_ups": (Int(0),),
}
_DATA_RULES: dict[str, tuple[Rule, ...]] = {
    "train": (Text(),),
    "test": (Text(),),
    "unit_rows": (Bool(),),
    "dense": (Bool(),),
    "sample": (Bool(),),
    "max_rows": (Int(0),),
    "max_test_rows": (Int(0),),
    "sample_labels": (Int(0),),
}


@dataclass(frozen=True)
class Data:
    """A data set: two files, the shipped sample, or synthetic rows.

    Attributes
    ----------
    name : str
    train, test : str
        Files; relative ones lie in the data folder.
    unit_rows : bool
        Scale rows to length 1 (texts always are).
    as_is : list of str
        Systems that get the rows as they are all the same.
    dense : bool
        Give our systems a dense array.
    sample : bool
        Take the shipped sample instead of files.
    synthetic : dict
        Parameters of `make_synthetic`; a tenth of the rows are for testing.
    max_rows : int
        Use only the first rows of both parts; 0: all.
    max_test_rows : int
        Use only the first rows to test on; 0: all.
    sample_labels : int
        Train and test on a random sample of so many labels, the same in every run; 0: all.
    missing : dict
        ``{"a": 0.55, "b": 1.5, "seed": 0}``: each training label is kept with the propensity of its label only, as
        in figure 3 of the PfastreXML paper; the test part stays complete.
    """

    name: str
    train: str = ""
    test: str = ""
    unit_rows: bool = False
    as_is: list[str] = field(default_factory=list)
    dense: bool = False
    sample: bool = False
    synthetic: dict[str, Any] = field(default_factory=dict)
    max_rows: int = 0
    max_test_rows: int = 0
    sample_labels: int = 0
    missing: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owner = f"bench: data {self.name!r}"
        check_params(owner, {name: getattr(self, name) for name in _DATA_RULES}, _DATA_RULES)
        _names(f"{owner}: as_is", self.as_is)
        _known(f"{owner}: synthetic", self.synthetic, set(inspect.signature(make_synthetic).parameters))
        _known(f"{owner}: missing", self.missing, {"a", "b", "seed"})
        if bool(self.train and self.test) + self.sample + bool(self.synthetic) != 1:
            raise ValueError(f"bench: data {self.name!r} needs train and test, or sample = true, or synthetic")

    def for_system(self, system: System) -> Data:
        """Return the data as this system gets it."""
        return replace(self, unit_rows=self.unit_rows and system.name not in self.as_is, as_is=[])


@dataclass(frozen=True)
class Cell:
    """One measurement: a system on a data set, with a number of threads and a repetition number."""

    data: Data
    system: System
    threads: int = 1
    repetition: int = 0
    limit_seconds: float = 400.0
    warm_ups: int = 1

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify this cell in the results."""
        data = {key: value for key, value in asdict(self.data).items() if value and key != "name"}
        extras = {"extras_asked": self.system.extras} if self.system.extras else {}
        return {
            "dataset": self.data.name,
            "data": data,
            "system": self.system.name,
            "title": self.system.title,
            "ours": self.system.adapter is None,
            "params": self.system.params,
            "threads": self.threads,
            "repetition": self.repetition,
            **extras,
        }

    def key(self) -> str:
        return key_of(self.identity())


def key_of(record: dict[str, Any]) -> str:
    """Return the key of a finished cell; a changed parameter or file name makes a different cell."""
    parts = [record.get(name) for name in ("dataset", "data", "system", "params", "threads", "repetition")]
    extras = record.get("extras_asked")  # no part of the key without them: older results stay valid
    return json.dumps([*parts, extras] if extras else parts, sort_keys=True)


def read_matrix(path: Path, peers: Peers | None = None) -> list[Cell]:
    """Read a matrix and list its cells: everything once, in the order written, then the repetitions."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not TOML: {error}") from None
    try:
        return _cells(table, peers or {})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def make_matrix(
    data: Data,
    systems: Iterable[str] = (),
    threads: Sequence[int] = (1,),
    repetitions: int = 1,
    limit_seconds: float = 400,
    peers: Peers | None = None,
) -> list[Cell]:
    """List the cells of one data set; without names, all our systems take part."""
    table: dict[str, Any] = {"threads": list(threads), "repetitions": repetitions, "limit_seconds": limit_seconds}
    return _in_order(_run_cells(table, [data], [find_system(name, peers or {}) for name in systems or OURS]))


def _cells(table: dict[str, Any], peers: Peers) -> list[Cell]:
    _known("the matrix", table, {"defaults", "data", "systems", "runs"})
    _known("defaults", table.get("defaults", {}), {"threads", *_RULES})
    sets = {}
    for name, entry in _table("data", table).items():
        _known(f"data {name!r}", entry, set(Data.__dataclass_fields__) - {"name"})
        sets[name] = Data(name=name, **entry)
    systems = {name: make_system(name, entry, peers) for name, entry in _table("systems", table).items()}
    runs = table.get("runs", [])
    if not isinstance(runs, list):
        raise TypeError(f"runs must be a list of tables: write [[runs]], not [runs]; got {runs!r}")
    cells = []
    for run in runs:
        _known("a run", run, {"data", "systems", "threads", *_RULES})
        for name in ("data", "systems"):
            _names(f"{name} of a run", run.get(name, []))
        missing = [name for name in run.get("data", []) if name not in sets]
        if missing or not run.get("data") or not run.get("systems"):
            raise ValueError(f"a run needs data (of {', '.join(sets)}) and systems, got {run}")
        chosen = [systems.get(name) or find_system(name, peers) for name in run["systems"]]
        cells += _run_cells(table.get("defaults", {}) | run, [sets[name] for name in run["data"]], chosen)
    if not cells:
        raise ValueError("there is no run: add [[runs]] with data and systems")
    _check_as_is(sets.values(), set(systems) | set(OURS) | set(peers))
    return _in_order(cells)


def _check_as_is(sets: Iterable[Data], names: set[str]) -> None:
    """Refuse unknown names: the intended system would silently get scaled rows."""
    for data in sets:
        unknown = [name for name in data.as_is if name not in names]
        if unknown:
            raise ValueError(f"data {data.name!r}: as_is must name systems of the runs, got {unknown[0]!r}")


def _run_cells(run: dict[str, Any], sets: list[Data], systems: list[System]) -> list[Cell]:
    settings: dict[str, Any] = {"repetitions": 1, "limit_seconds": 400.0, "warm_ups": 1}
    settings |= {name: run[name] for name in settings if name in run}
    check_params("bench", settings, _RULES)
    repetitions = int(settings.pop("repetitions"))
    threads = run.get("threads", [1])
    if not isinstance(threads, list) or not threads or not all(type(n) is int and n >= 1 for n in threads):
        raise ValueError(f"threads must be a list of ints >= 1, got {threads!r}")
    return [
        Cell(data.for_system(system), system, count, repetition, **settings)
        for repetition in range(repetitions)
        for count in threads
        for data in sets
        for system in systems
    ]


def _in_order(cells: list[Cell]) -> list[Cell]:
    # Everything once before anything twice, so that a run that is stopped early covers all systems.
    distinct = {cell.key(): cell for cell in reversed(cells)}
    order = {cell.key(): place for place, cell in reversed(list(enumerate(cells)))}
    return sorted(distinct.values(), key=lambda cell: (cell.repetition, order[cell.key()]))


def _table(name: str, matrix: dict[str, Any]) -> dict[str, Any]:
    table = matrix.get(name, {})
    if not isinstance(table, dict):
        raise TypeError(f"{name} must be tables [{name}.NAME], got {table!r}")
    return table


def _names(owner: str, names: Any) -> None:
    """Refuse a plain string, which would be iterated letter by letter."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f'{owner} must be a list of names, such as ["DiSMEC"], got {names!r}')


def _known(owner: str, table: Any, names: set[str]) -> None:
    if not isinstance(table, dict):
        raise TypeError(f"{owner} must be a table, got {table!r}")
    unknown = sorted(set(table) - names)
    if unknown:
        raise ValueError(f"{owner} has no {unknown[0]!r}; it takes {', '.join(sorted(names))}")
