"""Arrays mapped from files on shared storage: workers open them by path instead of receiving a copy."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from longtail import _os
from longtail.execution.plan import Array

_MAPS = Path("/proc/self/maps")
# Sending is faster below this size.
_SMALL_BYTES = 1 << 16


class FilePart(NamedTuple):
    """An array inside a file, with size and time of the file to detect changes."""

    path: str
    offset: int
    dtype: str
    shape: tuple[int, ...]
    file_bytes: int
    modified_ns: int


def find_file_part(array: Array, root: Path) -> FilePart | None:
    """Return which part of which file below `root` an array is mapped from; None if it is in memory or elsewhere."""
    if array.nbytes < _SMALL_BYTES or not array.flags.c_contiguous or not _MAPS.exists():
        return None
    address = array.__array_interface__["data"][0]
    for line in _MAPS.read_text(errors="surrogateescape").splitlines():
        # 7f0c1d2000-7f0c1e2000 r--s 00001000 fd:00 1234   /path/of/the/file
        parts = line.split(maxsplit=5)
        begin, _, end = parts[0].partition("-")
        if not int(begin, 16) <= address < int(end, 16):
            continue
        if len(parts) < 6 or address + array.nbytes > int(end, 16) or not Path(parts[5]).is_relative_to(root):
            return None
        try:
            status = Path(parts[5]).stat()
        except OSError:  # replaced or deleted since it was mapped
            return None
        if status.st_ino != int(parts[4]):
            return None
        offset = int(parts[2], 16) + address - int(begin, 16)
        return FilePart(parts[5], offset, array.dtype.str, array.shape, status.st_size, status.st_mtime_ns)
    return None


def open_file_part(part: FilePart) -> Array:
    """Map a part of a file, read-only; refuse a file that has changed since."""
    try:
        status = Path(part.path).stat()
    except OSError as error:
        raise FileNotFoundError(
            f"{part.path} cannot be opened on {_os.host_name()} ({error.strerror}); "
            "shared_storage must be mounted at the same path on every node"
        ) from None
    if (status.st_size, status.st_mtime_ns) != (part.file_bytes, part.modified_ns):
        raise ValueError(
            f"{part.path} on {_os.host_name()} is not the file that the run began with; "
            "do not change data while it is used, and mount the same storage on every node"
        )
    return np.memmap(part.path, part.dtype, "r", part.offset, part.shape).view(np.ndarray)
