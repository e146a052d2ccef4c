"""Rows of numbers from files and from standard input."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

HEAD_BYTES = 1 << 16
_GZIP_MARK = b"\x1f\x8b"
_XMC_HEADER = re.compile(rb"\d+ +\d+ +\d+")
_SVMLIGHT_LINE = re.compile(rb"(\d+(,\d+)*)?( +\d+:[-+.\deE]+)+")


def read_vectors(path: Path, **sizes: int) -> tuple[Any, Any]:
    """Read rows of numbers and their labels, from a file or from standard input."""
    from longtail import datasets

    if str(path) != "-":
        found: tuple[Any, Any] = datasets.read(path, **sizes)
        return found
    with tempfile.TemporaryDirectory() as folder:  # the readers map files, so that blocks can be parsed side by side
        spooled = Path(folder, f"stdin{vector_ending(head_of_stdin())}")
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return datasets.read(spooled, **sizes)
        except ValueError as error:
            raise ValueError(str(error).replace(str(spooled), "standard input")) from None


def vector_ending(head: bytes) -> str | None:
    """Return the ending of a file of vectors that begins with these bytes: .txt (XMC) or .svm; None for texts."""
    if head.startswith(_GZIP_MARK):
        try:
            ending = vector_ending(zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, HEAD_BYTES))
        except zlib.error:
            return None
        return None if ending is None else f"{ending}.gz"
    line, end, _ = head.partition(b"\n")
    if _XMC_HEADER.fullmatch(line.rstrip()):
        return ".txt"
    lines = [line] if end else [line, line.rpartition(b" ")[0]]  # the last number may be cut off
    return ".svm" if any(_SVMLIGHT_LINE.fullmatch(one.rstrip()) for one in lines) else None


def head_of_stdin() -> bytes:
    """Return the beginning of standard input without taking it away."""
    stream: Any = sys.stdin.buffer
    if hasattr(stream, "peek"):
        head: bytes = stream.peek(HEAD_BYTES)
        return head
    place = stream.tell()
    head = stream.read(HEAD_BYTES)
    stream.seek(place)
    return head
