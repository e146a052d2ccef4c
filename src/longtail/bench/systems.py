"""The systems that can take part: ours by estimator, peers by name."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from longtail.saving.registry import HOMES, check_names


@dataclass(frozen=True)
class System:
    """One column of a comparison.

    Attributes
    ----------
    name : str
        As a matrix and the results call it.
    title : str
        As tables call it.
    adapter : str
        Which class of `worker.py` runs it.
    params : dict
        What the adapter gets; for ours the estimator's name and parameters.
    environment : str or None
        Where a peer runs, see `environments.py`; None: here.
    """

    name: str
    title: str
    adapter: str = "longtail"
    params: dict[str, Any] = field(default_factory=dict)
    environment: str | None = None


def _ours(name: str, estimator: str, **params: Any) -> System:
    return System(name, name, params={"estimator": estimator, **params})


OURS = {
    system.name: system
    for system in (
        _ours("DiSMEC", "DiSMEC"),
        _ours("DiSMEC int8", "DiSMEC", weight_type="int8"),
        _ours("FastXML", "FastXML"),
        _ours("PfastXML", "PfastXML"),
        _ours("PfastreXML", "PfastreXML"),
        _ours("GBDTSparse", "GBDTSparse"),
        _ours("LEML", "LEML"),
        _ours("Popularity", "Popularity"),
    )
}
PEERS = {
    system.name: system
    for system in (
        System("parabel", "Omikuji Parabel", "parabel", environment="omikuji"),
        System("bonsai", "Omikuji Bonsai", "bonsai", environment="omikuji"),
        System("napkinxc-plt", "napkinXC PLT", "napkinxc-plt", environment="napkinxc"),
        System("napkinxc-ovr", "napkinXC one-vs-rest", "napkinxc-ovr", environment="napkinxc"),
        System("pecos-xrlinear", "PECOS XR-Linear", "pecos-xrlinear", environment="libpecos"),
        System("pecos-ovr", "PECOS one-vs-rest", "pecos-ovr", environment="libpecos"),
        System("sklearn-ovr", "scikit-learn one-vs-rest", "sklearn-ovr", environment="scikit-learn"),
        System("xgboost", "XGBoost multi-output", "xgboost", environment="xgboost"),
    )
}


def find_system(name: str) -> System:
    """Return a system of the catalogue; any estimator's name is one, too."""
    known = OURS | PEERS
    if name in known:
        return known[name]
    if name in HOMES and HOMES[name].kind == "estimator":
        return _ours(name, name)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise ValueError(f"bench: a system must be one of {', '.join(known)}, got {name!r}{hint}")


def make_system(name: str, table: dict[str, Any]) -> System:
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
        # Now, not when its turn comes hours later. What a peer takes only the peer knows.
        check_names(str(table["estimator"]), params)
        return System(name, title, params={"estimator": str(table["estimator"]), **params})
    if table["peer"] not in PEERS:
        raise ValueError(f"bench: system {name!r}: peer must be one of {', '.join(PEERS)}, got {table['peer']!r}")
    base = PEERS[table["peer"]]
    return System(name, title, base.adapter, base.params | params, base.environment)
