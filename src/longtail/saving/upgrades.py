"""The format's number, and how older models become models of today.

A change of the format is a new number here, a function that turns the old manifest into the new one, a stored model
of the old format in tests/models, and a line in docs/format.md: all in one change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from longtail._array_files.specs import shown

# Tells models from other directories of arrays.
KIND = "model"
FORMAT = 1
# UPGRADES[n] takes a manifest of format n and returns one of format n + 1.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}


def upgrade(owner: str, meta: dict[str, Any]) -> dict[str, Any]:
    """Return ``meta`` in today's format."""
    if meta.get("kind") != KIND:
        raise ValueError(f"{owner}: not a model: kind must be {KIND!r}, got {shown(meta.get('kind'))}")
    found = meta.get("format")
    if type(found) is not int or found < 1:
        raise ValueError(f"{owner}: format must be a whole number >= 1, got {shown(found)}")
    if found > FORMAT:
        raise ValueError(
            f"{owner}: written in format {found} by longtail {shown(meta.get('longtail'))}, "
            f"but this longtail reads up to format {FORMAT}; upgrade longtail"
        )
    for number in range(found, FORMAT):
        meta = {**UPGRADES[number](meta), "format": number + 1}
    return meta
