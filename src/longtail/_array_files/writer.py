"""Write arrays and their manifest."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from longtail._array_files.npy import write_header
from longtail._array_files.publish import staged
from longtail._array_files.specs import DTYPES, MAX_NDIM, check_name, shown
from longtail._array_files.strict_json import dump_json

_CHUNK_BYTES = 1 << 22


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, npt.NDArray[Any]],
    meta: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write ``arrays`` and ``meta`` as the directory ``path``, whole or not at all.

    Parameters
    ----------
    path : path
        The directory to make; its parent must exist.
    arrays : mapping of name to array
        Numbers of one of the fixed-width dtypes; stored in C order, little-endian.
    meta : mapping
        JSON values that `read_arrays` gives back; the key ``"arrays"`` is taken.
    overwrite : bool, default False
        Replace a directory that longtail wrote before. Until the new one is complete the old one stays.
    """
    with staged(path, overwrite=overwrite) as folder:
        write_folder(folder, arrays, meta)


def write_folder(folder: Path, arrays: Mapping[str, npt.NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write into an existing directory, without any promise about crashes: `staged` gives that."""
    if "arrays" in meta:
        raise ValueError(f'{folder}: meta must not have the key "arrays", which describes the arrays')
    check_file_names(str(folder), arrays)
    claims = {name: _write_array(folder, name, array) for name, array in arrays.items()}
    manifest = folder / "manifest.json"
    manifest.write_bytes(dump_json(str(manifest), {**meta, "arrays": claims}))


def check_file_names(owner: str, names: Mapping[str, Any]) -> None:
    """Refuse names that would share a file, here or on a file system that ignores case."""
    folded = {check_name(owner, name).lower() for name in names}
    if len(folded) != len(names):
        raise ValueError(f"{owner}: names must differ in more than case, got {shown(sorted(names))}")


def _write_array(folder: Path, name: str, array: npt.NDArray[Any]) -> dict[str, Any]:
    array = np.asarray(array)
    if array.dtype.name not in DTYPES or array.ndim > MAX_NDIM:
        raise TypeError(
            f"{folder}: array {name!r} must have at most {MAX_NDIM} dimensions "
            f"and a dtype of {', '.join(DTYPES)}; got {array.dtype} {array.shape}"
        )
    dtype = DTYPES[array.dtype.name]
    header = write_header(dtype, array.shape)
    values = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8)
    digest = hashlib.sha256(header)
    with (folder / f"{name}.npy").open("xb") as file:
        file.write(header)
        for first in range(0, values.size, _CHUNK_BYTES):
            chunk = values[first : first + _CHUNK_BYTES].data
            digest.update(chunk)
            file.write(chunk)
    return {
        "file": f"{name}.npy",
        "dtype": dtype.name,
        "shape": list(array.shape),
        "size_bytes": len(header) + values.size,
        "sha256": digest.hexdigest(),
    }
