"""Texts in records with named fields: JSON lines, JSON, and lists of dicts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from longtail.datasets._columns import LABEL_NAMES, Picked, Wanted
from longtail.datasets._label_cells import LabelCells, checked_text, is_missing
from longtail.datasets.text_data import TextData, text_data

_SHAPE = '{"text": …, "labels": […]}'


class Records:
    """Collects texts, labels and ids from one record after the other; a record may lack labels."""

    def __init__(self, owner: str, wanted: Wanted, label_separator: str | None, kind: str = "key") -> None:
        self._owner, self._wanted, self._kind = owner, wanted, kind
        self._cells = LabelCells(label_separator)
        self._label_key = wanted.label
        self._id_key = "id" if wanted.id is None else wanted.id
        self._keys: dict[str, None] = {}
        self._texts: list[str] = []
        self._labels: list[list[str]] = []
        self._ids: list[Any] = []

    def add(self, record: Any, place: Callable[[], str]) -> None:
        """Take one record; `place` says where it is, for errors."""
        if not isinstance(record, Mapping):
            raise ValueError(f"{place()}: expected an object {_SHAPE}, got {type(record).__name__}")
        self._keys |= dict.fromkeys(record)
        self._texts.append(self._text(record, place))
        self._labels.append(self._names(record, place) if self._wanted.with_labels else [])
        if self._id_key in record:
            self._ids.append(_checked_id(record[self._id_key], place))

    def finish(self) -> TextData:
        """Return what was collected."""
        self._cells.check(self._owner)
        if self._wanted.label is not None and self._wanted.label not in self._keys and self._texts:
            raise ValueError(
                f"{self._owner}: no record has a {self._kind} {self._wanted.label!r}; "
                f"pass label_column=… for one of {', '.join(map(str, self._keys))}"
            )
        has_ids = len(self._ids) == len(self._texts) and bool(self._ids)
        if self._wanted.id is not None and not has_ids:
            raise ValueError(f"{self._owner}: not every record has a {self._kind} {self._wanted.id!r}")
        id_key = self._id_key if has_ids else None
        picked = Picked(
            self._wanted.text, self._wanted.weights, self._label_key, id_key, tuple(map(str, self._keys)), self._kind
        )
        how = picked.describe(self._cells.describe())
        return text_data(self._owner, self._texts, self._labels, self._ids if has_ids else None, how)

    def _text(self, record: Mapping[str, Any], place: Callable[[], str]) -> str:
        keys = self._wanted.text
        if len(keys) == 1 and self._wanted.weights == (1,):
            if keys[0] not in record:
                raise self._missing(record, place)
            return checked_text(record[keys[0]], place)
        parts = [record.get(key) for key in keys]
        if not any(key in record for key in keys):
            raise self._missing(record, place)
        texts = ["" if is_missing(part) else checked_text(part, place) for part in parts]
        return Picked(keys, self._wanted.weights, None, None).join(texts)

    def _missing(self, record: Mapping[str, Any], place: Callable[[], str]) -> ValueError:
        keys = " or ".join(map(repr, self._wanted.text))
        there = ", ".join(map(str, list(record)[:20])) or "nothing"
        return ValueError(
            f"{place()}: expected an object {_SHAPE} with the {self._kind} {keys}, got {there}; pass text_column=…"
        )

    def _names(self, record: Mapping[str, Any], place: Callable[[], str]) -> list[str]:
        key = self._label_key
        if key is None or (self._wanted.label is None and key not in record):
            found = next((name for name in LABEL_NAMES if name in record), None)
            if found is None:
                return []
            if key is not None:
                raise ValueError(
                    f"{place()}: labels are in {found!r} here but in {key!r} before; pass label_column={key!r}"
                )
            self._label_key = key = found
        return self._cells.names(record.get(key), place)


def read_jsonl(name: str, lines: Iterable[tuple[int, str]], wanted: Wanted, label_separator: str | None) -> TextData:
    """Read one object per line; blank lines are skipped."""
    records = Records(name, wanted, label_separator)
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}, line {number}, column {error.colno}: not valid JSON: {error.msg}") from None
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{name}, line {number}, column 1: not JSON that can be read: {error}") from None
        records.add(record, lambda number=number: f"{name}, line {number}, column 1")  # type: ignore[misc]
    return records.finish()


def read_json(name: str, text: str, wanted: Wanted, label_separator: str | None) -> TextData:
    """Read a list of objects, alone or as the only list in an object, or an object of columns."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}, line {error.lineno}, column {error.colno}"
        raise ValueError(f"{place}: not valid JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{name}, line 1, column 1: not JSON that can be read: {error}") from None
    records = Records(name, wanted, label_separator)
    for row, record in enumerate(_list_in(name, found, wanted)):
        records.add(record, lambda row=row: f"{name}, record {row}")  # type: ignore[misc]
    return records.finish()


def _list_in(name: str, found: Any, wanted: Wanted) -> Iterable[Any]:
    if isinstance(found, list):
        return found
    if isinstance(found, dict):
        if all(isinstance(found.get(column), list) for column in wanted.text):
            return columns_to_records(name, found)
        lists = [value for value in found.values() if isinstance(value, list)]
        if len(lists) == 1 and all(isinstance(item, dict) for item in lists[0]):
            return lists[0]
        if all(column in found for column in wanted.text):
            return [found]
    raise ValueError(
        f"{name}, line 1, column 1: expected a list of objects {_SHAPE}, got {type(found).__name__}; "
        "one object per line is the format 'jsonl'"
    )


def columns_to_records(owner: str, columns: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the rows of columns that are lists of one length; other values are left out."""
    lists = {name: column for name, column in columns.items() if isinstance(column, list | tuple)}
    lengths = {len(column) for column in lists.values()}
    if len(lengths) > 1:
        raise ValueError(f"{owner}: columns must have one length, got {', '.join(map(str, sorted(lengths)))}")
    for values in zip(*lists.values(), strict=True):
        yield dict(zip(lists, values, strict=True))


def _checked_id(value: Any, place: Callable[[], str]) -> str | int:
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if hasattr(value, "item"):
        return _checked_id(value.item(), place)
    raise ValueError(f"{place()}: an id must be text or a whole number, got {type(value).__name__}")
