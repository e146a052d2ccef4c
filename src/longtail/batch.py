"""Rank many rows or tag many texts block by block, on any executor: what ``longtail predict --on ray`` does."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._base import XMCClassifier
from longtail._matrices import Matrix, csr_from_parts
from longtail._progress import Progress
from longtail._threads import resolve_n_jobs
from longtail._topk import TopK
from longtail.datasets import unit_rows as scale_to_unit_rows
from longtail.execution import Array, Arrays, Executor, Params, Plan, Run, Scalar, Shard
from longtail.tagging import Tagger

_BLOCK_ROWS = 8192
# Every block is a few objects on the cluster: of very many rows the blocks grow, not their number.
_MAX_BLOCKS = 256


class Ranking(NamedTuple):
    """The labels of one row, best first: ids, or names if the model is a Tagger."""

    labels: list[Any]
    scores: list[float]


def rank_rows(
    model: XMCClassifier,
    X: Matrix,
    top_k: int = 5,
    *,
    unit_rows: bool = False,
    executor: str | Executor | None = None,
    progress: Progress = None,
) -> Iterator[TopK]:
    """Rank the labels of every row; yield the answers block by block, in order, as they come.

    Parameters
    ----------
    model : a fitted estimator
    X : CSR matrix or array (n_rows, n_features)
    top_k : int, default 5
    unit_rows : bool, default False
        Scale every row to length 1 first.
    executor : as for ``fit``
    progress : as for ``fit``

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> from longtail.batch import rank_rows
    >>> model = lt.Popularity().fit(np.eye(3), np.array([[1, 0], [1, 0], [0, 1]]))
    >>> [top.label_ids.ravel().tolist() for top in rank_rows(model, np.eye(3), top_k=1)]
    [[0, 0, 0]]
    """
    model._check_fitted()
    X = model._validated(X, reset=False)
    n_jobs = resolve_n_jobs(model.n_jobs)
    arrays = _packed(_single_threaded(model))
    borders = _borders(X.shape[0])
    for block_id, (first, last) in enumerate(borders):
        if sp.issparse(X):
            begin, end = X.indptr[first], X.indptr[last]
            arrays[f"indptr.{block_id}"] = X.indptr[first : last + 1] - begin
            arrays[f"indices.{block_id}"] = X.indices[begin:end]
            arrays[f"values.{block_id}"] = X.data[begin:end]
        else:
            arrays[f"rows.{block_id}"] = X[first:last]
    params = {"top_k": int(top_k), "unit_rows": bool(unit_rows), "n_features": X.shape[1]}
    for shard in _stream("rows", rank_block, arrays, params, len(borders), n_jobs, executor, progress):
        yield TopK(shard["label_ids"], shard["scores"])


def tag_texts(
    tagger: Tagger,
    texts: Sequence[str],
    top_k: int = 5,
    *,
    executor: str | Executor | None = None,
    progress: Progress = None,
) -> Iterator[Ranking]:
    """Rank the labels of every text; yield label names and scores in order, as they come.

    Parameters
    ----------
    tagger : a fitted Tagger
    texts : list of str
    top_k, executor, progress
        As for `rank_rows`.
    """
    n_jobs = resolve_n_jobs(tagger.estimator.n_jobs)
    tagger = copy.copy(tagger)
    tagger.estimator = _single_threaded(tagger.estimator)
    arrays = _packed(tagger)
    borders = _borders(len(texts))
    for block_id, (first, last) in enumerate(borders):
        arrays[f"texts.{block_id}"] = _as_bytes(list(texts[first:last]))
    for shard in _stream("texts", tag_block, arrays, {"top_k": int(top_k)}, len(borders), n_jobs, executor, progress):
        for labels, scores in json.loads(shard["answers"].tobytes()):
            yield Ranking(labels, scores)


def rank_block(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Rank the labels of one block of rows."""
    X: Matrix
    if f"rows.{task_id}" in arrays:
        X = arrays[f"rows.{task_id}"]
    else:
        indptr, indices, values = (arrays[f"{part}.{task_id}"] for part in ("indptr", "indices", "values"))
        X = csr_from_parts(values, indices, indptr, (len(indptr) - 1, int(params["n_features"] or 0)))
    top = _unpacked(arrays).predict_top_k(
        scale_to_unit_rows(X) if params["unit_rows"] else X, int(params["top_k"] or 0)
    )
    return {"label_ids": top.label_ids, "scores": top.scores}


def tag_block(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Tag one block of texts."""
    answers = _unpacked(arrays).tag(json.loads(arrays[f"texts.{task_id}"].tobytes()), int(params["top_k"] or 0))
    return {"answers": _as_bytes([[[tag.label for tag in tags], [tag.score for tag in tags]] for tags in answers])}


def _stream(
    unit: Literal["rows", "texts"],
    task: Any,
    arrays: Arrays,
    params: dict[str, Scalar],
    n_tasks: int,
    n_jobs: int,
    executor: str | Executor | None,
    progress: Progress,
) -> Iterator[Shard]:
    plan = Plan(owner="predict", unit=f"blocks of {unit}", task=task, arrays=arrays, params=params, n_tasks=n_tasks)
    with Run("predict", n_jobs, executor=executor, progress=progress) as run:
        yield from run.stream(plan)


def _borders(n_rows: int) -> list[tuple[int, int]]:
    n_block = max(_BLOCK_ROWS, -(-n_rows // _MAX_BLOCKS))
    return [(first, min(first + n_block, n_rows)) for first in range(0, n_rows, n_block)]


def _single_threaded(model: XMCClassifier) -> XMCClassifier:
    """The same model for a task, which is one thread."""
    return copy.copy(model).set_params(n_jobs=1)


def _packed(model: Any) -> dict[str, Array]:
    """Take a model apart into bytes and arrays, which are not copied. Never stored: files are longtail.save's."""
    buffers: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    arrays: dict[str, Array] = {"model": np.frombuffer(frame, dtype=np.uint8)}
    for number, buffer in enumerate(buffers):
        arrays[f"model.{number}"] = np.frombuffer(buffer.raw(), dtype=np.uint8)
    return arrays


def _unpacked(arrays: Arrays) -> Any:
    n_buffers = sum(name.startswith("model.") for name in arrays)
    return pickle.loads(
        arrays["model"].tobytes(), buffers=[arrays[f"model.{number}"].data for number in range(n_buffers)]
    )


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), dtype=np.uint8)
