"""Files as memory. Python's own mmap keeps a descriptor open for each map, and a run may have thousands of shards."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import BinaryIO

# Small files are read: a page of their own, and one of the kernel's 65,530 maps, would cost more.
SMALL_BYTES = 1 << 15
_FAILED = ctypes.c_void_p(-1).value


def map_file(file: BinaryIO, size_bytes: int) -> memoryview:
    """Return the first ``size_bytes`` of a file, read-only; they stay until nothing refers to them."""
    if size_bytes <= SMALL_BYTES:
        file.seek(0)
        return memoryview(file.read(size_bytes))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    integer = ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer, integer, integer, ctypes.c_ssize_t]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    block = (ctypes.c_ubyte * size_bytes).from_address(address)
    # Not at exit: then other threads may still be using it, and the kernel cleans up anyway.
    weakref.finalize(block, libc.munmap, address, size_bytes).atexit = False
    return memoryview(block).toreadonly()
