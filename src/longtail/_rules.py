"""Rules for parameters: written once beside the parameter, checked in one place, one shape of message.

``FastXML: n_trees must be an int >= 1, got 0``
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from numbers import Real as RealNumber
from typing import Protocol, TypeGuard


class Rule(Protocol):
    """One way in which a value may be right; `text` completes the sentence "must be …"."""

    @property
    def text(self) -> str: ...

    def accepts(self, value: object) -> bool: ...


@dataclass(frozen=True)
class Int:
    """A whole number within [min, max]; booleans are not numbers."""

    min: int | None = None
    max: int | None = None

    @property
    def text(self) -> str:
        if self.min is not None and self.min == self.max:
            return str(self.min)
        return "an int" + _range_text(self.min, self.max, above=False)

    def accepts(self, value: object) -> bool:
        if not _is_int(value):
            return False
        return (self.min is None or int(value) >= self.min) and (self.max is None or int(value) <= self.max)


@dataclass(frozen=True)
class Real:
    """A finite number within [min, max], or (min, max] when `above` is set."""

    min: float | None = None
    max: float | None = None
    above: bool = False

    @property
    def text(self) -> str:
        return "a number" + _range_text(self.min, self.max, above=self.above)

    def accepts(self, value: object) -> bool:
        if not _is_real(value) or not math.isfinite(value):
            return False
        if self.min is not None and (value < self.min or (self.above and value == self.min)):
            return False
        return self.max is None or value <= self.max


@dataclass(frozen=True, init=False)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)

    @property
    def text(self) -> str:
        return "one of " + ", ".join(repr(word) for word in self.words)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words


@dataclass(frozen=True)
class Bool:
    """True or False."""

    text: str = "True or False"

    def accepts(self, value: object) -> bool:
        return type(value).__name__ in ("bool", "bool_")  # the second is NumPy 1's


@dataclass(frozen=True)
class Text:
    """Any string."""

    text: str = "a str"

    def accepts(self, value: object) -> bool:
        return isinstance(value, str)


@dataclass(frozen=True)
class Words:
    """A list of words."""

    text: str = "a list of str"

    def accepts(self, value: object) -> bool:
        return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


@dataclass(frozen=True)
class Numbers:
    """An object of names and finite numbers, such as measures."""

    text: str = "an object of at most 1000 numbers"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, dict)
            and len(value) <= 1000
            and all(isinstance(name, str) and Real().accepts(number) for name, number in value.items())
        )


@dataclass(frozen=True)
class DataNote:
    """What a model was measured on: the name of the data, if it has one, and its rows."""

    text: str = 'an object with "data" (a text or null) and "n_rows"'

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() == {"data", "n_rows"}
            and (value["data"] is None or isinstance(value["data"], str))
            and Int(1).accepts(value["n_rows"])
        )


@dataclass(frozen=True)
class Nothing:
    """None."""

    text: str = "None"

    def accepts(self, value: object) -> bool:
        return value is None


@dataclass(frozen=True)
class Instance:
    """An object of a class, named for the message; the class is looked up by name to keep imports light."""

    class_name: str

    @property
    def text(self) -> str:
        return f"a {self.class_name}"

    def accepts(self, value: object) -> bool:
        return any(base.__name__ == self.class_name for base in type(value).__mro__)


N_JOBS: tuple[Rule, ...] = (Nothing(), Int(1), Int(-1, -1))
# Classes of rules, to tell them from other annotations of a parameter.
KINDS = (Int, Real, Choice, Bool, Text, Words, Nothing, Instance)
SEED: tuple[Rule, ...] = (Int(0, 2**63 - 1),)


def check_value(owner: str, name: str, value: object, rules: tuple[Rule, ...]) -> None:
    """Raise unless one of the rules accepts the value."""
    if any(rule.accepts(value) for rule in rules):
        return
    texts = [rule.text for rule in rules]
    if isinstance(value, float) and not math.isfinite(value):
        texts = [text.replace("a number", "a finite number") for text in texts]
    message = f"{owner}: {name} must be {' or '.join(texts)}, got {value!r}"
    of_right_type = any(
        (isinstance(rule, Int) and _is_int(value))
        or (isinstance(rule, Real) and _is_real(value))
        or (isinstance(rule, Choice | Text) and isinstance(value, str))
        for rule in rules
    )
    raise ValueError(message) if of_right_type else TypeError(message)


def check_params(owner: str, params: Mapping[str, object], rules: Mapping[str, tuple[Rule, ...]]) -> None:
    """Check every parameter of an estimator against its rules; a parameter without a rule is a bug."""
    for name, value in params.items():
        check_value(owner, name, value, rules[name])


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, RealNumber) and not isinstance(value, bool)


def _range_text(low: float | None, high: float | None, *, above: bool) -> str:
    if low is not None and high is not None:
        if low == high:
            return f" equal to {low}"
        return f" in {'(' if above else '['}{low}, {high}]"
    if low is not None:
        return f" {'>' if above else '>='} {low}"
    if high is not None:
        return f" <= {high}"
    return ""
