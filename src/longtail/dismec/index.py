"""The fitted weights: merge label-major shards into one feature-major index, in memory or in mapped files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._csr import csr_from_parts, take_lists
from longtail.dismec.equal_labels import EqualLabels
from longtail.dismec.rounding import Steps
from longtail.dismec.state import WeightIndex
from longtail.execution import Shard, empty_array

_WEIGHTS_PER_BLOCK = 1 << 18
BYTES_PER_MERGED_WEIGHT = 40  # of a block, while it is merged


def merge_shards(
    shards: Sequence[Shard],
    shard_labels: Sequence[NDArray[np.int64]],
    n_features: int,
    n_labels: int,
    *,
    int8: bool,
    mean: NDArray[np.float32] | None = None,
    directory: str | os.PathLike[str] | None = None,
    equal: EqualLabels | None = None,
) -> WeightIndex:
    """Build the index shard by shard; with a directory, its large arrays are mapped from nameless files on that disk.

    `shard_labels[i]` names the label of each row of shard i. One shard is in memory at a time. With the `mean` row,
    biases make up for what rounding to int8 adds to the scores of an average row. Weights of a label go to all labels
    that are `equal` to it.
    """
    size = _measured(shards, shard_labels, n_features, n_labels, equal, int8=int8, mean=mean)
    indptr, steps = _ends(size.counts), size.steps
    n_weights, n_exact = int(indptr[-1]), int(size.exact_counts.sum())
    index_labels = empty_array(n_weights, np.int32, directory)
    index_weights = empty_array(n_exact if int8 else n_weights, np.float32, directory)
    index_codes = empty_array(n_weights if int8 else 0, np.int8, directory)
    cursor, exact_cursor = indptr[:-1].copy(), _ends(size.exact_counts)[:-1]
    # Labels of a feature are in order if ids increase from shard to shard: not in the order of a label tree, nor with
    # equal labels.
    in_order = (
        equal is None
        and all(np.all(np.diff(ids) > 0) for ids in shard_labels)
        and all(a[-1] < b[0] for a, b in itertools.pairwise(shard_labels) if len(a) and len(b))
    )
    for block in _blocks(shards, shard_labels, n_features, equal):
        by_feature = sp.csr_array(
            (block.weights, block.feature_ids, block.indptr), shape=(len(block.label_ids), n_features)
        ).tocsc()
        features = np.repeat(np.arange(n_features), np.diff(by_feature.indptr))
        ids, weights = block.label_ids[by_feature.indices].astype(np.int32), by_feature.data
        if int8:
            rounded = steps.round(weights, ids)
            kept, exact = rounded.is_kept, rounded.is_exact
            index_weights[_next_places(exact_cursor, features[exact])] = weights[exact]
            features, ids = features[kept], ids[kept]
        places = _next_places(cursor, features)
        index_labels[places] = ids
        if int8:
            index_codes[places] = rounded.codes[kept]
        else:
            index_weights[places] = weights
    if not in_order:
        _sort_labels(indptr, index_labels, index_weights, index_codes, n_labels)
    return WeightIndex(indptr, index_labels, index_weights, index_codes, steps.scales, size.biases)


def weights_per_block(n_features: int) -> int:
    """Return how many weights are merged at once: more than features, each of which takes time."""
    return max(_WEIGHTS_PER_BLOCK, 4 * n_features)


class _Block(NamedTuple):
    """Label-major weights of some labels."""

    label_ids: NDArray[np.int64]
    indptr: NDArray[np.int64]
    feature_ids: NDArray[np.int32]
    weights: NDArray[np.float32]
    biases: NDArray[np.float32]


def _blocks(
    shards: Sequence[Shard], shard_labels: Sequence[NDArray[np.int64]], n_features: int, equal: EqualLabels | None
) -> Iterator[_Block]:
    """Cut shards into blocks of about as many weights, because merging takes memory."""
    n_wanted = weights_per_block(n_features)
    for shard, label_ids in zip(shards, shard_labels, strict=True):
        indptr, first = shard["indptr"], 0
        while first < len(label_ids):
            last = int(np.searchsorted(indptr, indptr[first] + n_wanted, side="right")) - 1
            last = min(max(last, first + 1), len(label_ids))
            entries = slice(indptr[first], indptr[last])
            own = indptr[first : last + 1] - indptr[first]
            features, weights = shard["feature_ids"][entries], shard["weights"][entries]
            block = _Block(label_ids[first:last], own, features, weights, shard["biases"][first:last])
            yield block if equal is None else _with_equals(block, equal)
            first = last


def _with_equals(block: _Block, equal: EqualLabels) -> _Block:
    """Repeat each label of a block for all labels that have the same weights."""
    label_ids, rows = equal.of(block.label_ids)
    indptr, places = take_lists(block.indptr, rows)
    return _Block(label_ids, indptr, block.feature_ids[places], block.weights[places], block.biases[rows])


@dataclass(frozen=True, eq=False)
class _Size:
    """What is known of an index before its arrays are made."""

    counts: NDArray[np.int64]  # weights of each feature,
    exact_counts: NDArray[np.int64]  # and how many of them int8 keeps exactly
    biases: NDArray[np.float32]
    steps: Steps


def _measured(
    shards: Sequence[Shard],
    shard_labels: Sequence[NDArray[np.int64]],
    n_features: int,
    n_labels: int,
    equal: EqualLabels | None,
    *,
    int8: bool,
    mean: NDArray[np.float32] | None,
) -> _Size:
    counts = np.zeros(n_features, dtype=np.int64)
    exact_counts = np.zeros(n_features, dtype=np.int64)
    biases = np.zeros(n_labels, dtype=np.float32)
    steps = Steps.zeros(n_labels if int8 else 0)
    for block in _blocks(shards, shard_labels, n_features, equal):
        features, label_ids = block.feature_ids, block.label_ids
        biases[label_ids] = block.biases
        if int8:
            found = Steps.of(block.indptr, block.weights)
            steps.scales[label_ids], steps.limits[label_ids] = found.scales, found.limits
            places = np.repeat(np.arange(len(label_ids)), np.diff(block.indptr))
            rounded = found.round(block.weights, places)
            if mean is not None:
                lost = mean[features] * (block.weights - rounded.values)
                biases[label_ids] += np.bincount(places, lost, minlength=len(label_ids)).astype(np.float32)
            exact_counts += np.bincount(features[rounded.is_exact], minlength=n_features)
            features = features[rounded.is_kept]
        counts += np.bincount(features, minlength=n_features)
    return _Size(counts, exact_counts, biases, steps)


def label_major(index: WeightIndex, n_labels: int) -> sp.csr_array:
    """Return the float32 weights as (n_labels, n_features) CSR."""
    values = index.weights_at(np.arange(len(index.label_ids))) if index.is_int8 else index.weights
    by_feature = csr_from_parts(
        np.asarray(values, dtype=np.float32), index.label_ids, index.indptr, (len(index.indptr) - 1, n_labels)
    )
    by_label = by_feature.T.tocsr()
    by_label.sort_indices()
    return by_label


def drop_labels(index: WeightIndex, is_dropped: NDArray[np.bool_]) -> WeightIndex:
    """Remove every weight of the marked labels; ids stay as they are."""
    kept = ~is_dropped[index.label_ids]
    return WeightIndex.packed(
        _indptr_of_kept(index.indptr, kept),
        index.label_ids[kept],
        index.unpacked()[kept],
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

    return WeightIndex.packed(
        indptr,
        joined(index.label_ids, (new.label_ids + n_old).astype(np.int32)),
        joined(index.unpacked(), new.unpacked()),
        joined(index.codes, new.codes),
        np.concatenate([index.scales, new.scales]),
        np.concatenate([index.biases, new.biases]),
    )


def _sort_labels(
    indptr: NDArray[np.int64],
    label_ids: NDArray[np.int32],
    weights: NDArray[np.float32],
    codes: NDArray[np.int8],
    n_labels: int,
) -> None:
    """Sort each feature's labels in place, a block of features at a time: the arrays may be larger than memory."""
    n_features = len(indptr) - 1
    n_wanted, first, n_exact = weights_per_block(n_features), 0, 0
    while first < n_features:
        last = int(np.searchsorted(indptr, indptr[first] + n_wanted, side="right")) - 1
        last = min(max(last, first + 1), n_features)
        entries = slice(indptr[first], indptr[last])
        own, size = indptr[first : last + 1] - indptr[first], indptr[last] - indptr[first]
        places = sp.csr_array((np.arange(size), np.array(label_ids[entries]), own), shape=(last - first, n_labels))
        places.sort_indices()
        label_ids[entries] = places.indices
        if len(codes):
            is_exact = codes[entries] == 0  # its weight stands among the exact ones
            exact = slice(n_exact, n_exact + int(np.count_nonzero(is_exact)))
            spread = np.zeros(size, dtype=np.float32)
            spread[is_exact] = weights[exact]
            codes[entries] = codes[entries][places.data]
            weights[exact] = spread[places.data][is_exact[places.data]]
            n_exact = int(exact.stop)
        else:
            weights[entries] = weights[entries][places.data]
        first = last


def _ends(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indptr of lists of these lengths."""
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _next_places(cursor: NDArray[np.int64], features: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a place for each of the sorted features, from the cursor of its list on, and move the cursors."""
    sizes = np.bincount(features, minlength=len(cursor))
    places = np.repeat(cursor - _ends(sizes)[:-1], sizes) + np.arange(len(features))
    cursor += sizes
    return np.asarray(places)


def _indptr_of_kept(indptr: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    running = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=running[1:])
    return running[indptr]
