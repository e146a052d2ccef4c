"""Training data as the arrays of a plan, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail._base import XMCClassifier
from longtail._csr import csr_from_parts
from longtail._matrices import Matrix
from longtail.execution import Arrays, Plan, Run, Shard
from longtail.execution.plan import TaskFunction


def arrays_of(X: Matrix, Y: sp.csr_array) -> dict[str, Any]:
    """Name the arrays of X and Y; `data_of` reads them in a task."""
    labels = {"Y.indices": Y.indices, "Y.indptr": Y.indptr, "n_labels": np.array([Y.shape[1]])}
    if not sp.issparse(X):
        return {"X": X} | labels
    return {"X": X.data, "X.indices": X.indices, "X.indptr": X.indptr, "n_features": np.array([X.shape[1]])} | labels


def data_of(arrays: Arrays) -> tuple[Matrix, sp.csr_array]:
    """Return X and Y of the arrays of a plan."""
    X: Any = arrays["X"]
    n_rows = len(arrays["Y.indptr"]) - 1
    if "X.indices" in arrays:
        shape = (n_rows, int(arrays["n_features"][0]))
        X = csr_from_parts(X, arrays["X.indices"], arrays["X.indptr"], shape)
    ones = np.ones(len(arrays["Y.indices"]), dtype=np.float32)
    return X, csr_from_parts(ones, arrays["Y.indices"], arrays["Y.indptr"], (n_rows, int(arrays["n_labels"][0])))


def run_tasks(
    model: XMCClassifier, run: Run, task: TaskFunction, unit: str, n_tasks: int, arrays: Arrays
) -> list[Shard]:
    """Run the tasks of a fit with the parameters of the estimator, all but the number of threads."""
    params = {name: value for name, value in model.get_params(deep=False).items() if name != "n_jobs"}
    owner = type(model).__name__
    return run.map(Plan(owner=owner, unit=unit, task=task, arrays=arrays, params=params, n_tasks=n_tasks))
