"""The number of the format, and how older manifests are upgraded.

A change of the format takes a new number here, a function that turns the old manifest into the new one, a stored model
of the old format in tests/models, and a line in docs/format.md, all in one change.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from longtail._array_files.specs import shown

# Tells models from other directories of arrays.
KIND = "model"
FORMAT = 3


def _row_scaling_in_the_model(meta: dict[str, Any]) -> dict[str, Any]:
    """Format 2: an estimator records whether rows are scaled, and the instruction set that trained it."""
    fitted, parameters = meta.get("fitted"), meta.get("parameters")
    if not isinstance(fitted, dict) or not isinstance(parameters, dict) or "n_features_in_" not in fitted:
        return meta  # a Tagger or a part of one
    unit_rows = parameters.get("unit_rows", False)
    added = {"unit_rows_": unit_rows, "instruction_set_": "unknown"}
    return meta | {"fitted": fitted | added, "parameters": _with_unit_rows(parameters)}


def _without_curves(meta: dict[str, Any]) -> dict[str, Any]:
    """Format 2: calibrations know how frequent a label is. Older ones did not; the tagger must be calibrated again."""
    models = meta.get("models")
    if meta.get("class") != "Tagger" or not isinstance(models, list):
        return meta
    return meta | {"models": [name for name in models if name != "calibration_"]}


def _with_unit_rows(parameters: dict[str, Any]) -> dict[str, Any]:
    inner = {
        name: value | {"parameters": _with_unit_rows(value["parameters"])}
        for name, value in parameters.items()
        if isinstance(value, dict) and isinstance(value.get("parameters"), dict)
    }
    return {"unit_rows": False} | parameters | inner


# UPGRADES[n] takes a manifest of format n and returns one of format n + 1.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda meta: _without_curves(_row_scaling_in_the_model(meta)),
    2: lambda meta: meta,  # int8 weights of DiSMEC: no exact ones are also allowed
}


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
    if found == 1 and meta.get("class") == "Tagger" and "calibration_" in (meta.get("models") or ()):
        warnings.warn(
            f"{owner}: was calibrated by longtail {shown(meta.get('longtail'))}, whose probabilities are no longer "
            "supported; the model ranks as before, call calibrate(texts, labels) to get probabilities again",
            stacklevel=2,
        )
    for number in range(found, FORMAT):
        meta = {**UPGRADES[number](meta), "format": number + 1}
    return meta
