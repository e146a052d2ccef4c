"""What an object is made of on disk, and what must be there to put it together again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from longtail._array_files import ArraySpec, Verification
from longtail._array_files.specs import shown
from longtail._rules import Nothing, Rule


@dataclass
class Parts:
    """An object, taken apart into what the format can hold."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    fitted: Mapping[str, Any] = field(default_factory=dict)
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    models: dict[str, Any] = field(default_factory=dict)
    verification: Verification | None = None  # of the directory that they come from


@dataclass(frozen=True)
class Expected:
    """The arrays, names and models that a directory must hold, once its class and scalars are known."""

    arrays: Mapping[str, ArraySpec] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    optional_names: frozenset[str] = frozenset()
    models: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    def check_members(self, owner: str, names: Collection[str], models: Collection[str]) -> None:
        """Refuse what is missing or not known; the arrays' reader does so for arrays."""
        check_keys(f'{owner}: "names"', names, self.names, self.optional_names)
        optional = {name for name, rules in self.models.items() if Nothing() in rules}
        check_keys(f'{owner}: "models"', models, self.models.keys() - optional, optional)


class Storage(NamedTuple):
    """How one kind of object is stored."""

    take_apart: Callable[[Any], Parts]
    expect: Callable[[type[Any], str, Mapping[str, Any]], Expected]
    put_together: Callable[[type[Any], Parts], Any]


def check_keys(owner: str, found: Collection[str], wanted: Collection[str], optional: Collection[str] = ()) -> None:
    """Refuse what is missing or not known."""
    for name in found:
        if name not in wanted and name not in optional:
            raise ValueError(f"{owner}: {shown(name)} is not known; it must not be there")
    for name in wanted:
        if name not in found:
            raise ValueError(f"{owner}: {name!r} is missing")


def check_length(name: str, found: Sequence[Any] | npt.NDArray[Any], wanted: int) -> None:
    """Check that two parts agree on a count."""
    if len(found) != wanted:
        raise ValueError(f"{name} must have {wanted} entries, got {len(found)}")


def check_distinct(name: str, found: Sequence[str]) -> None:
    """Check that names are names: none for two things."""
    if len(set(found)) != len(found):
        raise ValueError(f"{name} must hold different names, but one comes twice")
