"""Pairs of scipy's npz files, as PECOS uses them: ``X.trn.npz`` and ``Y.trn.npz``."""

from __future__ import annotations

import contextlib
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longtail.datasets._csr import checked_csr, checked_labels, ones_where_nonzero
from longtail.datasets._limits import UnpackLimit
from longtail.datasets._streams import new_file

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr

_MAX_COUNT = 2**62
_MEMBERS = ("format", "shape", "indptr", "indices", "data")
_KIND_NAMES = {"SU": "text", "iu": "integers", "biuf": "real numbers"}


def labels_path_of(path: Path) -> Path:
    """Name the label file that goes with a feature file: X.trn.npz → Y.trn.npz."""
    if not path.name.startswith("X"):
        raise ValueError(
            f"{path}: the name of a feature file must begin with X, so that its label file is found "
            "(X.trn.npz and Y.trn.npz); or give labels_path (in Python)"
        )
    return path.with_name("Y" + path.name[1:])


def read_npz(
    path: str | PathLike[str],
    labels_path: str | PathLike[str] | None = None,
    *,
    max_unpacked_bytes: int | None = None,
) -> tuple[Csr, Csr]:
    """Read a pair of matrices that scipy or PECOS saved as npz.

    Nothing is unpickled, and every claim of the files is checked before it is used.

    Parameters
    ----------
    path : str or path-like
        The features, ``X.trn.npz``: a CSR or CSC matrix.
    labels_path : str or path-like, optional
        The labels; default: the same name with ``Y`` for its first letter. Entries that are not 0 are labels.
    max_unpacked_bytes : int, optional
        How much each of the two files may unpack to; default: 100 times its size, at least 16 MiB, or the number in
        the environment variable ``LONGTAIL_MAX_UNPACKED_BYTES``. A file that unpacks to more is refused.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features), float32
    Y : csr_array of shape (n_rows, n_labels), float32
        1 where a row has a label.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "X.trn.npz")
    >>> lt.datasets.write_npz(path, np.eye(2), np.array([[1, 0, 1], [0, 1, 0]]))
    >>> X, Y = lt.datasets.read_npz(path)
    >>> X.shape, Y.shape
    ((2, 2), (2, 3))
    """
    features_path = Path(path)
    labels_path = labels_path_of(features_path) if labels_path is None else Path(labels_path)
    X = _read_matrix(features_path, max_unpacked_bytes)
    Y = _read_matrix(labels_path, max_unpacked_bytes)
    if X.shape[0] != Y.shape[0]:
        raise ValueError(f"{features_path} has {X.shape[0]} rows, but {labels_path} has {Y.shape[0]}")
    return X, ones_where_nonzero(Y)


def write_npz(
    path: str | PathLike[str],
    X: Any,
    Y: Any,
    labels_path: str | PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write a pair of npz files that scipy's ``load_npz`` and PECOS read.

    Parameters
    ----------
    path : str or path-like
        The feature file, ``X.trn.npz``.
    X : sparse matrix or ndarray of shape (n_rows, n_features)
        Features; finite, converted to float32.
    Y : sparse matrix or ndarray of shape (n_rows, n_labels)
        Every entry that is not 0 is a label.
    labels_path : str or path-like, optional
        The label file; default: the same name with ``Y`` for its first letter.
    overwrite : bool, default False
        Replace an existing file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import scipy.sparse
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "X.trn.npz")
    >>> lt.datasets.write_npz(path, np.eye(2), np.eye(2))
    >>> scipy.sparse.load_npz(path.with_name("Y.trn.npz")).shape
    (2, 2)
    """
    features_path = Path(path)
    labels_path = labels_path_of(features_path) if labels_path is None else Path(labels_path)
    X = checked_csr("X", X)
    Y = checked_labels(Y, X.shape[0])
    with (
        new_file(features_path, overwrite=overwrite) as features_file,
        new_file(labels_path, overwrite=overwrite) as labels_file,
    ):
        from scipy.sparse import save_npz

        save_npz(features_file, X)
        save_npz(labels_file, Y)


def _read_matrix(path: Path, max_unpacked_bytes: int | None) -> Csr:
    from scipy.sparse import csc_array, csr_array

    with path.open("rb") as file, _damage_as_value_error(path), zipfile.ZipFile(file) as archive:
        limit, n_packed = UnpackLimit(str(path), max_unpacked_bytes), path.stat().st_size
        # zipfile reads no more of a member than the directory of the archive claims.
        limit.check(n_packed, sum(archive.getinfo(f"{name}.npy").file_size for name in _MEMBERS))
        form = _read_member(path, archive, "format", "SU", ()).item()
        form = form.decode("latin-1") if isinstance(form, bytes) else form
        if form not in ("csr", "csc"):
            raise ValueError(f"{path}: the matrix must be csr or csc, got {form!r}; convert it with scipy")
        n_rows, n_columns = _read_member(path, archive, "shape", "iu", (2,)).tolist()
        indptr = _read_member(path, archive, "indptr", "iu", (None,))
        indices = _read_member(path, archive, "indices", "iu", (None,))
        values = _read_member(path, archive, "data", "biuf", (len(indices),))
    if form == "csc" and 0 <= n_rows <= _MAX_COUNT:
        limit.check(n_packed, 8 * n_rows)  # becomes the indptr of the CSR form, however few entries there are
    n_major, n_minor = (n_rows, n_columns) if form == "csr" else (n_columns, n_rows)
    _check_parts(path, n_major, n_minor, indptr, indices)
    matrix = (csr_array if form == "csr" else csc_array)((values, indices, indptr), shape=(n_rows, n_columns))
    try:
        return checked_csr("the matrix", matrix)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@contextlib.contextmanager
def _damage_as_value_error(path: Path) -> Iterator[None]:
    # What zipfile raises for damaged archives, beside its own error; RuntimeError stands for encrypted ones.
    try:
        yield
    except (
        zipfile.BadZipFile,
        EOFError,
        KeyError,
        OSError,
        OverflowError,
        RuntimeError,
        lzma.LZMAError,
        struct.error,
        zlib.error,
    ) as error:
        raise ValueError(f"{path} is not a sound npz file of a sparse matrix: {error}") from None


def _read_member(
    path: Path, archive: zipfile.ZipFile, name: str, kinds: str, shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """Read one array; its header may claim no more than the archive holds, and only plain numbers or text."""
    member = archive.getinfo(f"{name}.npy")
    owner = f"{path}: {name}"
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read_header is None:
                raise ValueError(f"npy version {version} is not supported")
            claimed, is_fortran, dtype = read_header(file)
        except ValueError as error:
            raise ValueError(f"{owner} has a broken header: {error}") from None
        if dtype.kind not in kinds:
            raise ValueError(f"{owner} must hold {_KIND_NAMES[kinds]}, got dtype {dtype}")
        is_wanted = len(claimed) == len(shape) and all(w in (None, c) for w, c in zip(shape, claimed, strict=True))
        if not is_wanted or (is_fortran and len(claimed) > 1):
            raise ValueError(f"{owner} has shape {claimed}, which does not fit")
        n_bytes = math.prod(claimed) * dtype.itemsize
        if n_bytes != member.file_size - file.tell():
            raise ValueError(f"{owner} claims {n_bytes} bytes, but there are {member.file_size - file.tell()}")
        array = np.empty(claimed, dtype)
        target = array.reshape(-1).view(np.uint8).data
        n_read = 0
        while n_read < n_bytes and (part := file.read(1 << 20)):
            target[n_read : n_read + len(part)] = part
            n_read += len(part)
        if n_read != n_bytes:
            raise ValueError(f"{owner} ends early")
    if dtype.kind in "iu":  # one type for all counts and ids; those beyond it are wrong anyway
        if array.size and array.max() > _MAX_COUNT:
            raise ValueError(f"{owner} holds a number that is too large")
        return array.astype(np.int64 if dtype.itemsize == 8 else np.int32, copy=False)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _check_parts(path: Path, n_major: int, n_minor: int, indptr: NDArray[Any], indices: NDArray[Any]) -> None:
    """Check what scipy takes on trust: its compiled loops would read and write outside the arrays."""
    if min(n_major, n_minor) < 0 or max(n_major, n_minor) > _MAX_COUNT:
        raise ValueError(f"{path}: the shape is impossible")
    if len(indptr) != n_major + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"{path}: indptr must rise from 0 to the number of entries, one step for each row")
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_minor):
        raise ValueError(f"{path}: indices must lie within 0 .. {n_minor - 1}")
