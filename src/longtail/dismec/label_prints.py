"""Which labels a second fit must train, and how the others are carried over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail._matrices import Columns
from longtail.dismec.equal_labels import mix, row_sums
from longtail.dismec.index import label_major
from longtail.dismec.state import WeightIndex
from longtail.execution import Arrays, Shard

_HISTORIES = ("objectives", "active_rows", "step_sizes", "step_seconds", "step_cg_steps")
_PER_LABEL = (
    "iterations",
    "cg_steps",
    "converged",
    "seconds",
    "first_objective",
    "last_objective",
    "gradient_ratio",
    "distance",
)


def label_prints(
    matrix: Arrays, shape: tuple[int, int], columns: Columns, params: Mapping[str, object]
) -> NDArray[np.int64]:
    """Hash what each label's result depends on: X, its rows, the parameters. Never 0."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
    digest = hashlib.blake2b(json.dumps([list(shape), plain]).encode(), digest_size=8)
    for name in sorted(matrix):
        digest.update(np.ascontiguousarray(matrix[name]).reshape(-1).view(np.uint8).data)
    salt = np.uint64(int.from_bytes(digest.digest(), "little"))
    prints = mix(row_sums(columns, salt) ^ salt ^ np.diff(columns[0]).astype(np.uint64)).view(np.int64)
    return np.where(prints == 0, np.int64(1), prints)


def unchanged(prints: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the labels that an earlier model has already trained on the same rows with the same parameters."""
    same = np.zeros(len(prints), dtype=bool)
    n_common = min(len(prints), len(earlier))
    same[:n_common] = prints[:n_common] == earlier[:n_common]
    return same


def own_starts(earlier: WeightIndex, n_earlier: int, label_ids: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Give the weights that the labels begin with, label-major in the order of `label_ids`; new labels have none."""
    by_label = label_major(earlier, n_earlier)
    known = label_ids[label_ids < n_earlier]
    chosen = by_label[known]
    indptr = np.concatenate([chosen.indptr, np.full(len(label_ids) - len(known), chosen.indptr[-1])])
    biases = np.zeros(len(label_ids), dtype=np.float32)
    biases[: len(known)] = earlier.biases[known]
    return {
        "own_indptr": indptr.astype(np.int64),
        "own_feature_ids": chosen.indices.astype(np.int32),
        "own_weights": chosen.data.astype(np.float32),
        "own_biases": biases,
    }


def keep_columns(index: WeightIndex, earlier: WeightIndex, kept: NDArray[np.bool_]) -> WeightIndex:
    """Fill the empty columns `kept` of an index with those of an earlier one."""
    in_kept = np.zeros(len(earlier.biases), dtype=bool)
    in_kept[: len(kept)] = kept[: len(in_kept)]
    taken = in_kept[earlier.label_ids]
    n_features = len(index.indptr) - 1
    feature_of = np.arange(n_features)
    features = np.concatenate(
        [
            np.repeat(feature_of, np.diff(index.indptr)),
            np.repeat(feature_of, np.diff(earlier.indptr))[taken],
        ]
    )
    label_ids = np.concatenate([index.label_ids, earlier.label_ids[taken]])
    order = np.lexsort((label_ids, features))
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    np.cumsum(np.bincount(features, minlength=n_features), out=indptr[1:])

    def joined(new: NDArray[Any], old: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([new, old[taken]])[order] if len(old) or len(new) else new

    biases, scales = index.biases.copy(), index.scales.copy()
    ids = np.flatnonzero(kept)
    biases[ids] = earlier.biases[ids]
    if len(scales):
        scales[ids] = earlier.scales[ids]
    weights = joined(index.unpacked(), earlier.unpacked())
    codes = joined(index.codes, earlier.codes)
    return WeightIndex.packed(indptr, label_ids[order].astype(np.int32), weights, codes, scales, biases)


def merge_statistics(
    shards: Sequence[Shard], shard_labels: Sequence[NDArray[np.int64]], n_labels: int
) -> dict[str, NDArray[Any]]:
    """Lay out the statistics of all tasks by label id; labels that were not trained have zeros."""
    trained = np.concatenate(list(shard_labels))
    merged: dict[str, NDArray[Any]] = {}
    for name in _PER_LABEL:
        values = np.concatenate([shard[name] for shard in shards])
        merged[name] = np.zeros(n_labels, dtype=values.dtype)
        merged[name][trained] = values
    sizes = np.zeros(n_labels, dtype=np.int64)
    sizes[trained] = np.concatenate([np.diff(shard["history_indptr"]) for shard in shards])
    indptr = np.zeros(n_labels + 1, dtype=np.int64)
    np.cumsum(sizes, out=indptr[1:])
    merged["history_indptr"] = indptr
    own_sizes = sizes[trained]
    begins = np.cumsum(own_sizes) - own_sizes
    places = np.repeat(indptr[trained] - begins, own_sizes) + np.arange(own_sizes.sum())
    for name in _HISTORIES:
        values = np.concatenate([shard[name] for shard in shards])
        merged[name] = np.empty_like(values)
        merged[name][places] = values
    return merged


def append_statistics(
    old: dict[str, NDArray[Any]] | None, new: dict[str, NDArray[Any]] | None
) -> dict[str, NDArray[Any]] | None:
    """Put the statistics of new labels behind those of the old ones; None unless both were kept."""
    if old is None or new is None:
        return None
    joined = {name: np.concatenate([old[name], new[name]]) for name in (*_PER_LABEL, *_HISTORIES)}
    indptr = old["history_indptr"]
    joined["history_indptr"] = np.concatenate([indptr, indptr[-1] + new["history_indptr"][1:]])
    return joined
