"""How the parts of a model that are fitted on their own are stored: as their class declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail._part import Part
from longtail._rules import Words, check_params
from longtail.saving.parts import Expected, Parts, Storage, check_keys


def take_apart(part: Part[Any]) -> Parts:
    """Collect parameters and fitted state."""
    public = part._whole().public
    arrays, scalars, models, names = ({name: public[name] for name in found} for found in part._State.declared())
    params = {name: list(value) if Words().accepts(value) else value for name, value in part.params().items()}
    return Parts(params, scalars, arrays, names, models)


def expect(cls: type[Part[Any]], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Check the scalars and return what else the class needs."""
    declared = cls._State.declared()
    fitted = {**cls._absent_fitted, **fitted}
    check_keys(f'{owner}: "fitted"', fitted, declared.scalars)
    check_params(f'{owner}: "fitted"', fitted, declared.scalars)
    return Expected(declared.arrays, frozenset(declared.names), models=declared.models)


def put_together(cls: type[Part[Any]], parts: Parts) -> Part[Any]:
    """Make the part and set its fitted state, which checks itself."""
    parameters = {**cls._absent, **parts.parameters}  # older models lack what came later
    check_keys(f'"parameters" of {cls.__name__}', parameters, cls._rules)
    part = cls(**parameters)
    part.check_params()
    state = part._build({**cls._absent_fitted, **parts.fitted, **parts.arrays, **parts.names, **parts.models})
    state.check_whole()
    part._fitted = state
    return part


STORAGE = Storage(take_apart, expect, put_together)
