"""Bytes in and out of files: gzip is transparent, and a written file appears whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import queue
import secrets
import stat
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from longtail.datasets._limits import UnpackLimit

_BLOCK_BYTES = 1 << 18
_GZIP_MAGIC = b"\x1f\x8b"


def is_plain_file(path: Path) -> bool:
    """Tell whether the path is a regular file, not gzipped: one that threads can read at any place."""
    if not stat.S_ISREG(path.stat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(2) != _GZIP_MAGIC


def read_blocks(path: Path, limit: UnpackLimit | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file or pipe, decompressed when they begin as gzip does."""
    with path.open("rb") as file:
        yield from blocks_of(file, str(path), UnpackLimit(str(path), None) if limit is None else limit)


def blocks_of(file: IO[Any], name: str, limit: UnpackLimit) -> Iterator[bytes]:
    """Yield the bytes of an open file, decompressed when they begin as gzip does; text is encoded as UTF-8."""
    first = _read(file)
    if first.startswith(_GZIP_MAGIC):
        yield from _decompressed(file, first, name, limit)
        return
    block = first
    while block:
        yield block
        block = _read(file)


def _read(file: IO[Any]) -> bytes:
    block = file.read(_BLOCK_BYTES)
    if isinstance(block, str):
        return block.encode()
    return b"" if block is None else bytes(block)


def _decompressed(file: IO[Any], first: bytes, name: str, limit: UnpackLimit) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    pending = first
    n_packed, n_unpacked = len(first), 0

    def more() -> bytes:
        nonlocal n_packed
        block = _read(file)
        n_packed += len(block)
        return block

    while True:
        try:
            block = stream.decompress(pending, _BLOCK_BYTES)
        except zlib.error as error:
            raise ValueError(f"{name} is not a sound gzip file: {error}") from None
        n_unpacked += len(block)
        limit.check(n_packed, n_unpacked)
        if block:
            yield block
        if stream.eof:  # a gzip file may hold several members, and zeros after the last
            pending = stream.unused_data.lstrip(b"\0") or more().lstrip(b"\0")
            if not pending:
                return
            stream = zlib.decompressobj(wbits=31)
        else:
            pending = stream.unconsumed_tail or more()
            if not pending and not block:
                raise ValueError(f"{name} is not a sound gzip file: it ends early; is the download complete?")


def guess_text_bytes(path: Path) -> int:
    """Guess the length of the text in a gzip file from its last four bytes; 0 when there is nothing to go by."""
    if not stat.S_ISREG(path.stat().st_mode):
        return 0
    with path.open("rb") as file:
        compressed_bytes = file.seek(0, os.SEEK_END)
        if compressed_bytes < 18:
            return 0
        file.seek(-4, os.SEEK_END)
        # Deflate never shrinks further than 1032 to 1, so a lie about the length stays harmless.
        return min(int.from_bytes(file.read(4), "little"), 1032 * compressed_bytes)


def ahead(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Draw the blocks in a thread of their own, a few ahead of the consumer (zlib works without the GIL)."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
    has_stopped = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not has_stopped.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return True
        return False

    def draw() -> None:
        try:
            for block in blocks:
                if not put(block):
                    return
            put(None)
        except BaseException as error:  # raised again in the consumer
            put(error)

    thread = threading.Thread(target=draw, name="longtail-decompress", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the system allows no more threads
        yield from blocks
        return
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        has_stopped.set()
        thread.join()


@contextlib.contextmanager
def new_file(path: Path, *, overwrite: bool, compresslevel: int = 6) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes its name only when all is written; gzipped when the name ends in .gz."""
    if not overwrite and path.exists():
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            if path.suffix == ".gz":
                # Neither name nor time in the header: the same data gives the same bytes.
                with gzip.GzipFile(
                    filename="", mode="wb", fileobj=file, compresslevel=compresslevel, mtime=0
                ) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
