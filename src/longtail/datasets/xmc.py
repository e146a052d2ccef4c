"""The text format of the Extreme Classification Repository."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail.datasets._csr import checked_csr, checked_labels, ones_where_nonzero
from longtail.datasets._rows import read_rows, write_rows
from longtail.datasets._streams import new_file

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr


def read_xmc(
    path: str | PathLike[str],
    labels_path: str | PathLike[str] | None = None,
    *,
    n_jobs: int | None = None,
    max_unpacked_bytes: int | None = None,
) -> tuple[Csr, Csr]:
    """Read a data set in the XMC text format.

    The first line is ``n_rows n_features n_labels``, each further line one row ``l1,l2 f:v f:v``, ids from 0. Lines
    that begin with a blank have no labels. Features may come in any order; values of a repeated feature are
    added up, repeated labels count once. Trailing blanks, CRLF and a missing last newline are fine. Gzip is
    recognised by its content.

    Parameters
    ----------
    path : str or path-like
        The file; in the older two-file layout the one with the features (``trn_X_Xf.txt``).
    labels_path : str or path-like, optional
        The file with the labels (``trn_X_Y.txt``) in the two-file layout, where each file is a sparse matrix with
        the header ``n_rows n_columns`` and lines ``column:value``. Labels with value 0 are left out.
    n_jobs : int, optional
        Threads; default: as many as this process may use. The result does not depend on it.
    max_unpacked_bytes : int, optional
        How much gzip may unpack to; default: 100 times its size, at least 16 MiB, or the number in the environment
        variable ``LONGTAIL_MAX_UNPACKED_BYTES``. A file that unpacks to more is refused.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features), float32
        Sorted, without duplicates.
    Y : csr_array of shape (n_rows, n_labels), float32
        1 where a row has a label.

    Raises
    ------
    ValueError
        With file, line and column of the first thing that is wrong.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> _ = path.write_text("2 4 3\\n0,2 1:0.5 3:2\\n 0:1\\n")
    >>> X, Y = lt.datasets.read_xmc(path)
    >>> X.toarray()
    array([[0. , 0.5, 0. , 2. ],
           [1. , 0. , 0. , 0. ]], dtype=float32)
    >>> Y.toarray()
    array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """
    if labels_path is None:
        return read_rows(Path(path), "xmc", n_jobs, max_unpacked_bytes=max_unpacked_bytes)
    X, _ = read_rows(Path(path), "matrix", n_jobs, max_unpacked_bytes=max_unpacked_bytes)
    Y, _ = read_rows(Path(labels_path), "matrix", n_jobs, max_unpacked_bytes=max_unpacked_bytes)
    if X.shape[0] != Y.shape[0]:
        raise ValueError(f"{path} has {X.shape[0]} rows, but {labels_path} has {Y.shape[0]}")
    return X, ones_where_nonzero(Y)


def write_xmc(
    path: str | PathLike[str],
    X: Any,
    Y: Any,
    labels_path: str | PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    n_jobs: int | None = None,
) -> None:
    """Write a data set in the XMC text format.

    Values are written in the shortest form that reads back as the same float32. The file appears when it is complete;
    names that end in ``.gz`` are gzipped.

    Parameters
    ----------
    path : str or path-like
        The new file.
    X : sparse matrix or ndarray of shape (n_rows, n_features)
        Features; finite, converted to float32.
    Y : sparse matrix or ndarray of shape (n_rows, n_labels)
        Every entry that is not 0 is a label.
    labels_path : str or path-like, optional
        Write the two-file layout: features to `path`, labels here.
    overwrite : bool, default False
        Replace an existing file.
    n_jobs : int, optional
        Threads; default: as many as this process may use.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.txt")
    >>> lt.datasets.write_xmc(path, np.array([[0, 0.5], [1, 0]]), np.array([[1, 1, 0], [0, 0, 0]]))
    >>> print(path.read_text())
    2 2 3
    0,1 1:0.5
     0:1
    <BLANKLINE>
    """
    X = checked_csr("X", X)
    Y = checked_labels(Y, X.shape[0])
    if labels_path is None:
        with new_file(Path(path), overwrite=overwrite) as file:
            file.write(b"%d %d %d\n" % (*X.shape, Y.shape[1]))
            write_rows(file, X, Y, n_jobs)
        return
    with (
        new_file(Path(path), overwrite=overwrite) as features_file,
        new_file(Path(labels_path), overwrite=overwrite) as labels_file,
    ):
        for matrix, file in ((X, features_file), (Y, labels_file)):
            file.write(b"%d %d\n" % matrix.shape)
            write_rows(file, matrix, None, n_jobs)
