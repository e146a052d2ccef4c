"""Propose labels for many inputs block by block, on any executor: the one way from a file to its predictions."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._csr import csr_from_parts
from longtail._matrices import canonical_csr
from longtail._model import Model
from longtail._progress import Progress
from longtail._threads import resolve_n_jobs
from longtail._topk import Tag
from longtail.execution import Array, Arrays, Executor, Params, Plan, Run, Shard

_BLOCK_ROWS = 8192
# Every block is a few objects on the cluster: for very many inputs the blocks grow, not their number.
_MAX_BLOCKS = 256


def propose(
    model: Model,
    inputs: Any,
    top_k: int | None = 5,
    *,
    threshold: Any = None,
    executor: str | Executor | None = None,
    progress: Progress = None,
    **ranking: Any,
) -> Iterator[list[Tag]]:
    """Propose labels for every input; yield the answers in order, as they come.

    Parameters
    ----------
    model : a fitted estimator or Tagger
    inputs : texts, or a CSR matrix or array (n_rows, n_features), as the model takes them
    top_k, threshold
        As for the model's ``propose``.
    executor : as for ``fit``; default: this process, with the model's own threads
    progress : as for ``fit``
    **ranking
        Further options of the model's ``predict_top_k``, such as FastXML's ``n_trees``.

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> from longtail.batch import propose
    >>> model = lt.Popularity().fit(np.eye(3), np.array([[1, 0], [1, 0], [0, 1]]))
    >>> [[tag.label for tag in tags] for tags in propose(model, np.eye(3), top_k=1)]
    [[0], [0], [0]]
    """
    n_jobs = resolve_n_jobs(model.card()["parameters"]["n_jobs"])
    # A task of an executor is one thread; here, a block may use all of them.
    arrays = _packed(model if executor is None else model.with_threads(1))
    inputs = inputs if isinstance(inputs, list) else canonical_csr(inputs) if sp.issparse(inputs) else inputs
    n_inputs = len(inputs) if isinstance(inputs, list) else inputs.shape[0]
    borders = _borders(n_inputs)
    for block_id, (first, last) in enumerate(borders):
        arrays |= {f"{name}.{block_id}": part for name, part in _block(inputs, first, last).items()}
    plan = Plan(
        owner="predict",
        unit="blocks",
        task=propose_block,
        arrays=arrays,
        params={"options": json.dumps({"top_k": top_k, "threshold": threshold, **ranking})},
        n_tasks=len(borders),
    )
    with Run("predict", n_jobs, executor=executor or "inline", progress=progress) as run:
        for shard in run.stream(plan):
            for tags in json.loads(shard["answers"].tobytes()):
                yield [Tag(*tag) for tag in tags]


def propose_block(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Propose labels for one block of inputs."""
    options = json.loads(str(params["options"]))
    return {"answers": _as_bytes(_unpacked(arrays).propose(_inputs(arrays, task_id), **options))}


def _block(inputs: Any, first: int, last: int) -> dict[str, Array]:
    if isinstance(inputs, list):
        return {"texts": _as_bytes(inputs[first:last])}
    if not sp.issparse(inputs):
        return {"rows": np.ascontiguousarray(inputs[first:last])}
    begin, end = inputs.indptr[first], inputs.indptr[last]
    return {
        "n_features": np.array([inputs.shape[1]], dtype=np.int64),
        "indptr": inputs.indptr[first : last + 1] - begin,
        "indices": inputs.indices[begin:end],
        "values": inputs.data[begin:end],
    }


def _inputs(arrays: Arrays, block_id: int) -> Any:
    if f"texts.{block_id}" in arrays:
        return json.loads(arrays[f"texts.{block_id}"].tobytes())
    if f"rows.{block_id}" in arrays:
        return arrays[f"rows.{block_id}"]
    indptr, indices, values = (arrays[f"{part}.{block_id}"] for part in ("indptr", "indices", "values"))
    return csr_from_parts(values, indices, indptr, (len(indptr) - 1, int(arrays[f"n_features.{block_id}"][0])))


def _borders(n_rows: int) -> list[tuple[int, int]]:
    n_block = max(_BLOCK_ROWS, -(-n_rows // _MAX_BLOCKS))
    return [(first, min(first + n_block, n_rows)) for first in range(0, n_rows, n_block)]


def _packed(model: Any) -> dict[str, Array]:
    """Take a model apart into bytes and arrays, which are not copied. Sent to workers only, never stored."""
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
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), dtype=np.uint8)
