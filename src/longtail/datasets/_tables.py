"""Texts in tables of delimited cells: CSV and TSV with a line of column names."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from longtail.datasets._columns import Picked, Wanted
from longtail.datasets._label_cells import LabelCells
from longtail.datasets.text_data import TextData, text_data

DELIMITERS = (",", ";", "\t")
_DEFAULT_SEPARATOR = ";"
_field_limit_lock = threading.Lock()


def read_table(
    name: str,
    lines: Iterator[tuple[int, str]],
    delimiter: str,
    wanted: Wanted,
    label_separator: str | None,
    *,
    quotes: bool,
    max_cell_bytes: int,
) -> TextData:
    """Read a table; `delimiter` is the one its ending stands for, used unless another one fits the column names."""
    first = next(lines, None)
    place = f"{name}, line 1, column 1"
    if first is None:
        raise ValueError(f"{place}: expected a line of column names, such as text and labels, got nothing")
    delimiter = choose_delimiter(first[1], delimiter, wanted.text, quotes=quotes)
    all_lines = (line + "\n" for _, line in chain([first], lines))
    reader = csv.reader(
        all_lines, delimiter=delimiter, strict=True, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    )
    rows = _rows(name, reader, delimiter, max_cell_bytes)
    header = next(rows)
    picked = wanted.pick(place, header)
    cells = LabelCells(label_separator, _DEFAULT_SEPARATOR)
    texts, labels, ids = _collect(name, rows, lambda: reader.line_num, header, picked, cells)
    cells.check(name)
    how = picked.describe(cells.describe())
    if delimiter != ",":
        mark = "tab" if delimiter == "\t" else repr(delimiter)
        how = replace(how, texts=f"{how.texts} ({mark}-separated)")
    return text_data(name, texts, labels, ids if picked.id is not None else None, how)


def choose_delimiter(line: str, default: str, text_columns: Sequence[str], *, quotes: bool = True) -> str:
    """Return the delimiter with which a line of column names has the wanted ones: no other can be meant."""
    headers = {mark: header_cells(line, mark, quotes=quotes) for mark in (default, *DELIMITERS)}
    for mark, names in headers.items():
        if all(column in names for column in text_columns):
            return mark
    return max(headers, key=lambda mark: (len(headers[mark]), mark == default))


def header_cells(line: str, delimiter: str, *, quotes: bool = True) -> list[str]:
    """Return the cells of one line; none if its quotation marks are odd."""
    try:
        return next(
            csv.reader([line], delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE), []
        )
    except csv.Error:
        return []


def _collect(
    name: str,
    rows: Iterator[list[str]],
    line_number: Callable[[], int],
    header: list[str],
    picked: Picked,
    cells: LabelCells,
) -> tuple[list[str], list[list[str]], list[Any]]:
    text_at = [header.index(column) for column in picked.text]
    label_at = None if picked.label is None else header.index(picked.label)
    id_at = None if picked.id is None else header.index(picked.id)
    texts: list[str] = []
    labels: list[list[str]] = []
    ids: list[Any] = []
    blank_at = 0  # the first of the blank lines before this row, which are fine at the end of the file only
    for row in rows:
        if not row:
            if len(header) > 1:
                blank_at = blank_at or line_number()
                continue
            row = [""]  # of one column, a blank line is an empty text; without it, answers and lines would not align
        if blank_at:
            raise ValueError(
                f"{name}, line {blank_at}, column 1: expected {len(header)} cells, got a blank line; remove it, so "
                "that answers and lines align"
            )
        if len(row) != len(header):
            raise ValueError(f"{name}, line {line_number()}, column 1: expected {len(header)} cells, got {len(row)}")
        texts.append(picked.join([row[at] for at in text_at]))
        labels.append([] if label_at is None else cells.names(row[label_at], lambda: f"line {line_number()}"))
        if id_at is not None:
            ids.append(row[id_at])
    return texts, labels, ids


def _rows(name: str, reader: Any, delimiter: str, max_cell_bytes: int) -> Iterator[list[str]]:
    """Yield the rows of a CSV reader. Its limit on the length of a cell is global, so it is set for each row only."""
    while True:
        with _field_limit_lock:
            old_limit = csv.field_size_limit(max_cell_bytes)
            try:
                row = next(reader, None)
            except csv.Error as error:
                place = f"{name}, line {reader.line_num}, column 1"
                raise ValueError(f"{place}: {_in_words(str(error), delimiter, max_cell_bytes)}") from None
            finally:
                csv.field_size_limit(old_limit)
        if row is None:
            return
        yield row


def _in_words(error: str, delimiter: str, max_cell_bytes: int) -> str:
    if "field larger" in error:
        return f"a cell is longer than {max_cell_bytes} bytes; is a closing quotation mark missing?"
    mark = "a tab" if delimiter == "\t" else repr(delimiter)
    way = 'write " as "" inside quoted cells, or pass quotes=False if quotation marks are plain text'
    if "expected after" in error:
        return f"a quoted cell must be followed by {mark} or the end of the line; {way}"
    if "unexpected end" in error:
        return f"a quotation mark opens a cell that is never closed; {way}"
    if "new-line character" in error:
        return "a line ends with a carriage return alone; write line ends as \\n or \\r\\n"
    return error
