"""Which rows a beam leads to which nodes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._matrices import native_rows
from longtail.execution import Run
from longtail.label_tree.state import LabelForest


def rows_by_node(
    forest: LabelForest, X: sp.csr_array, beam_width: int, link_power: int, run: Run
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows whose beam visits each node over labels, as the borders of the nodes and row ids."""
    indptr, row_ids = _core.route_label_tree(
        native_rows(X), forest.native, beam_width, link_power, 1.0, run.n_jobs, run.control
    )
    return indptr, row_ids
