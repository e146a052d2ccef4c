"""Texts with label names from files, pipes and folders: one reader for all formats."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import IO, Any

from longtail._rules import Bool, Choice, Int, Nothing, Text, check_value
from longtail.datasets import _recognition, corpora
from longtail.datasets._columns import Wanted
from longtail.datasets._limits import UnpackLimit
from longtail.datasets._lines import in_utf8, numbered_lines
from longtail.datasets._records import read_json, read_jsonl
from longtail.datasets._streams import blocks_of, read_blocks
from longtail.datasets._tables import read_table
from longtail.datasets.text_data import TextData

_MAX_LINE_BYTES = 1 << 24
Source = str | PathLike[str] | IO[Any]


def read_text(
    path: Source,
    *,
    format: str | None = None,  # noqa: A002 - the word that users look for
    text_column: str | Sequence[str] | None = None,
    text_weights: Sequence[int] | Mapping[str, int] | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    id_column: str | None = None,
    encoding: str | None = None,
    quotes: bool = True,
    with_labels: bool = True,
    max_line_bytes: int = _MAX_LINE_BYTES,
    max_unpacked_bytes: int | None = None,
) -> TextData:
    """Read texts and the label names of each.

    Parameters
    ----------
    path : str, path-like or file object
        ``"-"`` reads standard input. The format follows from the ending: ``.jsonl``, ``.ndjson``, ``.json``, ``.csv``,
        ``.tsv``, ``.fasttext``, ``.ft``, ``.parquet``, ``.arrow``, ``.feather``; a directory of ``.txt`` files is an
        Annif full-text corpus. Other names are recognised by content where that is safe. Gzip always is.
    format : str, optional
        "jsonl", "json", "csv", "tsv", "fasttext", "annif" (``text TAB <uri> <uri>``), "annif-folder", "parquet",
        "arrow" or "lines" (one text per line, no labels), whatever the name is.
    text_column : str or list of str, default "text"
        Column or key of the text. Several are joined by a line break.
    text_weights : list or dict of int, optional
        How often each text column is repeated, so that words of a title count more than those of a body.
    label_column : str, default "labels", or else "label"
    label_separator : str, optional
        What separates labels in one cell. Default: ``";"`` in CSV and TSV; elsewhere a string is one label. Cells that
        seem to be separated by something else are an error. ``""``: every cell is one label.
    id_column : str, default "id" if there is one
    encoding : str, default UTF-8 (or UTF-16, if the file begins with its mark)
    quotes : bool, default True
        Quotation marks in CSV and TSV enclose cells; False reads them as plain text.
    with_labels : bool, default True
        False leaves labels out, for data to predict.
    max_line_bytes : int, default 16 MiB
        Longer lines (in CSV: longer cells) are refused.
    max_unpacked_bytes : int, optional
        How much gzip or Parquet may unpack to; default: 100 times its size, at least 16 MiB, or the number in the
        environment variable ``LONGTAIL_MAX_UNPACKED_BYTES``.

    Returns
    -------
    data : TextData
        Unpacks as ``texts, labels``; ``data.ids`` has the ids, ``data.understood`` one line on what was read, and
        ``data.require_labels()`` raises if there are no labels.

    Raises
    ------
    ValueError
        With file and line (and column, where it is known) of the first thing that is wrong.

    Examples
    --------
    >>> import io
    >>> import longtail as lt
    >>> file = io.BytesIO(b"title;body;tags\\nnginx;a web server;net, server\\n")
    >>> data = lt.datasets.read_text(
    ...     file, text_column=["title", "body"], text_weights=[2, 1], label_column="tags", label_separator=","
    ... )
    >>> texts, labels = data
    >>> texts, labels
    (['nginx\\nnginx\\na web server'], [['net', 'server']])
    >>> data.understood
    "1 text from columns 'title' (2 times) and 'body' (';'-separated), 2 labels from column 'tags' split at ','"
    """
    check_value("read_text", "format", format, (Nothing(), Choice(*_recognition.FORMATS)))
    check_value("read_text", "label_separator", label_separator, (Nothing(), Text()))
    check_value("read_text", "encoding", encoding, (Nothing(), Text()))
    check_value("read_text", "quotes", quotes, (Bool(),))
    check_value("read_text", "max_line_bytes", max_line_bytes, (Int(1),))
    wanted = Wanted.of(text_column, text_weights, label_column, id_column, with_labels=with_labels)
    how = _How(wanted, label_separator, encoding, quotes, max_line_bytes, max_unpacked_bytes)
    folder = _as_folder(path)
    if folder is not None and format in (None, "annif-folder"):
        if format is None and not corpora.is_annif_folder(folder):
            raise ValueError(f"{folder}: a directory of texts must hold .txt files, as Annif's full-text corpora do")
        return corpora.read_annif_folder(folder, encoding, max_line_bytes)
    if format == "annif-folder":
        raise ValueError(f"{path}: format='annif-folder' needs a directory of .txt files")
    return _read_stream(_Opened.of(path, max_unpacked_bytes), format, how)


def text_format(path: str | PathLike[str], *, text_column: str | Sequence[str] | None = None) -> str | None:
    """Return the format of a file of texts, or None for anything else, such as rows of numbers.

    The ending decides, else the first bytes of the file. Commands use it to tell texts from vectors.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("__label__net a web server\\n")
    >>> lt.datasets.text_format(path)
    'fasttext'
    >>> _ = path.write_text("1 2 2\\n0 1:0.5\\n")
    >>> print(lt.datasets.text_format(path))
    None
    """
    folder = _as_folder(path)
    if folder is not None:
        return "annif-folder" if corpora.is_annif_folder(folder) else None
    ending = _recognition.ending_of(str(path))
    columns = Wanted.of(text_column, None, None, None).text
    known = _recognition.BY_ENDING.get(ending)
    if known == "tsv":
        return _recognition.by_content(_head(path), columns) or known
    if known is not None or ending in (".npz", ".svm", ".svmlight", ".libsvm", ".csr"):
        return known
    if str(path) == "-" or not Path(path).is_file():
        return None
    return _recognition.by_content(_head(path), columns)


@dataclass(frozen=True)
class _How:
    wanted: Wanted
    label_separator: str | None
    encoding: str | None
    quotes: bool
    max_line_bytes: int
    max_unpacked_bytes: int | None


@dataclass(frozen=True)
class _Opened:
    """Input that can be read once; `path` is there for regular files."""

    name: str
    blocks: Iterator[bytes]
    path: Path | None
    ending: str

    @classmethod
    def of(cls, source: Source, max_unpacked_bytes: int | None) -> _Opened:
        if isinstance(source, str) and source == "-":
            name = "standard input"
            blocks = blocks_of(sys.stdin.buffer, name, UnpackLimit(name, max_unpacked_bytes))
            return cls(name, blocks, None, "")
        if isinstance(source, str | PathLike):
            path = Path(source)
            if not path.exists():
                raise FileNotFoundError(f"{path} does not exist")
            blocks = read_blocks(path, UnpackLimit(str(path), max_unpacked_bytes))
            return cls(str(path), blocks, path if path.is_file() else None, _recognition.ending_of(path.name))
        if not hasattr(source, "read"):
            raise TypeError(
                f"read_text: path must be a path, '-' or a file object, got {type(source).__name__}; "
                "texts in memory go to Tagger.fit as they are"
            )
        found = getattr(source, "name", None)
        name = found if isinstance(found, str) else "the stream"
        ending = _recognition.ending_of(name) if isinstance(found, str) else ""
        return cls(name, blocks_of(source, name, UnpackLimit(name, max_unpacked_bytes)), None, ending)


_LineReader = Callable[[str, Iterator[tuple[int, str]], _How], TextData]


def _table_reader(delimiter: str) -> _LineReader:
    return lambda name, lines, how: read_table(
        name,
        lines,
        delimiter,
        how.wanted,
        how.label_separator,
        quotes=how.quotes,
        max_cell_bytes=how.max_line_bytes,
    )


_LINE_READERS: dict[str, _LineReader] = {
    "jsonl": lambda name, lines, how: read_jsonl(name, lines, how.wanted, how.label_separator),
    "csv": _table_reader(","),
    "tsv": _table_reader("\t"),
    "fasttext": lambda name, lines, _how: corpora.read_fasttext(name, lines),
    "annif": lambda name, lines, _how: corpora.read_annif(name, lines),
    "lines": lambda name, lines, _how: corpora.read_lines(name, lines),
}


def _read_stream(opened: _Opened, chosen: str | None, how: _How) -> TextData:
    name, blocks = opened.name, opened.blocks
    chosen = _recognition.BY_ENDING.get(opened.ending) if chosen is None else chosen
    if chosen in ("parquet", "arrow"):
        return _read_arrow(opened, blocks, chosen, how)
    head = b""
    while len(head) < _recognition.HEAD_BYTES and (block := next(blocks, b"")):
        head += block
    if chosen is None:
        chosen = _recognition.by_content(head, how.wanted.text)
        if chosen is None and _recognition.holds_numbers(head):
            raise ValueError(f"{name} begins as XMC text does: rows of numbers, not texts; use longtail.datasets.read")
        if (
            chosen is None
            and not how.wanted.with_labels
            and how.wanted.text == Wanted.text
            and _recognition.can_be_text(head)
        ):
            chosen = "lines"  # no labels are wanted, so that nothing else can be meant
        if chosen is None:
            raise _recognition.unknown(name)
        if chosen in ("parquet", "arrow"):
            return _read_arrow(opened, chain([head], blocks), chosen, how)
    text_blocks = in_utf8(name, chain([head], blocks), how.encoding)
    if chosen == "json":
        return read_json(name, _whole_text(name, text_blocks), how.wanted, how.label_separator)
    lines = numbered_lines(name, text_blocks, how.max_line_bytes)
    if chosen == "tsv":  # Annif's corpora have the same ending
        first = next(lines, (1, ""))
        lines = chain([first], lines) if first[1] else lines
        if corpora.is_annif_line(first[1]) and not set(how.wanted.text) <= set(first[1].split("\t")):
            chosen = "annif"
    return _LINE_READERS[chosen](name, lines, how)


def _read_arrow(opened: _Opened, blocks: Iterator[bytes], chosen: str, how: _How) -> TextData:
    from longtail.datasets import _arrow

    source: Any = opened.path
    if source is None:
        source = _arrow.whole(blocks)
        n_packed = source.getbuffer().nbytes
    else:
        n_packed = source.stat().st_size
    limit = UnpackLimit(opened.name, how.max_unpacked_bytes)
    read = _arrow.read_parquet if chosen == "parquet" else _arrow.read_arrow
    return read(opened.name, source, n_packed, how.wanted, how.label_separator, limit)


def _whole_text(name: str, blocks: Iterator[bytes]) -> str:
    try:
        return b"".join(blocks).decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line 1, column {error.start + 1}: not valid UTF-8: {error.reason}; pass encoding=…"
        ) from None


def _as_folder(path: Source) -> Path | None:
    if isinstance(path, str | PathLike) and str(path) != "-":
        found = Path(path)
        return found if found.is_dir() else None
    return None


def _head(path: str | PathLike[str]) -> bytes:
    head = b""
    for block in read_blocks(Path(path)):
        head += block
        if len(head) >= _recognition.HEAD_BYTES:
            break
    return head
