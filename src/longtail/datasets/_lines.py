"""Lines of text: decoded, numbered, of bounded length."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def in_utf8(name: str, blocks: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """Recode blocks to UTF-8, without a byte order mark; UTF-16 is recognised by its mark."""
    first = _first(blocks)
    if encoding is None:
        encoding = "utf-16" if first.startswith(_UTF16_MARKS) else "utf-8"
    codec = _text_codec(encoding)
    if codec.name in ("utf-8", "utf-8-sig", "ascii"):  # ASCII is UTF-8; lines are checked as they are decoded
        yield first.removeprefix(_UTF8_MARK)
        yield from blocks
        return
    decoder = codec.incrementaldecoder("strict")
    n_bytes = 0
    try:
        for block in _chain(first, blocks):
            yield decoder.decode(block).removeprefix("\ufeff").encode()
            n_bytes += len(block)
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise ValueError(f"{name}: not valid {encoding} after byte {n_bytes}: {error}") from None


def numbered_lines(name: str, blocks: Iterable[bytes], max_line_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, decoded, numbered from 1."""
    for number, raw in enumerate(_lines(blocks, max_line_bytes), 1):
        if raw is None:
            raise ValueError(f"{name}, line {number}, column 1: the line is longer than {max_line_bytes} bytes")
        try:
            yield number, raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            place = f"{name}, line {number}, column {error.start + 1}"
            raise ValueError(
                f"{place}: not valid UTF-8: {error.reason}; if the file has another encoding, pass it, such as "
                "encoding='cp1252'"
            ) from None


def _first(blocks: Iterator[bytes]) -> bytes:
    """Return the first bytes: at least three, unless there are fewer."""
    first = b""
    while len(first) < len(_UTF8_MARK):
        block = next(blocks, None)
        if block is None:
            break
        first += block
    return first


def _chain(first: bytes, blocks: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from blocks


def _text_codec(encoding: str) -> codecs.CodecInfo:
    try:
        codec = codecs.lookup(encoding)
        "".encode(encoding)  # refuses codecs that turn bytes into bytes, such as base64
    except (LookupError, ValueError):
        raise ValueError(
            f"encoding must be the name of a text encoding, such as 'utf-8' or 'cp1252', got {encoding!r}"
        ) from None
    return codec


def _lines(blocks: Iterable[bytes], max_line_bytes: int) -> Iterator[bytes | None]:
    """Yield lines without their newline; None, and no more, for one that is too long."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line if len(line) <= max_line_bytes else None
        if len(rest) > max_line_bytes:
            yield None
            return
    if rest:
        yield rest
