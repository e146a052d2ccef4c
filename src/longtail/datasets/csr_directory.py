"""Directories of memory-mapped CSR arrays: for data larger than memory, and for workers that open it by path."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail import _core
from longtail._array_files import ArraySpec, read_arrays, write_arrays
from longtail.datasets._csr import build_csr, checked_csr, checked_labels

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr

_KIND = "csr-directory"
_FORMAT = 1
_SPECS = {
    "x_indptr": ArraySpec(np.int64, ndim=1),
    "x_indices": ArraySpec(np.int32, ndim=1),
    "x_values": ArraySpec(np.float32, ndim=1),
    "y_indptr": ArraySpec(np.int64, ndim=1),
    "y_indices": ArraySpec(np.int32, ndim=1),
    "y_values": ArraySpec(np.float32, ndim=1, min=1, max=1),
}


def write_csr_directory(path: str | PathLike[str], X: Any, Y: Any, *, overwrite: bool = False) -> None:
    """Write X and Y as a directory of arrays that `read_csr_directory` maps instead of reading.

    Parameters
    ----------
    path : str or path-like
        The new directory; it appears when it is complete.
    X : sparse matrix or ndarray of shape (n_rows, n_features)
        Features; finite, converted to float32.
    Y : sparse matrix or ndarray of shape (n_rows, n_labels)
        Every entry that is not 0 is a label.
    overwrite : bool, default False
        Replace a directory that longtail wrote.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.csr")
    >>> lt.datasets.write_csr_directory(path, np.eye(2), np.eye(2))
    >>> sorted(file.name for file in path.iterdir())[:3]
    ['manifest.json', 'x_indices.npy', 'x_indptr.npy']
    """
    X = checked_csr("X", X)
    Y = checked_labels(Y, X.shape[0])
    arrays = {
        "x_indptr": X.indptr.astype(np.int64, copy=False),
        "x_indices": X.indices,
        "x_values": X.data,
        "y_indptr": Y.indptr.astype(np.int64, copy=False),
        "y_indices": Y.indices,
        "y_values": Y.data,
    }
    n_rows, n_features = X.shape
    meta = {"kind": _KIND, "format": _FORMAT, "n_rows": n_rows, "n_features": n_features, "n_labels": Y.shape[1]}
    write_arrays(path, arrays, meta, overwrite=overwrite)


def read_csr_directory(path: str | PathLike[str], *, verify: bool = True) -> tuple[Csr, Csr]:
    """Map a directory that `write_csr_directory` wrote.

    Indices and values stay on disk and come into memory as they are used; processes that map the same directory share
    them. The structure is checked once on opening, which reads the files through.

    Parameters
    ----------
    path : str or path-like
    verify : bool, default True
        Compare the SHA-256 of every file with the manifest's.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features), float32
        Read-only.
    Y : csr_array of shape (n_rows, n_labels), float32
        Read-only; 1 where a row has a label.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.csr")
    >>> lt.datasets.write_csr_directory(path, np.eye(2), np.eye(2))
    >>> X, Y = lt.datasets.read_csr_directory(path)
    >>> X.toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    meta, arrays = read_arrays(path, _SPECS, verify=verify)
    if meta.get("kind") != _KIND:
        raise ValueError(f"{path}: is not a CSR directory; its manifest says {meta.get('kind')!r}")
    if meta.get("format") != _FORMAT:
        raise ValueError(f"{path}: format {meta.get('format')!r} is not known here; update longtail")
    counts: list[Any] = [meta.get(name) for name in ("n_rows", "n_features", "n_labels")]
    if not all(type(count) is int and 0 <= count < 2**62 for count in counts):
        raise ValueError(f"{path}: n_rows, n_features and n_labels must be whole numbers, got {counts}")
    n_rows, n_features, n_labels = counts
    matrices = []
    for name, n_columns in (("x", n_features), ("y", n_labels)):
        indptr, indices, values = (arrays[f"{name}_{part}"] for part in ("indptr", "indices", "values"))
        if len(indptr) != n_rows + 1:
            raise ValueError(f"{path}: {name}_indptr must have {n_rows + 1} entries, got {len(indptr)}")
        _core.check_csr(n_columns, indptr, indices, values, f"{path}: {name.upper()}")
        matrices.append(build_csr((n_rows, n_columns), indptr, indices, values))
    X, Y = matrices
    return X, Y
