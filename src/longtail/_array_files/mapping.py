"""Files as memory."""

from __future__ import annotations

from typing import BinaryIO

from longtail import _os

# Small files are read: a page of their own, and one of the kernel's 65,530 maps, would cost more.
SMALL_BYTES = 1 << 15


def map_file(file: BinaryIO, size_bytes: int) -> memoryview:
    """Return the first ``size_bytes`` of a file, read-only; they stay until nothing refers to them."""
    if size_bytes <= SMALL_BYTES:
        file.seek(0)
        return memoryview(file.read(size_bytes))
    return _os.map_readonly(file.fileno(), size_bytes)
