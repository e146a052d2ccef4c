"""What a user is told where training takes far longer than usual, or the model is not what its parameters promise."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail._matrices import Matrix
from longtail._words import counted

_logger = logging.getLogger("longtail")

# The cost times the square of a row's length acts like the cost of rows of length 1, for which these solvers are made.
_MOST_UNIT_COST = 1000.0
_N_MEASURED_ROWS = 1000  # their median is close enough to that of all rows


def warn_of_long_rows(X: Matrix, *, cost: float) -> None:
    """Log that most rows are so long that solvers need very many steps, if they are."""
    row_ids = range(0, X.shape[0], max(1, X.shape[0] // _N_MEASURED_ROWS))
    if isinstance(X, np.ndarray):
        rows = [X[row] for row in row_ids]
    else:
        rows = [X.data[X.indptr[row] : X.indptr[row + 1]] for row in row_ids]
    square = float(np.median([np.dot(row, row) for row in rows])) if rows else 0.0
    if cost * square > _MOST_UNIT_COST:
        _logger.warning(
            "DiSMEC: rows are long for cost=%g (median length %.3g): training may take very long and end far from the "
            "minimum; scale the rows with unit_rows=True",
            cost,
            square**0.5,
        )


def warn_of_unconverged(n_unconverged: int, n_labels: int, *, max_iterations: int, tolerance: float) -> None:
    """Log how many of the trained labels ended before the stopping rule was met, if any."""
    if n_unconverged:
        _logger.warning(
            "DiSMEC: %s of %s did not converge; raise max_iterations (now %d) or tolerance (now %g)",
            f"{n_unconverged:,}",
            counted(n_labels, "label"),
            max_iterations,
            tolerance,
        )


def warn_of_pruning(n_weights: int, X: Any, *, prune_below: float, unit_rows: bool) -> None:
    """Log that pruning left a model without any weight, if it did; rows without values give no weights to prune."""
    if n_weights or not prune_below or not np.any(sp.csr_array(X).data if sp.issparse(X) else np.asarray(X)):
        return
    way_out = "" if unit_rows else " or scale the rows (unit_rows=True)"
    _logger.warning("DiSMEC: prune_below=%g removed all weights; set prune_below=0%s", prune_below, way_out)
