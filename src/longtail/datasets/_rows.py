"""The native text reader and writer, joined to files."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

import numpy as np

from longtail import _core
from longtail._rules import N_JOBS, check_value
from longtail._threads import resolve_n_jobs
from longtail.datasets._csr import build_csr, build_labels
from longtail.datasets._limits import UnpackLimit
from longtail.datasets._streams import ahead, guess_text_bytes, is_plain_file, read_blocks

if TYPE_CHECKING:
    from longtail.datasets._csr import Csr

_ROWS_PER_WRITE = 8192


def read_rows(
    path: Path,
    dialect: Literal["xmc", "matrix", "svmlight"],
    n_jobs: int | None,
    *,
    first_feature_id: int = 0,
    n_features: int | None = None,
    n_labels: int | None = None,
    max_unpacked_bytes: int | None = None,
) -> tuple[Csr, Csr]:
    """Read features and labels; a dialect without labels gives a label matrix of no columns."""
    check_value(f"read_{dialect}", "n_jobs", n_jobs, N_JOBS)
    n_threads = resolve_n_jobs(n_jobs)
    control = _core.Control()
    reader = _core.TextReader(
        str(path),
        dialect,
        first_feature_id=first_feature_id,
        n_features=-1 if n_features is None else n_features,
        n_labels=-1 if n_labels is None else n_labels,
    )
    try:
        if is_plain_file(path):
            reader.read_file(path, n_threads, control)
        else:
            limit = UnpackLimit(str(path), max_unpacked_bytes)
            reader.expect_bytes(min(guess_text_bytes(path), limit.allowed(path.stat().st_size)))
            blocks = read_blocks(path, limit)
            # Unpacking takes longer than parsing, so one thread for each is all that helps. Not for pipes: a thread
            # that waits for one cannot be stopped.
            for block in ahead(blocks) if n_threads > 1 and path.is_file() else blocks:
                reader.feed(block, 1, control)
        n_rows, n_columns, n_label_columns, x_indptr, x_indices, x_values, y_indptr, y_indices = reader.finish(control)
    except _core.Cancelled:
        raise KeyboardInterrupt from None
    return (
        build_csr((n_rows, n_columns), x_indptr, x_indices, x_values),
        build_labels((n_rows, n_label_columns), y_indptr, y_indices),
    )


def write_rows(file: IO[bytes], X: Csr, Y: Csr | None, n_jobs: int | None, *, first_feature_id: int = 0) -> None:
    """Write one line per row; without Y, lines have no label part."""
    check_value("write_rows", "n_jobs", n_jobs, N_JOBS)
    n_threads = resolve_n_jobs(n_jobs)
    control = _core.Control()
    x_indptr = X.indptr.astype(np.int64)
    y_indptr = np.zeros(X.shape[0] + 1, dtype=np.int64) if Y is None else Y.indptr.astype(np.int64)
    y_indices = np.zeros(0, dtype=np.int32) if Y is None else Y.indices
    for first_row in range(0, X.shape[0], _ROWS_PER_WRITE):
        try:
            parts = _core.write_rows(
                X.shape[1],
                x_indptr,
                X.indices,
                X.data,
                0 if Y is None else Y.shape[1],
                y_indptr,
                y_indices,
                first_row=first_row,
                last_row=min(first_row + _ROWS_PER_WRITE, X.shape[0]),
                has_labels=Y is not None,
                first_feature_id=first_feature_id,
                n_threads=n_threads,
                control=control,
            )
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        file.writelines(parts)
