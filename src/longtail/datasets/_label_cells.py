"""Label names out of the values that files and tables hold: lists, single names, names in one cell."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

# What may separate names in a cell, as far as a file that was not described is checked for it.
_SUSPECTS = (";", ",", "|")
# A few names with commas among cells that are split at ";" are names; this many times as many are another separator.
_MOST_SUSPECTS = 10
_PYTHON_STRING = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_PYTHON_STRING}\s*(?:,\s*{_PYTHON_STRING}\s*)*)?\]", re.DOTALL)


class LabelCells:
    """Turns values into names, and refuses at the end what can be understood in two ways.

    With no separator given, names in one cell are split at `default` (CSV: ";"), or not at all. A file whose cells
    never hold that separator, or hardly ever, but do hold another one is refused: reading "a,b,c" as one label is a
    silent mistake.
    """

    def __init__(self, separator: str | None, default: str | None = None) -> None:
        self._is_given = separator is not None
        self._separator = (separator if self._is_given else default) or None
        self._reads_lists = default is not None and not self._is_given
        self._n_split = 0
        self._n_lists = 0
        self._n_numbers = 0
        self._n_suspects = 0
        self._suspect: tuple[str, str, str] | None = None

    def names(self, value: Any, place: Callable[[], str]) -> list[str]:
        """Return the names in a value; `place` says where it is, for errors."""
        if type(value) is list or isinstance(value, list | tuple | set | frozenset):
            return [self._name(item, place) for item in value]
        if isinstance(value, str):
            return self._split(value, place)
        if is_missing(value):
            return []
        if hasattr(value, "tolist") and getattr(value, "ndim", 0) <= 1:  # NumPy arrays and scalars, polars and pandas
            return self.names(value.tolist(), place)
        if hasattr(value, "to_list"):
            return self.names(value.to_list(), place)
        return [self._name(value, place)]

    def check(self, owner: str) -> None:
        """Raise when the cells seem to be separated by something else than was assumed."""
        if self._suspect is None or self._n_suspects <= _MOST_SUSPECTS * (self._n_split + self._n_lists):
            return
        found, cell, where = self._suspect
        raise ValueError(
            f"{owner}: labels hold {found!r} ({where}: {cell!r}){self._assumption()}; pass label_separator={found!r} "
            "to split them there, or label_separator='' if each is one label"
        )

    def describe(self) -> str:
        """Say how names were found in the cells."""
        if self._n_lists:
            return "written as lists"
        if self._separator is not None and (self._n_split or self._is_given):
            return f"split at {self._separator!r}"
        return "that are numbers, kept as text" if self._n_numbers else ""

    def _assumption(self) -> str:
        n_clear = self._n_split + self._n_lists
        if n_clear:
            kind = "written as lists" if self._n_lists else f"split at {self._separator!r}"
            return f", as do {self._n_suspects} cells in all, but only {n_clear} can be {kind}"
        return "" if self._separator is None else f" but no {self._separator!r}"

    def _split(self, cell: str, place: Callable[[], str]) -> list[str]:
        if self._reads_lists and cell[:1] == "[" and cell[-1:] == "]":
            found = _written_list(cell)
            if found is not None:
                self._n_lists += 1
                return [self._name(item, place) for item in found]
        if self._separator is not None:
            names = [name for part in cell.split(self._separator) if (name := part.strip())]
            self._n_split += self._separator in cell
        else:
            names = [cell] if cell and not cell.isspace() else []
        if not self._is_given and (self._separator is None or self._separator not in cell):
            mark = next((mark for mark in _SUSPECTS if mark in cell), None)
            self._n_suspects += mark is not None
            if mark is not None and self._suspect is None:
                self._suspect = (mark, _shortened(cell), place())
        return names

    def _name(self, value: Any, place: Callable[[], str]) -> str:
        if isinstance(value, str):
            if not value.isascii():
                _check_unicode("labels", value, place)
            return value
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()
        if isinstance(value, int) and not isinstance(value, bool):
            self._n_numbers += 1
            return str(value)
        raise ValueError(
            f"{place()}: labels must be text or whole numbers, got {type(value).__name__}; give a list of names"
        )


def checked_text(value: Any, place: Callable[[], str]) -> str:
    """Check that a value is text that can be written as UTF-8."""
    if not isinstance(value, str):
        if is_missing(value):
            raise ValueError(
                f"{place()}: text must be text, got {value!r}; fill missing texts with '' or drop the rows"
            )
        raise ValueError(f"{place()}: text must be text, got {type(value).__name__}")
    if not value.isascii():
        _check_unicode("text", value, place)
    return value


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or the NA of a data frame."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def joined_names(names: Iterable[str], separator: str, place: Callable[[], str]) -> str:
    """Write names into one cell; refuse those that would be read as two."""
    names = list(names)
    for name in names:
        if separator in name or name != name.strip() or not name:
            raise ValueError(
                f"{place()}: the label {name!r} would not come back when read: it is empty, has blanks at an end or "
                f"holds {separator!r}; write .jsonl, or choose another label_separator"
            )
    return separator.join(names)


def _written_list(cell: str) -> list[Any] | None:
    """Read a list as JSON or Python writes it; None for anything else, such as NumPy's lists without commas."""
    try:
        found = json.loads(cell)
    except (ValueError, RecursionError):
        if not _PYTHON_LIST.fullmatch(cell):
            return None
        found = ast.literal_eval(cell)
    return found if isinstance(found, list) else None


def _check_unicode(what: str, value: str, place: Callable[[], str]) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place()}: {what} holds half of a surrogate pair, which is no character") from None


def _shortened(cell: str) -> str:
    return cell if len(cell) <= 60 else cell[:57] + "…"
