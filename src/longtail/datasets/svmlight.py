"""The svmlight (libsvm) text format with several labels a row."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longtail._rules import Int, Nothing, check_value
from longtail.datasets._csr import checked_csr, checked_labels
from longtail.datasets._rows import read_rows, write_rows
from longtail.datasets._streams import new_file

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr

_COUNT = (Nothing(), Int(0, 2**31 - 1))


def read_svmlight(
    path: str | PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    one_based: bool = False,
    n_jobs: int | None = None,
    max_unpacked_bytes: int | None = None,
) -> tuple[Csr, Csr]:
    """Read a data set in the multi-label svmlight format.

    Lines are ``l1,l2 f:v f:v``, as in the XMC format, but without a header; ``#`` begins a comment. Empty lines are
    skipped; a line of blanks is a row without labels and features. Gzip is recognised by its content.

    Parameters
    ----------
    path : str or path-like
    n_features, n_labels : int, optional
        The numbers of columns; default: the largest id in the file + 1. Give those of the training set for a
        test set.
    one_based : bool, default False
        The file counts features from 1, as libsvm's own files do. Labels always count from 0.
    n_jobs : int, optional
        Threads; default: as many as this process may use. The result does not depend on it.
    max_unpacked_bytes : int, optional
        How much gzip may unpack to; default: 100 times its size, at least 16 MiB, or the number in the environment
        variable ``LONGTAIL_MAX_UNPACKED_BYTES``. A file that unpacks to more is refused.

    Returns
    -------
    X : csr_array of shape (n_rows, n_features), float32
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
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.svm")
    >>> _ = path.write_text("0,2 1:0.5 3:2  # a comment\\n1 2:1\\n")
    >>> X, Y = lt.datasets.read_svmlight(path, one_based=True)
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]], dtype=float32)
    >>> Y.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    check_value("read_svmlight", "n_features", n_features, _COUNT)
    check_value("read_svmlight", "n_labels", n_labels, _COUNT)
    return read_rows(
        Path(path),
        "svmlight",
        n_jobs,
        first_feature_id=int(one_based),
        n_features=n_features,
        n_labels=n_labels,
        max_unpacked_bytes=max_unpacked_bytes,
    )


def write_svmlight(
    path: str | PathLike[str],
    X: Any,
    Y: Any,
    *,
    one_based: bool = False,
    overwrite: bool = False,
    n_jobs: int | None = None,
) -> None:
    """Write a data set in the multi-label svmlight format.

    Parameters
    ----------
    path : str or path-like
        The new file; gzipped when its name ends in ``.gz``.
    X : sparse matrix or ndarray of shape (n_rows, n_features)
        Features; finite, converted to float32.
    Y : sparse matrix or ndarray of shape (n_rows, n_labels)
        Every entry that is not 0 is a label.
    one_based : bool, default False
        Count features from 1.
    overwrite : bool, default False
        Replace an existing file.
    n_jobs : int, optional
        Threads; default: as many as this process may use.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import longtail as lt
    >>> path = pathlib.Path(tempfile.mkdtemp(), "tiny.svm")
    >>> lt.datasets.write_svmlight(path, np.array([[0, 0.5]]), np.array([[1, 1]]), one_based=True)
    >>> print(path.read_text(), end="")
    0,1 2:0.5
    """
    X = checked_csr("X", X)
    Y = checked_labels(Y, X.shape[0])
    with new_file(Path(path), overwrite=overwrite) as file:
        write_rows(file, X, Y, n_jobs, first_feature_id=int(one_based))
