"""Read and write by the ending of the name."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from longtail.datasets._recognition import BY_ENDING, ending_of
from longtail.datasets.csr_directory import read_csr_directory, write_csr_directory
from longtail.datasets.npz import read_npz, write_npz
from longtail.datasets.svmlight import read_svmlight, write_svmlight
from longtail.datasets.xmc import read_xmc, write_xmc

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr


class Format(NamedTuple):
    """A format of rows of numbers. A path of it is a file with one of the endings, or a directory."""

    endings: tuple[str, ...]
    description: str
    read: Callable[[Path, int | None], tuple[Csr, Csr]]
    write: Callable[[Path, Any, Any, bool], None]
    is_directory: bool = False
    stores_columns: bool = True  # else `read` needs to be told how many there are at least


def _other_half(path: Path) -> Path | None:
    """Name the label file of the two-file layout: trn_X_Xf.txt → trn_X_Y.txt."""
    stem, separator, ending = path.name.rpartition("X_Xf.txt")
    return path.with_name(f"{stem}X_Y.txt{ending}") if separator else None


# A new format is its file and one entry here.
FORMATS = (
    Format(
        (".txt",),
        ".txt (XMC)",
        lambda path, limit: read_xmc(path, _other_half(path), max_unpacked_bytes=limit),
        lambda path, X, Y, overwrite: write_xmc(path, X, Y, _other_half(path), overwrite=overwrite),
    ),
    Format(
        (".svm", ".svmlight", ".libsvm"),
        ".svm (svmlight), both also .gz",
        lambda path, limit: read_svmlight(path, max_unpacked_bytes=limit),
        lambda path, X, Y, overwrite: write_svmlight(path, X, Y, overwrite=overwrite),
        stores_columns=False,
    ),
    Format(
        (".npz",),
        ".npz (a pair X… and Y…)",
        lambda path, limit: read_npz(path, max_unpacked_bytes=limit),
        lambda path, X, Y, overwrite: write_npz(path, X, Y, overwrite=overwrite),
    ),
    Format(
        ("", ".csr"),
        "or a CSR directory",
        lambda path, _limit: read_csr_directory(path),
        lambda path, X, Y, overwrite: write_csr_directory(path, X, Y, overwrite=overwrite),
        is_directory=True,
    ),
)
TEXT_ENDINGS = tuple(BY_ENDING)
_KNOWN = ", ".join(known.description for known in FORMATS)


def read(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    max_unpacked_bytes: int | None = None,
) -> tuple[Csr, Csr]:
    """Read a data set by file extension.

    Parameters
    ----------
    path : str or path-like
        ``.txt`` and ``.txt.gz``: XMC text, see `read_xmc`; a name that ends in ``X_Xf.txt`` is read together with the
        ``X_Y.txt`` beside it. ``.svm``, ``.svmlight``, ``.libsvm`` (and ``.gz``): `read_svmlight`. ``X….npz``:
        `read_npz`. A directory: `read_csr_directory`.
    n_features, n_labels : int, optional
        Minimum number of columns, for formats that do not store it (svmlight): a test set may lack the last columns of
        its training set. Formats that store the number ignore it.
    max_unpacked_bytes : int, optional
        How much gzip or npz may unpack to; default: 100 times its size, at least 16 MiB, or the number in the
        environment variable ``LONGTAIL_MAX_UNPACKED_BYTES``. A file that unpacks to more is refused.

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
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.svm.gz")
    >>> lt.datasets.write(path, np.eye(2), np.eye(2))
    >>> X, Y = lt.datasets.read(path)
    >>> X.shape, Y.shape
    ((2, 2), (2, 2))
    """
    path = Path(path)
    is_directory, ending = path.is_dir(), ending_of(path.name)
    for known in FORMATS:
        if known.is_directory == is_directory and (is_directory or ending in known.endings):
            X, Y = known.read(path, max_unpacked_bytes)
            return (X, Y) if known.stores_columns else _widened(X, Y, n_features or 0, n_labels or 0)
    raise _unknown(path, ending)


def _widened(X: Csr, Y: Csr, n_features: int, n_labels: int) -> tuple[Csr, Csr]:
    """Add empty columns at the end; ids beyond the wanted number stay, for whoever knows what they mean."""
    for matrix, n_columns in ((X, n_features), (Y, n_labels)):
        if matrix.shape[1] < n_columns:
            matrix.resize(matrix.shape[0], n_columns)
    return X, Y


def write(path: str | PathLike[str], X: Any, Y: Any, *, overwrite: bool = False) -> None:
    """Write a data set by file extension.

    Parameters
    ----------
    path : str or path-like
        As for `read`; a name without an ending, or with ``.csr``, becomes a CSR directory.
    X : sparse matrix or ndarray of shape (n_rows, n_features)
        Features; finite, converted to float32.
    Y : sparse matrix or ndarray of shape (n_rows, n_labels)
        Every entry that is not 0 is a label.
    overwrite : bool, default False
        Replace an existing file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> lt.datasets.write(path, np.eye(2), np.eye(2))
    >>> path.read_text()
    '2 2 2\\n0 0:1\\n1 1:1\\n'
    """
    path = Path(path)
    ending = ending_of(path.name)
    for known in FORMATS:
        if ending in known.endings:
            return known.write(path, X, Y, overwrite)
    raise _unknown(path, ending)


def _unknown(path: Path, ending: str) -> ValueError:
    if ending in TEXT_ENDINGS:
        return ValueError(f"{path}: {ending} is a format of texts, here rows of numbers are wanted; use {_KNOWN}")
    return ValueError(
        f"{path}: no format with the ending {ending!r} is known; rows of numbers: {_KNOWN}; "
        f"texts: {', '.join(TEXT_ENDINGS)} (each also .gz), or a directory of .txt files"
    )
