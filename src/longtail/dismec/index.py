"""The fitted weights: merge label-major shards into one feature-major index, in memory or in mapped files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._csr import csr_from_parts
from longtail.dismec.state import WeightIndex
from longtail.execution import Shard, empty_array


def merge_shards(
    shards: Sequence[Shard],
    shard_labels: Sequence[NDArray[np.int64]],
    n_features: int,
    n_labels: int,
    *,
    int8: bool,
    directory: str | os.PathLike[str] | None = None,
) -> WeightIndex:
    """Build the index shard by shard; with a directory, its large arrays are mapped from nameless files on that disk.

    `shard_labels[i]` names the label of each row of shard i. One shard is in memory at a time.
    """
    counts = np.zeros(n_features, dtype=np.int64)
    biases = np.zeros(n_labels, dtype=np.float32)
    scales = np.zeros(n_labels if int8 else 0, dtype=np.float32)
    for shard, label_ids in zip(shards, shard_labels, strict=True):
        counts += np.bincount(shard["feature_ids"], minlength=n_features)
        biases[label_ids] = shard["biases"]
        if int8:
            scales[label_ids] = label_scales(shard["indptr"], shard["weights"])
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    n_weights = int(indptr[-1])
    index_labels = empty_array(n_weights, np.int32, directory)
    index_weights = empty_array(0 if int8 else n_weights, np.float32, directory)
    index_codes = empty_array(n_weights if int8 else 0, np.int8, directory)
    cursor = indptr[:-1].copy()
    # Labels of a feature are in order only if ids increase from shard to shard; the order of a label tree needs a sort.
    in_order = all(np.all(np.diff(ids) > 0) for ids in shard_labels) and all(
        a[-1] < b[0] for a, b in itertools.pairwise(shard_labels) if len(a) and len(b)
    )
    for shard, label_ids in zip(shards, shard_labels, strict=True):
        by_feature = sp.csr_array(
            (shard["weights"], shard["feature_ids"], shard["indptr"]), shape=(len(label_ids), n_features)
        ).tocsc()
        sizes = np.diff(by_feature.indptr).astype(np.int64)
        places = np.repeat(cursor - by_feature.indptr[:-1], sizes) + np.arange(len(by_feature.data))
        ids = label_ids[by_feature.indices].astype(np.int32)
        index_labels[places] = ids
        if int8:
            safe = np.where(scales[ids] > 0, scales[ids], 1)
            index_codes[places] = np.rint(by_feature.data / safe).astype(np.int8)
        else:
            index_weights[places] = by_feature.data
        cursor += sizes
    index = WeightIndex(indptr, index_labels, index_weights, index_codes, scales, biases)
    return index if in_order else _sorted_by_label(index)


def label_major(index: WeightIndex, n_labels: int) -> sp.csr_array:
    """Return the float32 weights as (n_labels, n_features) CSR."""
    values = index.weights if len(index.weights) else index.codes * index.scales[index.label_ids]
    by_feature = csr_from_parts(
        np.asarray(values, dtype=np.float32), index.label_ids, index.indptr, (len(index.indptr) - 1, n_labels)
    )
    by_label = by_feature.T.tocsr()
    by_label.sort_indices()
    return by_label


def drop_labels(index: WeightIndex, is_dropped: NDArray[np.bool_]) -> WeightIndex:
    """Remove every weight of the marked labels; ids stay as they are."""
    kept = ~is_dropped[index.label_ids]
    return WeightIndex(
        _indptr_of_kept(index.indptr, kept),
        index.label_ids[kept],
        index.weights[kept] if len(index.weights) else index.weights,
        index.codes[kept] if len(index.codes) else index.codes,
        np.where(is_dropped, np.float32(0), index.scales) if len(index.scales) else index.scales,
        np.where(is_dropped, np.float32(0), index.biases),
    )


def append_labels(index: WeightIndex, new: WeightIndex) -> WeightIndex:
    """Put the labels of `new` behind those of `index`."""
    n_old = len(index.biases)
    sizes, new_sizes = np.diff(index.indptr), np.diff(new.indptr)
    indptr = index.indptr + new.indptr
    places = np.repeat(indptr[:-1] - index.indptr[:-1], sizes) + np.arange(len(index.label_ids))
    new_places = np.repeat(indptr[:-1] + sizes - new.indptr[:-1], new_sizes) + np.arange(len(new.label_ids))

    def joined(old: NDArray[Any], added: NDArray[Any]) -> NDArray[Any]:
        if not len(old) and not len(added):
            return old
        out = np.empty(len(places) + len(new_places), dtype=old.dtype)
        out[places], out[new_places] = old, added
        return out

    return WeightIndex(
        indptr,
        joined(index.label_ids, (new.label_ids + n_old).astype(np.int32)),
        joined(index.weights, new.weights),
        joined(index.codes, new.codes),
        np.concatenate([index.scales, new.scales]),
        np.concatenate([index.biases, new.biases]),
    )


def label_scales(indptr: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give the step of each label's int8 codes: its largest |weight| / 127."""
    largest = np.zeros(len(indptr) - 1, dtype=np.float32)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        largest[filled] = np.maximum.reduceat(np.abs(weights), indptr[filled])
    return largest / np.float32(127)


def _sorted_by_label(index: WeightIndex) -> WeightIndex:
    features = np.repeat(np.arange(len(index.indptr) - 1), np.diff(index.indptr))
    order = np.lexsort((index.label_ids, features))
    weights = index.weights[order] if len(index.weights) else index.weights
    codes = index.codes[order] if len(index.codes) else index.codes
    return WeightIndex(index.indptr, index.label_ids[order], weights, codes, index.scales, index.biases)


def _indptr_of_kept(indptr: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    running = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=running[1:])
    return running[indptr]
