"""What a fit will take, from a pilot: a sample of labels is trained as in the fit, and scaled up by frequency."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._estimate import Estimate
from longtail._os import available_memory_bytes
from longtail.dismec.index import BYTES_PER_MERGED_WEIGHT, merge_shards, weights_per_block
from longtail.dismec.occurring import SCRATCH_BYTES_PER_FEATURE
from longtail.dismec.training import LABELS_PER_TASK, task_bounds, train_label_range, with_shared_parts
from longtail.execution import Arrays, Shard

# Pilots train so many labels of each frequency, fewer if that takes longer, and the last one a share of all labels.
_PILOT_LABELS = (1, 4, 8)
_PILOT_SECONDS = 5.0
# For a long fit a pilot may take this share of it, up to so many seconds.
_PILOT_SHARE, _MOST_PILOT_SECONDS = 0.03, 15.0
# Scratch of one thread on working sets, for 64 labels under way: rounded weights, own weights now and at the last pass,
# a scatter (SCRATCH_BYTES_PER_FEATURE); and what is listed below.
_LABELS_UNDER_WAY = 64
_SAMPLE_BYTES_PER_FEATURE = 456  # of the solver with samples (logistic loss), for sixteen labels
_NEWTON_BYTES_PER_FEATURE, _NEWTON_BYTES_PER_ROW = 7 * 64 + 4, 3 * 64  # of Newton steps over all rows
# Of conjugate gradients, for 32 labels, which serve costs up to kLowCost of cpp/linear/conjugate.cpp at most.
_CONJUGATE_BYTES_PER_FEATURE, _CONJUGATE_BYTES_PER_ROW = 2 * 64 + 32 * 56 + 12, 2 * (2 * 64 + 16 * 8) + 4
_MAX_CONJUGATE_COST = 0.4
_SCRATCH_BYTES = 4 << 20
_MAX_GRAM_ROWS = 900  # of one matrix: kGramRows of cpp/linear/working_set_solve.cpp
_MAX_DUAL_GRAM_ROWS = 150  # kDualGramRows, for costs up to kMaxDualCost
_MAX_DUAL_COST = 128.0
_GRAM_SLACK = 1.5  # rows in a matrix for each that is active at the end
_MAX_CANDIDATES = 3 * 8192  # of one label at its start: kStartCandidates
_WIDE_FEATURES = 2400  # kWideFeatures: beyond, labels with up to half of the rows active are solved on working sets,
_ACTIVE_SHARE = 8  # else with up to one row in so many: kRefusedShare


def probe(
    arrays: Arrays, params: dict[str, Any], n_features: int, n_jobs: int, n_equal: NDArray[np.int64], *, int8: bool
) -> Estimate:
    """Train a sample with the frequencies of all labels, and scale up by frequency (1, 2-3, 4-7, … positives).

    The model has `n_features`, of which the arrays may hold only those that occur, and `n_equal` labels for each label
    of the arrays.
    """
    begin = time.perf_counter()
    arrays = with_shared_parts(arrays, params, _core.Control(), n_labels=len(arrays["y_indptr"]) - 1)
    shared_seconds = time.perf_counter() - begin  # once, whatever n_jobs is
    counts = np.diff(arrays["y_indptr"])
    strata = np.where(counts > 0, np.floor(np.log2(np.maximum(counts, 1))), -1).astype(int)
    order = np.random.default_rng(0).permutation(np.flatnonzero(counts))
    pilot = _largest_pilot(arrays, params, order, strata)
    cpu_seconds = pilot.scaled(pilot.seconds, strata)
    n_weights = pilot.scaled(pilot.n_weights, strata, n_equal)
    merge_seconds = pilot.merge_seconds * n_weights / max(1.0, float(pilot.n_weights.sum()))
    n_trained, n_rows = int(params["n_features"]), len(arrays["mean_margins"])
    model_bytes = int(n_weights * (5.2 if int8 else 8)) + 8 * (n_features + 1) + 20 * int(n_equal.sum())
    label_bytes = arrays["y_indptr"].nbytes + arrays["y_row_ids"].nbytes
    # Shards (8 bytes a weight) and the index made of them are alive together; a task ends with two copies of its own.
    shard_bytes = 8 * n_weights * (1 + n_jobs * min(1.0, LABELS_PER_TASK / max(1, len(order))))
    merge_bytes = BYTES_PER_MERGED_WEIGHT * min(n_weights, weights_per_block(n_trained))
    scratch = _scratch_bytes(arrays, params, n_jobs, pilot, strata)
    memory_bytes = scratch + shard_bytes + merge_bytes + model_bytes + label_bytes + 8 * (n_rows + n_trained)
    return Estimate(
        seconds=float(shared_seconds + cpu_seconds / n_jobs + merge_seconds),
        cpu_seconds=float(shared_seconds + cpu_seconds + merge_seconds),
        memory_bytes=int(memory_bytes),
        model_bytes=model_bytes,
        probe_seconds=time.perf_counter() - begin,
    )


def _largest_pilot(arrays: Arrays, params: dict[str, Any], order: NDArray[np.int64], strata: NDArray[Any]) -> _Pilot:
    """Train more and more labels, as far as there is time: each pilot tells how many the next one may have."""
    n_labels, share = _PILOT_LABELS[0], 0.0
    pilot = _Pilot.run(arrays, params, _sample(order, strata, n_labels, share), strata)
    for n_wanted in _PILOT_LABELS[1:]:
        found = max(1e-9, pilot.scaled(pilot.seconds, strata))
        time_left = min(max(_PILOT_SECONDS, _PILOT_SHARE * found), _MOST_PILOT_SECONDS)
        n_next = min(n_wanted, int(time_left / max(1e-9, pilot.seconds_of_each_frequency())))
        if n_next <= n_labels:
            break
        n_labels = n_next
        if n_wanted == _PILOT_LABELS[-1]:
            share = min(1.0, _PILOT_SECONDS / found, LABELS_PER_TASK / max(1, len(order)))
        pilot = _Pilot.run(arrays, params, _sample(order, strata, n_labels, share), strata)
    return pilot


def _sample(order: NDArray[np.int64], strata: NDArray[Any], n_least: int, share: float) -> NDArray[np.int64]:
    """Choose a share of the labels of each stratum, at least so many, and of the rarest no more than fit a task."""
    chosen = []
    for stratum in np.unique(strata[order])[::-1]:
        label_ids = order[strata[order] == stratum]
        chosen.append(label_ids[: max(n_least, int(np.ceil(share * len(label_ids))))])
    taken = np.concatenate([*chosen, order[:0]])
    return np.sort(taken[:LABELS_PER_TASK])


@dataclass(frozen=True, eq=False)
class _Pilot:
    """What training a sample of labels took: values by label of the sample."""

    label_strata: NDArray[Any]
    seconds: NDArray[np.float64]
    n_weights: NDArray[np.int64]
    active_rows: NDArray[np.int64]
    merge_seconds: float

    @classmethod
    def run(cls, arrays: Arrays, params: dict[str, Any], label_ids: NDArray[np.int64], strata: NDArray[Any]) -> _Pilot:
        indptr = arrays["y_indptr"]
        columns = [arrays["y_row_ids"][indptr[i] : indptr[i + 1]] for i in label_ids]
        sample = {name: value for name, value in arrays.items() if name not in ("label_order", "label_parents")}
        sample["task_bounds"] = np.array([0, len(label_ids)])
        sample["y_row_ids"] = np.concatenate([*columns, arrays["y_row_ids"][:0]])
        sample["y_indptr"] = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
        if "positive_weights" in arrays:
            sample["positive_weights"] = arrays["positive_weights"][label_ids]
        begin = time.thread_time()  # others on the machine do not count
        shard = train_label_range(sample, params | {"keep_statistics": True}, 0, _core.Control())
        middle = time.thread_time()
        merge_shards([shard], [np.arange(len(label_ids))], int(params["n_features"]), len(label_ids), int8=False)
        end = time.thread_time()
        # The clock of a label is the wall's.
        by_label = shard["seconds"].astype(np.float64) + 1e-9
        seconds = by_label * ((middle - begin) / max(1e-9, by_label.sum()))
        return cls(strata[label_ids], seconds, np.diff(shard["indptr"]), _last_active(shard), end - middle)

    def seconds_of_each_frequency(self) -> float:
        """Return what one label of each frequency takes together."""
        return sum(float(self.seconds[self.label_strata == stratum].mean()) for stratum in np.unique(self.label_strata))

    def scaled(self, values: NDArray[Any], strata: NDArray[Any], n_times: NDArray[np.int64] | None = None) -> float:
        """Return the sum of a value over all labels, each counted so many times."""
        total = 0.0
        for stratum in np.unique(self.label_strata):
            is_in = strata == stratum
            n_labels = np.count_nonzero(is_in) if n_times is None else n_times[is_in].sum()
            total += float(values[self.label_strata == stratum].mean()) * float(n_labels)
        return total


def _last_active(shard: Shard) -> NDArray[np.int64]:
    """Return how many rows were active at the end of each label; 0 where nothing was trained."""
    begins, ends = shard["history_indptr"][:-1], shard["history_indptr"][1:]
    found = np.zeros(len(begins), dtype=np.int64)
    found[ends > begins] = shard["active_rows"][ends[ends > begins] - 1]
    return found


def warn_of_memory(arrays: Arrays, params: dict[str, Any], n_jobs: int) -> None:
    """Warn before a fit whose threads take more memory than is free, whatever its labels are."""
    n_threads = _n_threads(arrays, n_jobs)
    needed, free = n_threads * _bytes_per_thread(arrays, params), available_memory_bytes()
    if needed > free:
        warnings.warn(
            f"DiSMEC: training {int(params['n_features']):,} features on {n_threads} threads takes about "
            f"{needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; lower n_jobs or use fewer features",
            RuntimeWarning,
            stacklevel=2,
        )


def _n_threads(arrays: Arrays, n_jobs: int) -> int:
    return min(n_jobs, len(task_bounds(len(arrays["y_indptr"]) - 1)) - 1)


def _bytes_per_thread(arrays: Arrays, params: dict[str, Any]) -> float:
    """Return what a thread takes before the sizes of its labels count: solvers come one after the other."""
    n_features, n_rows = int(params["n_features"]), len(arrays["mean_margins"])
    newton: float = _NEWTON_BYTES_PER_FEATURE * n_features + _NEWTON_BYTES_PER_ROW * n_rows
    if not params["working_sets"] or params["start"] == "zero" or "row_weights" in arrays:
        return newton
    if params["loss"] == "logistic":
        return newton if "x_dense" in arrays else max(newton, _SAMPLE_BYTES_PER_FEATURE * n_features + 8 * n_rows)
    if "background" in arrays:  # one label's rows, and with lists of words a copy of all
        lists = 0 if len(arrays["postings_sums"]) else 16 * len(arrays["x_values"]) + 40 * n_rows
        return 8 * len(arrays["x_values"]) + 8 * n_rows + 64 * n_features + lists
    working_sets = SCRATCH_BYTES_PER_FEATURE * n_features + _SCRATCH_BYTES
    if params["cost"] > _MAX_CONJUGATE_COST or "x_dense" in arrays:
        return working_sets
    return max(working_sets, _CONJUGATE_BYTES_PER_FEATURE * n_features + _CONJUGATE_BYTES_PER_ROW * n_rows)


def _scratch_bytes(arrays: Arrays, params: dict[str, Any], n_jobs: int, pilot: _Pilot, strata: NDArray[Any]) -> float:
    n_features, n_rows = int(params["n_features"]), len(arrays["mean_margins"])
    per_thread = _bytes_per_thread(arrays, params)
    if "background" in arrays:  # the inverted index too, with its copies of rows
        index_bytes = 48 * len(arrays["x_values"]) + 12 * n_rows + 8 * len(arrays["postings_copy_values"])
        if len(arrays["postings_row_gaps"]):
            index_bytes += 8 * len(arrays["x_values"]) + 4 * n_rows + 8 * n_features
        return index_bytes + _n_threads(arrays, n_jobs) * per_thread
    if params["loss"] != "logistic" and params["working_sets"] and params["start"] != "zero":
        per_thread += _LABELS_UNDER_WAY * 8 * min(n_rows, _MAX_CANDIDATES)
        if "x_dense" not in arrays and params["regularize_bias"]:  # else sets of any size are solved by rows
            max_cost = params["cost"] * float(np.max(arrays.get("positive_weights", 1.0), initial=1.0))
            is_dual = max_cost <= _MAX_DUAL_COST
            most = n_rows // (2 if n_features > _WIDE_FEATURES else _ACTIVE_SHARE)
            active = np.where(pilot.active_rows > most, 0, pilot.active_rows)
            rows = np.minimum(_GRAM_SLACK * active, _MAX_DUAL_GRAM_ROWS if is_dual else _MAX_GRAM_ROWS)
            per_thread += 4 * _largest_sum(rows**2, pilot.label_strata, strata)
            if is_dual:  # copies of one label's rows, at most of all
                per_thread += (6 if n_features < 1 << 16 else 8) * len(arrays["x_values"])
    shared_bytes = sum(part.nbytes for name, part in arrays.items() if name.startswith(("coarse_", "blocks_")))
    return shared_bytes + _n_threads(arrays, n_jobs) * per_thread


def _largest_sum(values: NDArray[Any], sampled: NDArray[Any], strata: NDArray[Any]) -> float:
    """Return the sum of a value over the labels under way, at its worst: those with the largest values together."""
    means = {stratum: float(values[sampled == stratum].mean()) for stratum in np.unique(sampled)}
    total, n_left = 0.0, _LABELS_UNDER_WAY
    for stratum in sorted(means, key=lambda name: -means[name]):
        n_taken = min(n_left, int(np.count_nonzero(strata == stratum)))
        total, n_left = total + n_taken * means[stratum], n_left - n_taken
    return total
