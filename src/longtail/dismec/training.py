"""What a label-range task does: the arrays and parameters of a plan in, pruned weights of a range of labels out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import take_lists
from longtail._matrices import Columns, Matrix
from longtail.execution import Arrays, Params, Plan, Shard

# A task is the same labels whatever n_jobs is; large enough that its last, half-empty passes do not count. The last
# tasks are smaller: a quarter of what is left, so that threads end at about the same time.
LABELS_PER_TASK = 512
_LEAST_LABELS_PER_TASK = 256
_TASKS_LEFT = 4
# Among the arrays of a plan: the parts of the inverted index, of the rows without small entries, and of blocks of rows.
_POSTINGS = "postings_"
_COARSE = ("coarse_indptr", "coarse_indices", "coarse_values")
_BLOCKS = ("blocks_features", "blocks_sizes", "blocks_begins", "blocks_places", "blocks_values")


def native_rows_of(arrays: Arrays, n_features: int) -> _core.Rows:
    """Hand the rows of a plan to the native core, sparse or dense."""
    if "x_dense" in arrays:
        return _core.Rows(arrays["x_dense"])
    return _core.Rows(n_features, arrays["x_indptr"], arrays["x_indices"], arrays["x_values"])


def linear_rows(arrays: Arrays, n_features: int) -> _core.LinearRows:
    """Prepare the rows of a plan for the solvers."""
    return _core.LinearRows(native_rows_of(arrays, n_features))


def dense_if_smaller(X: Matrix) -> Matrix:
    """Return sparse rows as an array where most entries are stored: that takes less memory, and solvers are faster."""
    if isinstance(X, np.ndarray) or 2 * X.nnz <= X.shape[0] * X.shape[1]:
        return X
    return X.toarray()


def matrix_arrays(X: Matrix) -> dict[str, NDArray[Any]]:
    """Name the parts of X, as `linear_rows` reads them."""
    if isinstance(X, np.ndarray):
        return {"x_dense": X}
    return {"x_indptr": X.indptr, "x_indices": X.indices, "x_values": X.data}


def training_arrays(
    X: Matrix, columns: Columns, bias: float, row_weights: NDArray[np.float32] | None = None
) -> dict[str, NDArray[Any]]:
    """Collect what every task of a plan shares: X, the labels' rows, the mean row and every row's product with it."""
    arrays = matrix_arrays(X)
    rows = linear_rows(arrays, X.shape[1])
    arrays["y_indptr"], arrays["y_row_ids"] = columns
    if row_weights is None:
        arrays["mean"] = _core.mean_row(rows, bias)
    else:
        weights = row_weights.astype(np.float64)
        arrays["row_weights"] = row_weights
        arrays["mean"] = np.append(X.T @ weights / weights.sum(), bias).astype(np.float32)
    arrays["mean_margins"] = _core.row_margins(rows, arrays["mean"], bias)
    return arrays


def all_negative_weights(arrays: Arrays, params: Params, control: _core.Control, *, strict: bool) -> NDArray[Any]:
    """Solve OvAP's problem (eq. 15), the label that no row carries: n_features + 1 weights, the bias weight last.

    Stopped early by default (ε = ε₀, appendix 7.2); strict uses the rule of every other label (ε = ε₀/n).
    """
    n_rows = len(arrays["mean_margins"])
    bias = _number(params, "bias")
    tolerance = _number(params, "tolerance") * (1 if strict else n_rows)
    shard = _train(
        arrays,
        dict(params) | {"start": "zero", "tolerance": tolerance, "prune_below": 0.0, "train_empty": True},
        (np.zeros(2, np.int64), np.zeros(0, np.int32)),
        {},
        control,
    )
    weights = np.zeros(int(_number(params, "n_features")) + 1, dtype=np.float32)
    weights[shard["feature_ids"]] = shard["weights"]
    weights[-1] = shard["biases"][0] / bias if bias else 0.0
    return weights


def with_shared_parts(arrays: Arrays, params: Params, control: _core.Control, *, n_labels: int) -> Arrays:
    """Add what solvers share between labels.

    That is blocks of rows, coarse rows, or an inverted index and the background of all labels.
    """
    if params["start"] == "zero":
        return arrays
    rows = linear_rows(arrays, int(_number(params, "n_features")))
    config = _config(params)
    if (blocks := _core.ova_row_blocks(rows, config)) is not None:
        return dict(arrays) | dict(zip(_BLOCKS, blocks, strict=True))
    if "row_weights" in arrays:
        return arrays
    if (coarse := _core.ova_coarse_rows(rows, config)) is not None:
        return dict(arrays) | dict(zip(_COARSE, coarse, strict=True))
    background = _core.ova_background(rows, arrays["mean"], config, control)
    if background is not None:
        parts = _core.ova_postings(rows, background)
    elif len(task_bounds(n_labels)) > 2:  # a single task makes them itself, and the background only if it needs it
        lists = _core.ova_word_lists(rows, arrays["mean"], config, control)
        if lists is None:
            return arrays
        parts, background = lists
    else:
        return arrays
    return dict(arrays) | {"background": background} | {_POSTINGS + name: part for name, part in parts.items()}


def task_bounds(n_labels: int) -> NDArray[np.int64]:
    """Return where the ranges of labels of all tasks begin, and where the last one ends."""
    bounds = [0]
    while (left := n_labels - bounds[-1]) > 0:
        size = min(LABELS_PER_TASK, max(_LEAST_LABELS_PER_TASK, left // _TASKS_LEFT))
        bounds.append(bounds[-1] + (size if 2 * left >= 3 * size else left))  # the last one is not tiny
    return np.array(bounds)


def make_plan(arrays: Arrays, params: Params, n_labels: int, control: _core.Control) -> Plan:
    """Cut the labels into ranges that any executor can train."""
    bounds = task_bounds(n_labels)
    arrays = dict(with_shared_parts(arrays, params, control, n_labels=n_labels)) | {"task_bounds": bounds}
    return Plan(
        owner="DiSMEC",
        unit="labels",
        task=train_label_range,
        arrays=arrays,
        params=params,
        n_tasks=len(bounds) - 1,
        n_units=n_labels,
    )


def train_label_range(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Train one range of labels: pruned weights label by label, biases and statistics."""
    places = np.arange(*arrays["task_bounds"][task_id : task_id + 2])
    label_ids = arrays["label_order"][places] if "label_order" in arrays else places
    own: dict[str, NDArray[Any]] = {}
    if "own_indptr" in arrays:
        own["own_indptr"], chosen = take_lists(arrays["own_indptr"], label_ids)
        own["own_feature_ids"] = arrays["own_feature_ids"][chosen]
        own["own_weights"] = arrays["own_weights"][chosen]
        own["own_biases"] = arrays["own_biases"][label_ids]
    if "label_parents" in arrays:
        parents = arrays["label_parents"][places]
        # A parent in another range is not waited for: its child begins like a child of the root.
        own["parents"] = np.where(parents >= places[0], parents - places[0], -1).astype(np.int32)
    if "positive_weights" in arrays:
        own["positive_weights"] = arrays["positive_weights"][label_ids]
    indptr, chosen = take_lists(arrays["y_indptr"], label_ids)
    shard = _train(arrays, params, (indptr, arrays["y_row_ids"][chosen]), own, control)
    if not params["keep_statistics"]:
        shard = {name: shard[name] for name in ("indptr", "feature_ids", "weights", "biases", "converged")}
    return shard


def _config(params: Params) -> _core.OvaConfig:
    return _core.OvaConfig(
        loss=str(params["loss"]),
        cost=_number(params, "cost"),
        tolerance=_number(params, "tolerance"),
        bias=_number(params, "bias"),
        regularize_bias=bool(params["regularize_bias"]),
        prune_below=_number(params, "prune_below"),
        working_sets=bool(params["working_sets"]),
        max_iterations=int(_number(params, "max_iterations")),
        cg_rule=str(params["cg_rule"]),
        cg_tolerance=_number(params, "cg_tolerance"),
        train_empty=bool(params.get("train_empty", False)),
        keep_history=bool(params["keep_statistics"]),
    )


def _train(arrays: Arrays, params: Params, columns: Columns, own: Arrays, control: _core.Control) -> Shard:
    return _core.train_ova(
        linear_rows(arrays, int(_number(params, "n_features"))),
        *columns,
        own.get("positive_weights"),
        arrays.get("row_weights"),
        arrays["mean"],
        arrays["mean_margins"],
        arrays.get("background"),
        _postings(arrays),
        _coarse_rows(arrays, int(_number(params, "n_features"))),
        _row_blocks(arrays),
        _config(params),
        "own" if "own_indptr" in own else str(params["start"]),
        _number(params, "positive_margin"),
        _number(params, "negative_margin"),
        _number(params, "start_bias"),
        arrays.get("shared"),
        arrays.get("shared_margins"),
        own.get("own_indptr"),
        own.get("own_feature_ids"),
        own.get("own_weights"),
        own.get("own_biases"),
        own.get("parents"),
        control,
    )


def _postings(arrays: Arrays) -> dict[str, NDArray[Any]] | None:
    return {name.removeprefix(_POSTINGS): part for name, part in arrays.items() if name.startswith(_POSTINGS)} or None


def _coarse_rows(arrays: Arrays, n_features: int) -> _core.LinearRows | None:
    if _COARSE[0] not in arrays:
        return None
    return _core.LinearRows(_core.Rows(n_features, *(arrays[name] for name in _COARSE)))


def _row_blocks(
    arrays: Arrays,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]] | None:
    if _BLOCKS[0] not in arrays:
        return None
    features, sizes, begins, places, values = (arrays[name] for name in _BLOCKS)
    return features, sizes, begins, places, values


def _number(params: Params, name: str) -> float:
    value = params[name]
    assert isinstance(value, (int, float))  # the estimator's rules have seen it
    return float(value)
