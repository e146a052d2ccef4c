"""Write texts with label names."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import IO, Any

from longtail._rules import Choice, Nothing, check_value
from longtail.datasets import _recognition
from longtail.datasets._label_cells import LabelCells, checked_text, joined_names
from longtail.datasets._streams import new_file
from longtail.datasets.corpora import LABEL_PREFIX

_BINARY = ("parquet", "arrow")
_FASTTEXT_BLANKS = " \t\v\f\r\n\0"
_ANNIF_SUBJECT = re.compile(r"[^<>\s]+")


def write_text(
    path: str | PathLike[str],
    texts: Sequence[str],
    labels: Sequence[Iterable[str]] | None,
    *,
    ids: Sequence[str | int] | None = None,
    format: str | None = None,  # noqa: A002 - as in read_text
    label_separator: str = ";",
    overwrite: bool = False,
) -> None:
    """Write texts and label names so that `read_text` gives them back.

    Parameters
    ----------
    path : str or path-like
        The new file; ``"-"`` is standard output. Its ending says the format: ``.jsonl``, ``.json``, ``.csv``, ``.tsv``
        or ``.fasttext``, each also ``.gz``; ``.parquet`` or ``.arrow``.
    texts : sequence of str
    labels : sequence of iterables of str, or None
        None writes texts without labels.
    ids : sequence of str or int, optional
        Written as ``id``; fastText and Annif have no place for them.
    format : "jsonl", "json", "csv", "tsv", "fasttext", "annif", "parquet" or "arrow", optional
        Default: by the ending; "jsonl" for standard output. Annif's corpora end in ``.tsv``, so "annif" must be named.
    label_separator : str, default ";"
        Between the labels of a CSV or TSV cell.
    overwrite : bool, default False
        Replace an existing file.

    Examples
    --------
    >>> import longtail as lt
    >>> lt.datasets.write_text("-", ["a web server"], [["net", "server"]], ids=[7])
    {"id": 7, "text": "a web server", "labels": ["net", "server"]}
    """
    check_value("write_text", "format", format, (Nothing(), Choice(*WRITABLE)))
    if labels is not None and len(texts) != len(labels):
        raise ValueError(f"texts and labels must have the same length, got {len(texts)} and {len(labels)}")
    if ids is not None and len(ids) != len(texts):
        raise ValueError(f"texts and ids must have the same length, got {len(texts)} and {len(ids)}")
    chosen = format or ("jsonl" if str(path) == "-" else _recognition.BY_ENDING.get(_recognition.ending_of(str(path))))
    if chosen not in WRITABLE or (chosen in _BINARY and str(path).endswith(".gz")):
        raise ValueError(
            f"{path}: texts are written as .jsonl, .json, .csv, .tsv or .fasttext (each also .gz), .parquet or .arrow; "
            f"choose one, or pass format= one of {', '.join(WRITABLE)}"
        )
    rows = _checked_rows(texts, labels, ids)
    with _target(path, overwrite=overwrite) as file:
        if chosen in _BINARY:
            from longtail.datasets import _arrow

            _arrow.write_rows(str(path), file, rows, chosen, _id_type(ids), has_labels=labels is not None)
        else:
            header = [*(["id"] if ids is not None else []), "text", *(["labels"] if labels is not None else [])]
            file.writelines(_WRITERS[chosen](rows, label_separator, header))
        file.flush()


def write_jsonl(
    path: str | PathLike[str], texts: Sequence[str], labels: Sequence[Iterable[str]], *, overwrite: bool = False
) -> None:
    """Write texts and label names as JSON lines, whatever the name is.

    Parameters
    ----------
    path : str or path-like
        The new file; gzipped when its name ends in ``.gz``.
    texts : sequence of str
    labels : sequence of iterables of str
        The label names of each text.
    overwrite : bool, default False
        Replace an existing file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.jsonl")
    >>> lt.datasets.write_jsonl(path, ["a web server"], [["net", "server"]])
    >>> print(path.read_text(), end="")
    {"text": "a web server", "labels": ["net", "server"]}
    """
    write_text(path, texts, labels, format="jsonl", overwrite=overwrite)


def _target(path: str | PathLike[str], *, overwrite: bool) -> AbstractContextManager[IO[bytes]]:
    if str(path) != "-":
        return new_file(Path(path), overwrite=overwrite, compresslevel=9)
    sys.stdout.flush()
    return nullcontext(sys.stdout.buffer if hasattr(sys.stdout, "buffer") else _TextTarget())  # type: ignore[arg-type]


class _TextTarget(io.RawIOBase):
    """Standard output that was replaced by something that takes only text, as in notebooks."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        sys.stdout.write(bytes(data).decode())
        return len(data)


def _checked_rows(
    texts: Sequence[str], labels: Sequence[Iterable[str]] | None, ids: Sequence[str | int] | None
) -> Iterator[dict[str, Any]]:
    cells = LabelCells("")
    for row, text in enumerate(texts):
        place = lambda row=row: f"row {row}"  # noqa: E731
        found: dict[str, Any] = {} if ids is None else {"id": ids[row]}
        found["text"] = checked_text(text, place)
        if labels is not None:
            names = labels[row]
            found["labels"] = cells.names(names if isinstance(names, str) else list(names), place)
        yield found


def _id_type(ids: Sequence[str | int] | None) -> type | None:
    """Return the type of a column of ids: whole numbers only if all of them are."""
    if ids is None:
        return None
    return int if all(type(value) is int and abs(value) < 1 << 63 for value in ids) else str


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


def _json_list(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    mark = b"[\n"
    for row in rows:
        yield mark + _json(row)
        mark = b",\n"
    yield b"[]\n" if mark == b"[\n" else b"\n]\n"


def _fasttext_line(row: int, found: dict[str, Any]) -> bytes:
    labels = found.get("labels", [])
    for name in labels:
        if not name or any(blank in name for blank in _FASTTEXT_BLANKS):
            raise ValueError(f"row {row}: fastText ends a label at a blank, so {name!r} cannot be written; use .jsonl")
    text = " ".join(found["text"].split("\n"))
    if LABEL_PREFIX in text and any(word.startswith(LABEL_PREFIX) for word in text.split()):
        raise ValueError(f"row {row}: the text holds a word with {LABEL_PREFIX!r}, which fastText takes for a label")
    return " ".join([*(LABEL_PREFIX + name for name in labels), text]).encode() + b"\n"


def _annif_line(row: int, found: dict[str, Any]) -> bytes:
    labels = found.get("labels", [])
    for name in labels:
        if not _ANNIF_SUBJECT.fullmatch(name):
            raise ValueError(f"row {row}: Annif's subjects have no blanks, < and >, so {name!r} cannot be written")
    text = " ".join(found["text"].split())
    if not text and not labels:
        raise ValueError(f"row {row}: an Annif corpus has no line for an empty text without labels; use .jsonl")
    return f"{text}\t{' '.join(f'<{name}>' for name in labels)}\n".encode()


def _table_lines(rows: Iterator[dict[str, Any]], delimiter: str, separator: str, header: list[str]) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    for row, found in enumerate(rows):
        if "labels" in found:
            place = lambda row=row: f"row {row}"  # noqa: E731
            found["labels"] = joined_names(found["labels"], separator, place)
        writer.writerow(found.values())
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


_Writer = Callable[[Iterator[dict[str, Any]], str, list[str]], Iterator[bytes]]
_WRITERS: dict[str, _Writer] = {
    "jsonl": lambda rows, _separator, _header: (_json(row) + b"\n" for row in rows),
    "json": lambda rows, _separator, _header: _json_list(rows),
    "csv": lambda rows, separator, header: _table_lines(rows, ",", separator, header),
    "tsv": lambda rows, separator, header: _table_lines(rows, "\t", separator, header),
    "fasttext": lambda rows, _separator, _header: (_fasttext_line(number, row) for number, row in enumerate(rows)),
    "annif": lambda rows, _separator, _header: (_annif_line(number, row) for number, row in enumerate(rows)),
}
WRITABLE = (*_WRITERS, *_BINARY)
