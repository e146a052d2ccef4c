"""Which columns of a table, or keys of a record, hold the texts, the labels and the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longtail._rules import Int, check_value
from longtail.datasets.text_data import Described

# Tried in this order when no column is named.
LABEL_NAMES = ("labels", "label")
_TEXT_NAME = "text"
_ID_NAME = "id"
_MAX_WEIGHT = 20


@dataclass(frozen=True)
class Wanted:
    """What a user asks for; None stands for the usual names."""

    text: tuple[str, ...] = (_TEXT_NAME,)
    weights: tuple[int, ...] = (1,)
    label: str | None = None
    id: str | None = None
    with_labels: bool = True

    @classmethod
    def of(
        cls,
        text_column: str | Sequence[str] | None,
        text_weights: Sequence[int] | Mapping[str, int] | None,
        label_column: str | None,
        id_column: str | None,
        *,
        with_labels: bool = True,
    ) -> Wanted:
        """Check and put together the arguments of a reader."""
        if text_column is None and isinstance(text_weights, Mapping):
            text_column = list(text_weights)
        text = (_TEXT_NAME,) if text_column is None else _strings("text_column", text_column)
        if isinstance(text_weights, Mapping):
            if set(text_weights) != set(text):
                raise ValueError(f"text_weights must name {', '.join(text)}, got {', '.join(map(str, text_weights))}")
            weights = tuple(text_weights[name] for name in text)
        else:
            weights = (1,) * len(text) if text_weights is None else tuple(text_weights)
        if len(weights) != len(text):
            raise ValueError(f"text_weights must have one number for each of {', '.join(text)}, got {len(weights)}")
        for weight in weights:
            check_value("read_text", "text_weights", weight, (Int(1, _MAX_WEIGHT),))
        for name, column in (("label_column", label_column), ("id_column", id_column)):
            if column is not None and not isinstance(column, str):
                raise TypeError(f"{name} must be the name of one column, got {column!r}")
        return cls(text, weights, label_column, id_column, with_labels)

    def pick(self, owner: str, names: Sequence[Any], kind: str = "column") -> Picked:
        """Find the columns among those that a table has."""
        for name in self.text:
            if name not in names:
                raise ValueError(f"{owner}: there is no {kind} {name!r} for the text; {_choice(names, kind, 'text')}")
        label = self.label
        if not self.with_labels:
            label = None
        elif label is None:
            label = next((name for name in LABEL_NAMES if name in names), None)
        elif label not in names:
            raise ValueError(f"{owner}: there is no {kind} {label!r} for the labels; {_choice(names, kind, 'label')}")
        id_name = self.id
        if id_name is None:
            id_name = _ID_NAME if _ID_NAME in names else None
        elif id_name not in names:
            raise ValueError(f"{owner}: there is no {kind} {id_name!r} for the ids; {_choice(names, kind, 'id')}")
        for column in (*self.text, label, id_name):
            if column is not None and list(names).count(column) > 1:
                raise ValueError(f"{owner}: there are two {kind}s {column!r}; names must differ")
        return Picked(self.text, self.weights, label, id_name, tuple(map(str, names)), kind)


@dataclass(frozen=True)
class Picked:
    """The columns that were found."""

    text: tuple[str, ...]
    weights: tuple[int, ...]
    label: str | None
    id: str | None
    names: tuple[str, ...] = field(repr=False, default=())
    kind: str = "column"

    @property
    def columns(self) -> list[str]:
        """All of them."""
        return [*self.text, *(name for name in (self.label, self.id) if name is not None)]

    def join(self, parts: Sequence[str]) -> str:
        """Put the parts of one text together; one with weight 3 is there three times, so that its words count more."""
        if len(parts) == 1 and self.weights == (1,):
            return parts[0]
        return "\n".join(part for part, weight in zip(parts, self.weights, strict=True) if part for _ in range(weight))

    def describe(self, how_split: str) -> Described:
        """Say where texts and labels come from."""
        texts = " and ".join(
            repr(name) + (f" ({weight} times)" if weight > 1 else "")
            for name, weight in zip(self.text, self.weights, strict=True)
        )
        plural = "s" if len(self.text) > 1 else ""
        labels = "" if self.label is None else f"from {self.kind} {self.label!r}"
        labels += f" {how_split}" if labels and how_split else ""
        return Described(
            f"from {self.kind}{plural} {texts}", labels, self._way(), dict(zip(self.text, self.weights, strict=True))
        )

    def _way(self) -> str:
        if self.label is not None:
            return f"{self.kind} {self.label!r} is empty"
        others = [name for name in self.names if name not in (*self.text, self.id)]
        return (
            f"there is no {self.kind} 'labels'; pass label_column=… for one of {', '.join(others)}"
            if others
            else f"there is no {self.kind} 'labels'"
        )


def _choice(names: Sequence[Any], kind: str, what: str) -> str:
    shown = ", ".join(map(str, names[:20])) + (", …" if len(names) > 20 else "")
    return f"pass {what}_column=… for one of {shown}" if names else f"there is no {kind} at all"


def _strings(what: str, value: str | Sequence[str]) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{what} must be the name of a column or a list of names, got {value!r}")
    return names
