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

from longtail import _core
from longtail._csr import csr_from_parts
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
    n_threads: int = 1,
    control: _core.Control | None = None,
) -> WeightIndex:
    """Build the index; with a directory, its large arrays are mapped from nameless files on that disk.

    `shard_labels[i]` names the label of each row of shard i. With the `mean` row, biases make up for what rounding to
    int8 adds to the scores of an average row. Weights of a label go to all labels that are `equal` to it.
    """
    sources = _Sources.of(shard_labels, equal)
    size = _measured(shards, sources, n_features, n_labels, int8=int8, mean=mean)
    indptr, steps = _ends(size.counts), size.steps
    n_weights, n_exact = int(indptr[-1]), int(size.exact_counts.sum())
    index_labels = empty_array(n_weights, np.int32, directory)
    index_weights = empty_array(n_exact if int8 else n_weights, np.float32, directory)
    index_codes = empty_array(n_weights if int8 else 0, np.int8, directory)
    how = (n_threads, control or _core.Control())
    cursor, exact_cursor = indptr[:-1].copy(), _ends(size.exact_counts)[:-1].copy()
    for block in _blocks(shards, sources, n_features):
        features, weights = block.feature_ids, block.weights
        ids = np.repeat(block.label_ids.astype(np.int32), np.diff(block.indptr))
        if not int8:
            _core.place_weights(features, ids, weights, cursor, index_labels, index_weights, *how)
            continue
        rounded = steps.round(weights, ids)
        kept, exact = rounded.is_kept, rounded.is_exact
        _core.place_weights(features[kept], ids[kept], rounded.codes[kept], cursor, index_labels, index_codes, *how)
        none = index_labels[:0]
        _core.place_weights(features[exact], none, weights[exact], exact_cursor, none, index_weights, *how)
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


class _Sources(NamedTuple):
    """Where the weights of each label are, by increasing label: blocks in this order need no sorting afterwards."""

    label_ids: NDArray[np.int64]
    shard_ids: NDArray[np.int64]
    rows: NDArray[np.int64]  # of the shard

    @classmethod
    def of(cls, shard_labels: Sequence[NDArray[np.int64]], equal: EqualLabels | None) -> _Sources:
        found = [(ids, np.arange(len(ids))) if equal is None else equal.of(ids) for ids in shard_labels]
        label_ids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in found)])
        shard_ids = np.repeat(np.arange(len(found)), [len(ids) for ids, _ in found])
        rows = np.concatenate([np.zeros(0, np.int64), *(rows for _, rows in found)])
        order = np.argsort(label_ids)
        return cls(label_ids[order], shard_ids[order], rows[order])


def _blocks(shards: Sequence[Shard], sources: _Sources, n_features: int) -> Iterator[_Block]:
    """Copy weights into blocks of about as many, because merging takes memory."""
    by_shard = [np.diff(shard["indptr"]) for shard in shards]
    begins = _ends(np.array([len(sizes) for sizes in by_shard], dtype=np.int64))
    sizes = np.concatenate([begins[:0], *by_shard])[begins[sources.shard_ids] + sources.rows]
    ends, first, n_wanted = _ends(sizes), 0, weights_per_block(n_features)
    while first < len(sizes):
        last = int(np.searchsorted(ends, ends[first] + n_wanted, side="right")) - 1
        last = min(max(last, first + 1), len(sizes))
        parts = _runs(shards, sources.shard_ids[first:last], sources.rows[first:last])
        features, weights, biases = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        yield _Block(sources.label_ids[first:last], ends[first : last + 1] - ends[first], features, weights, biases)
        first = last


def _runs(
    shards: Sequence[Shard], shard_ids: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]]:
    """Find rows that follow one another in a shard: their features, weights and biases are single slices."""
    is_next = (np.diff(shard_ids) == 0) & (np.diff(rows) == 1)
    begins = np.concatenate([[0], np.flatnonzero(~is_next) + 1, [len(rows)]])
    for begin, end in itertools.pairwise(begins.tolist()):
        shard, first = shards[shard_ids[begin]], int(rows[begin])
        own = slice(first, first + end - begin)
        entries = slice(*shard["indptr"][[own.start, own.stop]].tolist())
        yield shard["feature_ids"][entries], shard["weights"][entries], shard["biases"][own]


@dataclass(frozen=True, eq=False)
class _Size:
    """What is known of an index before its arrays are made."""

    counts: NDArray[np.int64]  # weights of each feature,
    exact_counts: NDArray[np.int64]  # and how many of them int8 keeps exactly
    biases: NDArray[np.float32]
    steps: Steps


def _measured(
    shards: Sequence[Shard],
    sources: _Sources,
    n_features: int,
    n_labels: int,
    *,
    int8: bool,
    mean: NDArray[np.float32] | None,
) -> _Size:
    counts = np.zeros(n_features, dtype=np.int64)
    exact_counts = np.zeros(n_features, dtype=np.int64)
    biases = np.zeros(n_labels, dtype=np.float32)
    steps = Steps.zeros(n_labels if int8 else 0)
    for block in _blocks(shards, sources, n_features):
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


def _ends(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indptr of lists of these lengths."""
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def _indptr_of_kept(indptr: NDArray[np.int64], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    running = np.zeros(len(kept) + 1, dtype=np.int64)
    np.cumsum(kept, out=running[1:])
    return running[indptr]
