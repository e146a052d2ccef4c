"""The systems that a bench can run: our estimators by name, and other libraries from a folder of adapters."""

from __future__ import annotations

import difflib
import functools
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from longtail.saving.registry import HOMES, check_names


@dataclass(frozen=True)
class System:
    """One row of a comparison.

    Attributes
    ----------
    name : str
        Name in a matrix and in the results.
    title : str
        Name in tables.
    params : dict
        Passed to the adapter; for our systems the estimator's name and parameters.
    extras : dict
        What a cell stores besides the usual measurements (`extras.py`); only for our systems.
    adapter, adapters : str or None, Path or None
        For a peer: its name in ``SYSTEMS`` of the file `adapters`.
    interpreter : callable or None
        Returns the Python that has the peer's library; RuntimeError if there is none.
    """

    name: str
    title: str
    params: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    adapter: str | None = None
    adapters: Path | None = None
    interpreter: Callable[[], Path] | None = None


Peers = Mapping[str, System]


def _ours(name: str, estimator: str, **params: Any) -> System:
    return System(name, name, {"estimator": estimator, **params})


OURS = {
    system.name: system
    for system in (
        _ours("DiSMEC", "DiSMEC"),
        _ours("DiSMEC int8", "DiSMEC", weight_type="int8"),
        _ours("LabelTree", "LabelTree"),
        _ours("FastXML", "FastXML"),
        _ours("PfastXML", "PfastXML"),
        _ours("PfastreXML", "PfastreXML"),
        _ours("GBDTSparse", "GBDTSparse"),
        _ours("LEML", "LEML"),
        _ours("Popularity", "Popularity"),
    )
}


def load_peers(folder: Path) -> dict[str, System]:
    """Load the adapters of other libraries from a folder such as benchmarks/peers in the source repository.

    ``adapters.py`` has ``SYSTEMS``, a dict from names to adapter classes; ``environments.py`` has
    ``interpreter(package)``, which returns the Python to run an adapter with.
    """
    adapters, environments = (_load_module(folder / f"{name}.py") for name in ("adapters", "environments"))
    return {
        name: System(
            name,
            adapter.title,
            adapter=name,
            adapters=(folder / "adapters.py").absolute(),
            interpreter=functools.partial(environments.interpreter, adapter.packages[0]),
        )
        for name, adapter in adapters.SYSTEMS.items()
    }


def _load_module(path: Path) -> ModuleType:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; peers need adapters.py and environments.py")
    spec = importlib.util.spec_from_file_location(f"longtail_peers_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"bench: {path} must be a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find_system(name: str, peers: Peers) -> System:
    """Return a system by name: one of `OURS`, any estimator, or a peer."""
    known = OURS | dict(peers)
    if name in known:
        return known[name]
    if name in HOMES and HOMES[name].kind == "estimator":
        return _ours(name, name)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else "" if peers else "; --peers adds other libraries"
    raise ValueError(f"bench: a system must be one of {', '.join(known)}, got {name!r}{hint}")


def make_system(name: str, table: dict[str, Any], peers: Peers) -> System:
    """Make a system from a table of the matrix: estimator or peer, params, title."""
    if not isinstance(table, dict):
        raise TypeError(f"bench: system {name!r} must be a table with estimator or peer, got {table!r}")
    unknown = sorted(set(table) - {"estimator", "peer", "params", "title"})
    if unknown or ("estimator" in table) == ("peer" in table):
        raise ValueError(
            f"bench: system {name!r} takes either estimator or peer, and params and title; got {', '.join(table)}"
        )
    params = table.get("params", {})
    if not isinstance(params, dict):
        raise TypeError(f"bench: system {name!r}: params must be a table, got {params!r}")
    title = " ".join(str(table.get("title", name)).split())
    if "estimator" in table:
        # Checked before anything runs, not hours later. A peer's parameters are known to the peer only.
        check_names(str(table["estimator"]), params)
        return System(name, title, {"estimator": str(table["estimator"]), **params})
    if table["peer"] not in peers:
        known = f"one of {', '.join(peers)}" if peers else "in the folder that --peers names"
        raise ValueError(f"bench: system {name!r}: peer must be {known}, got {table['peer']!r}")
    return replace(peers[table["peer"]], name=name, title=title, params=params)
