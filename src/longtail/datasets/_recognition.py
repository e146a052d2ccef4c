"""Which format a text file has: by its ending, and by its content where no other format begins that way."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from longtail.datasets._tables import choose_delimiter, header_cells
from longtail.datasets.corpora import LABEL_PREFIX, is_annif_line

# The formats of texts, and the endings that name them. A reader is registered in raw_text, a writer in text_writers.
FORMATS: dict[str, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "fasttext": (".fasttext", ".ft"),
    "annif": (),
    "annif-folder": (),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather"),
    "lines": (),
}
BY_ENDING = {ending: name for name, endings in FORMATS.items() for ending in endings}
HEAD_BYTES = 1 << 16
_XMC_HEADER = re.compile(rb"\d+ \d+ \d+ *\r?\n")
_CAN_BE_TEXT = re.compile(rb"[^\0-\x08\x0e-\x1f]*")


def ending_of(name: str) -> str:
    """Return the ending of a file name in lower case, without .gz."""
    return Path(name.lower().removesuffix(".gz")).suffix


def by_content(head: bytes, text_columns: Sequence[str] = ("text",)) -> str | None:
    """Recognise a format by the first bytes of a file; None unless only one format begins so."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    line = first.partition(b"\n")[0].decode(errors="replace").rstrip("\r")
    if first.startswith(b"["):
        return "json" if first[1:].lstrip()[:1] in (b"{", b"]") else None
    if first.startswith(b"{"):
        return "jsonl" if _is_object(line) or len(first) >= HEAD_BYTES else "json"
    if first.startswith(LABEL_PREFIX.encode()):
        return "fasttext"
    if is_annif_line(line):
        return "annif"
    delimiter = choose_delimiter(line, ",", text_columns)
    if all(column in header_cells(line, delimiter) for column in text_columns) and (
        delimiter in line or "," not in line
    ):
        return "tsv" if delimiter == "\t" else "csv"
    return None


def holds_numbers(head: bytes) -> bool:
    """Whether a file begins with the header of XMC text."""
    return _XMC_HEADER.match(head) is not None


def can_be_text(head: bytes) -> bool:
    """Whether the first bytes of a file hold no control characters that text never has."""
    return _CAN_BE_TEXT.fullmatch(head) is not None


def unknown(name: str) -> ValueError:
    """Say what would have been understood."""
    endings = ", ".join(BY_ENDING)
    return ValueError(
        f"{name}: the format of these texts is not clear from the name or the content; use one of the endings "
        f"{endings} (each also .gz), or a directory of .txt files, or pass format= one of {', '.join(FORMATS)}"
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
