"""Lines of text files: decoded, numbered, of bounded length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from longtail.datasets._streams import read_blocks


def numbered_lines(path: Path, max_line_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, decoded, numbered from 1."""
    for number, raw in enumerate(_lines(path, max_line_bytes), 1):
        if raw is None:
            raise ValueError(f"{path}, line {number}, column 1: the line is longer than {max_line_bytes} bytes")
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            place = f"{path}, line {number}, column {error.start + 1}"
            raise ValueError(f"{place}: not valid UTF-8: {error.reason}") from None


def _lines(path: Path, max_line_bytes: int) -> Iterator[bytes | None]:
    """Yield lines without their newline; None, and no more, for one that is too long."""
    rest = b""
    for block in read_blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line if len(line) <= max_line_bytes else None
        if len(rest) > max_line_bytes:
            yield None
            return
    if rest:
        yield rest
