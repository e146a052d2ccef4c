"""Write texts with label names."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import IO, Any

from longtail._rules import Choice, Nothing, check_value
from longtail.datasets import _recognition
from longtail.datasets._label_cells import LabelCells, checked_text, joined_names
from longtail.datasets._streams import new_file
from longtail.datasets.corpora import LABEL_PREFIX

_WRITABLE = ("jsonl", "csv", "tsv", "fasttext")
_FASTTEXT_BLANKS = " \t\v\f\r\n\0"


def write_text(
    path: str | PathLike[str],
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
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
        The new file; ``"-"`` is standard output. Its ending says the format: ``.jsonl``, ``.csv``, ``.tsv`` or
        ``.fasttext``, each also ``.gz``.
    texts : sequence of str
    labels : sequence of iterables of str
    ids : sequence of str or int, optional
        Written as ``id``; fastText has no place for them.
    format : "jsonl", "csv", "tsv" or "fasttext", optional
        Default: by the ending; "jsonl" for standard output.
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
    check_value("write_text", "format", format, (Nothing(), Choice(*_WRITABLE)))
    if len(texts) != len(labels):
        raise ValueError(f"texts and labels must have the same length, got {len(texts)} and {len(labels)}")
    if ids is not None and len(ids) != len(texts):
        raise ValueError(f"texts and ids must have the same length, got {len(texts)} and {len(ids)}")
    chosen = format or ("jsonl" if str(path) == "-" else _recognition.BY_ENDING.get(_recognition.ending_of(str(path))))
    if chosen not in _WRITABLE:
        raise ValueError(f"{path}: texts are written as .jsonl, .csv, .tsv or .fasttext (each also .gz); choose one")
    rows = _checked_rows(texts, labels, ids)
    with _target(path, overwrite=overwrite) as file:
        if chosen == "jsonl":
            file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)
        elif chosen == "fasttext":
            file.writelines(_fasttext_line(number, row) for number, row in enumerate(rows))
        else:
            file.writelines(_table_lines(rows, "\t" if chosen == "tsv" else ",", label_separator, ids is not None))
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
    texts: Sequence[str], labels: Sequence[Iterable[str]], ids: Sequence[str | int] | None
) -> Iterator[dict[str, Any]]:
    cells = LabelCells("")
    for row, (text, names) in enumerate(zip(texts, labels, strict=True)):
        place = lambda row=row: f"row {row}"  # noqa: E731
        found: dict[str, Any] = {} if ids is None else {"id": ids[row]}
        found["text"] = checked_text(text, place)
        found["labels"] = cells.names(names if isinstance(names, str) else list(names), place)
        yield found


def _fasttext_line(row: int, found: dict[str, Any]) -> bytes:
    for name in found["labels"]:
        if not name or any(blank in name for blank in _FASTTEXT_BLANKS):
            raise ValueError(f"row {row}: fastText ends a label at a blank, so {name!r} cannot be written; use .jsonl")
    text = " ".join(found["text"].split("\n"))
    return " ".join([*(LABEL_PREFIX + name for name in found["labels"]), text]).encode() + b"\n"


def _table_lines(rows: Iterator[dict[str, Any]], delimiter: str, separator: str, has_ids: bool) -> Iterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*(["id"] if has_ids else []), "text", "labels"])
    for row, found in enumerate(rows):
        cell = joined_names(found["labels"], separator, lambda row=row: f"row {row}")  # type: ignore[misc]
        writer.writerow([*([found["id"]] if has_ids else []), found["text"], cell])
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()
