"""The names of utilities: what a ranking is to be good for."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["score", "balanced", "power", "row", "batch"]

UTILITIES = (
    "score",
    "balanced",
    "precision",
    "psp",
    "power:X",
    "macro-f1",
    "coverage",
    "macro-f1-by-row",
)
_POWER = "power:"
_MAX_POWER = 10.0


class Utility(NamedTuple):
    """A parsed utility.

    "score" keeps the order of the scores. "power" ranks by probability · weight^power with the inverse propensity as
    weight, "balanced" so with the greatest power that is as precise as the scores. "row" ranks by the rule that a
    calibration has learnt. "batch" chooses for all rows together, for `measure`.
    """

    kind: Kind
    power: float = 0.0
    measure: Literal["macro-f1", "coverage"] = "macro-f1"
    share: float = 1.0  # of what frequencies say about probabilities; less only for "balanced"


_KNOWN = {
    "score": Utility("score"),
    "balanced": Utility("balanced"),
    "precision": Utility("power", 0.0),
    "psp": Utility("power", 1.0),
    "macro-f1": Utility("batch", measure="macro-f1"),
    "coverage": Utility("batch", measure="coverage"),
    "macro-f1-by-row": Utility("row"),
}


def parse_utility(name: str) -> Utility:
    """Read the name of a utility.

    Examples
    --------
    >>> from longtail.decisions import parse_utility
    >>> parse_utility("power:0.5").power
    0.5
    """
    if isinstance(name, str) and name in _KNOWN:
        return _KNOWN[name]
    if isinstance(name, str) and name.startswith(_POWER):
        try:
            power = float(name.removeprefix(_POWER))
        except ValueError:
            power = -1.0
        if 0 <= power <= _MAX_POWER:
            return Utility("power", power)
        raise ValueError(f"utility: the power must be a number from 0 to {_MAX_POWER:g}, got {name!r}; try 'power:0.5'")
    raise ValueError(f"utility must be one of {', '.join(UTILITIES)}; got {name!r}")
