"""Arrays that may be larger than memory: backed by a file that has no name."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from longtail import _os


def empty_array(size: int, dtype: DTypeLike, directory: str | os.PathLike[str] | None) -> NDArray[Any]:
    """Return an uninitialised 1-D array: in memory, or in a nameless file on the disk of `directory` if one is given.

    Nothing can open, change or truncate a file without a name, and its space is freed with the array. The space is
    reserved first, so that a full disk is an OSError here instead of a SIGBUS later.
    """
    n_bytes = size * np.dtype(dtype).itemsize
    if directory is None or n_bytes == 0:
        return np.empty(size, dtype=dtype)
    try:
        with tempfile.TemporaryFile(dir=directory, suffix=".tmp") as file:
            _os.reserve_space(file.fileno(), n_bytes)
            return np.frombuffer(mmap.mmap(file.fileno(), n_bytes), dtype=dtype)
    except OSError as error:
        if error.errno is None:
            raise
        wanted = f"{Path(directory)} (needs {n_bytes} bytes for arrays of the model)"
        raise OSError(error.errno, os.strerror(error.errno), wanted) from None
