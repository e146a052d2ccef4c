"""The closed table of classes that a model directory may name: nothing else is ever imported or called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from longtail import _names
from longtail._array_files.specs import shown
from longtail._base import XMCClassifier
from longtail._rules import Instance, check_params

Kind = Literal["estimator", "tagger", "part"]


class Home(NamedTuple):
    """Where a class is, and how it is stored."""

    module: str
    kind: Kind


_OTHERS: dict[str, Kind] = {"Tagger": "tagger", "Calibration": "part", "TextVectorizer": "part"}
HOMES = {name: Home(_names.HOMES[name], "estimator") for name in _names.ESTIMATORS} | {
    name: Home(_names.HOMES[name], kind) for name, kind in _OTHERS.items()
}
# What `longtail train` uses by default.
DEFAULT = "DiSMEC"


def find_class(owner: str, name: object) -> tuple[type[Any], Kind]:
    """Return the class that a manifest names."""
    home = HOMES.get(name) if isinstance(name, str) else None
    if home is None or not isinstance(name, str):
        raise ValueError(f"{owner}: class must be one of {', '.join(HOMES)}; got {shown(name)}")
    return getattr(importlib.import_module(home.module), name), home.kind


def name_of(model: object) -> str:
    """Return the name under which an object can be saved."""
    name = type(model).__name__
    if name not in HOMES or find_class("save", name)[0] is not type(model):
        raise TypeError(
            f"save: only longtail's own classes can be saved ({', '.join(HOMES)}), got {type(model).__qualname__}"
        )
    return name


def make_estimator(name: str | None = None, params: Mapping[str, Any] | None = None) -> XMCClassifier:
    """Make an estimator by name, for the command line.

    Parameters
    ----------
    name : str, optional
        As in Python: ``"Popularity"``; None takes the best there is.
    params : mapping, optional
        Its parameters; ``first__cost`` is a parameter of the estimator that is its parameter `first`.

    Examples
    --------
    >>> from longtail.saving import make_estimator
    >>> make_estimator("Popularity", {"n_jobs": 1})
    Popularity(n_jobs=1)
    """
    name = DEFAULT if name is None else _spelled(name)
    own = {key: value for key, value in (params or {}).items() if "__" not in key}
    made = check_names(name, own)
    made.set_params(**{key: _part(made, key, value) for key, value in own.items()})
    for key, value in (params or {}).items():
        part, _, inner = key.partition("__")
        if not inner:
            continue
        member = made.get_params(deep=False).get(part)
        if member is None or not hasattr(member, "get_params"):
            raise ValueError(f"{name}: {key} needs an estimator as {part}; name it: {part}=DiSMEC")
        check_names(type(member).__name__, {inner: value})
        member.set_params(**{inner: value})
        check_params(type(member).__name__, member.get_params(deep=False), member._rules)
    check_params(name, made.get_params(deep=False), made._rules)
    return made


def _spelled(name: str) -> str:
    """Return the name of an estimator as Python spells it, whatever its case."""
    names = [known for known, home in HOMES.items() if home.kind == "estimator" and known.lower() == name.lower()]
    return names[0] if len(names) == 1 else name


def _part(made: XMCClassifier, parameter: str, value: Any) -> Any:
    """Make the estimator that a name stands for, where the parameter takes an estimator."""
    takes_estimators = any(isinstance(rule, Instance) for rule in made._rules.get(parameter, ()))
    if not takes_estimators or not isinstance(value, str):
        return value
    try:
        return make_estimator(value)
    except ValueError as error:
        raise ValueError(f"{type(made).__name__}: {parameter}: {error}") from None


def check_names(name: str, params: Mapping[str, Any]) -> XMCClassifier:
    """Refuse an unknown estimator, or parameters that it has not; returns one with the defaults."""
    names = [known for known, home in HOMES.items() if home.kind == "estimator"]
    if name not in names:
        raise ValueError(f"estimator must be one of {', '.join(names)}; got {name!r}{_guess(name, names)}")
    made: XMCClassifier = find_class("make_estimator", name)[0]()
    known = list(made.get_params(deep=False))
    for parameter in params:
        if parameter not in known:
            hint = _guess(parameter, known)
            raise ValueError(f"{name} has no parameter {parameter!r}{hint}; it has {', '.join(known)}")
    return made


def _guess(word: str, words: list[str]) -> str:
    same = [known for known in words if known.lower() == word.lower()]
    close = same or difflib.get_close_matches(word, words, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
