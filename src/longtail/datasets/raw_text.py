"""Texts with label names: JSON lines, CSV and TSV, and by way of `corpora` what other tools use."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from longtail.datasets._lines import numbered_lines
from longtail.datasets._streams import new_file
from longtail.datasets.corpora import is_annif, read_annif, read_fasttext, read_parquet

_MAX_LINE_BYTES = 1 << 24
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_FASTTEXT = (".fasttext", ".ft")
_field_limit_lock = threading.Lock()


def read_text(
    path: str | PathLike[str], *, label_separator: str = ";", max_line_bytes: int = _MAX_LINE_BYTES
) -> tuple[list[str], list[list[str]]]:
    """Read texts and the label names of each.

    Parameters
    ----------
    path : str or path-like
        ``.jsonl``: one object ``{"text": "…", "labels": ["…", …]}`` a line; other keys are ignored. ``.csv`` and
        ``.tsv``: columns ``text`` and ``labels``, named in the first line. Labels may be missing, as in data to
        predict. ``.fasttext`` or ``.ft``: ``__label__a __label__b text``, as fastText has it. ``.tsv`` without
        column names: a text, a tab and its subjects as ``<uri>``, as Annif has it. ``.parquet``: columns ``text``
        and ``labels`` (needs pyarrow). UTF-8; gzip is recognised by its content.
    label_separator : str, default ";"
        What parts the labels in a cell of a CSV or TSV file.
    max_line_bytes : int, default 16 MiB
        Longer lines (in CSV: longer cells) are refused.

    Returns
    -------
    texts : list of str
    labels : list of list of str
        As many as texts; each label once, in the order of the file.

    Raises
    ------
    ValueError
        With file and line (and column, where it is known) of the first thing that is wrong.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.jsonl")
    >>> lt.datasets.write_jsonl(path, ["a web server"], [["net", "server"]])
    >>> lt.datasets.read_text(path)
    (['a web server'], [['net', 'server']])
    """
    path = Path(path)
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix == ".jsonl":
        rows = _read_jsonl(path, max_line_bytes)
    elif suffix in _FASTTEXT:
        rows = read_fasttext(path, max_line_bytes)
    elif suffix == ".parquet":
        rows = read_parquet(path)
    elif suffix == ".tsv" and is_annif(path, max_line_bytes):
        rows = read_annif(path, max_line_bytes)
    elif suffix in _DELIMITERS:
        rows = _read_csv(path, _DELIMITERS[suffix], label_separator, max_line_bytes)
    else:
        raise ValueError(
            f"{path}: the name of a text file must end in .jsonl, .csv, .tsv, .fasttext (each also .gz) or .parquet"
        )
    texts: list[str] = []
    labels: list[list[str]] = []
    for text, names in rows:
        texts.append(text)
        labels.append(list(dict.fromkeys(names)))
    return texts, labels


def write_jsonl(
    path: str | PathLike[str], texts: Sequence[str], labels: Sequence[Iterable[str]], *, overwrite: bool = False
) -> None:
    """Write texts and label names as JSON lines.

    Parameters
    ----------
    path : str or path-like
        The new file; gzipped when its name ends in ``.gz``.
    texts : sequence of str
    labels : sequence of iterables of str
        The label names of each text.
    overwrite : bool, default False
        Replace what is there.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.jsonl")
    >>> lt.datasets.write_jsonl(path, ["a web server"], [["net", "server"]])
    >>> print(path.read_text(), end="")
    {"text": "a web server", "labels": ["net", "server"]}
    """
    if len(texts) != len(labels):
        raise ValueError(f"texts and labels must have the same length, got {len(texts)} and {len(labels)}")
    with new_file(Path(path), overwrite=overwrite, compresslevel=9) as file:
        for row, (text, names) in enumerate(zip(texts, labels, strict=True)):
            names = [names] if isinstance(names, str) else list(names)
            _check_strings(f"row {row}", text, names)
            file.write(json.dumps({"text": text, "labels": names}, ensure_ascii=False).encode() + b"\n")


def _read_jsonl(path: Path, max_line_bytes: int) -> Iterator[tuple[str, list[str]]]:
    for number, line in numbered_lines(path, max_line_bytes):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}, column {error.colno}: not valid JSON: {error.msg}") from None
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{place}, column 1: not JSON that can be read: {error}") from None
        if not isinstance(row, dict) or "text" not in row:
            raise ValueError(f'{place}, column 1: expected an object {{"text": …, "labels": […]}}')
        names = row.get("labels", [])
        if not isinstance(names, list):
            raise ValueError(f'{place}, column 1: "labels" must be a list of names, got {type(names).__name__}')
        _check_strings(f"{place}, column 1", row["text"], names)
        yield row["text"], names


def _read_csv(path: Path, delimiter: str, label_separator: str, max_line_bytes: int) -> Iterator[tuple[str, list[str]]]:
    if not label_separator:
        raise ValueError("label_separator must not be empty")
    lines = (line + "\n" for _, line in numbered_lines(path, max_line_bytes))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    cells = _cells(path, reader, max_line_bytes)
    header = next(cells, None)
    if header is None or header.count("text") != 1 or header.count("labels") > 1:
        raise ValueError(f"{path}, line 1, column 1: expected the column names text and labels, got {header}")
    text_at = header.index("text")
    labels_at = header.index("labels") if "labels" in header else None
    for row in cells:
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"{path}, line {reader.line_num}, column 1: expected {len(header)} cells, got {len(row)}")
        names = [] if labels_at is None else [name.strip() for name in row[labels_at].split(label_separator)]
        yield row[text_at], [name for name in names if name]


def _cells(path: Path, reader: Any, max_cell_bytes: int) -> Iterator[list[str]]:
    """Yield the rows of a CSV reader. Its limit on the length of a cell is global, so it is set for each row only."""
    while True:
        with _field_limit_lock:
            old_limit = csv.field_size_limit(max_cell_bytes)
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise ValueError(f"{path}, line {reader.line_num}, column 1: {error}") from None
            finally:
                csv.field_size_limit(old_limit)
        if row is None:
            return
        yield row


def _check_strings(place: str, text: object, names: list[Any]) -> None:
    for what, value in (("text", text), *(("labels", name) for name in names)):
        if not isinstance(value, str):
            raise ValueError(f"{place}: {what} must be text, got {type(value).__name__}")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"{place}: {what} holds half of a surrogate pair, which is no character") from None
