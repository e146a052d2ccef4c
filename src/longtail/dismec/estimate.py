"""What a fit will take, from a probe of a few labels of each frequency."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._estimate import Estimate
from longtail.dismec.training import train_label_range, with_background
from longtail.execution import Arrays

_LABELS_PER_STRATUM = 24
_MAX_PROBE_SECONDS = 20.0
# Scratch of one thread, for 64 labels under way: rounded weights, own weights, a scatter; and their Gram matrices.
_LABELS_UNDER_WAY = 64
_SCRATCH_BYTES_PER_FEATURE = 770
_MAX_GRAM_ROWS = 900  # of one matrix, with room to grow; kGramRows of cpp/linear/working_set.cpp
_MAX_DUAL_GRAM_ROWS = 150  # kDualGramRows, for costs up to
_MAX_DUAL_COST = 4.0
_SCRATCH_BYTES = 4 << 20
_WIDE_FEATURES = 2400  # kWideFeatures of cpp/linear/working_set.cpp


def probe(arrays: Arrays, params: dict[str, Any], n_jobs: int, *, int8: bool) -> Estimate:
    """Train some labels of each frequency (1, 2-3, 4-7, … positives) and scale up."""
    begin = time.perf_counter()
    arrays = with_background(arrays, params, _core.Control())
    background_seconds = time.perf_counter() - begin  # once, whatever n_jobs is
    counts = np.diff(arrays["y_indptr"])
    strata = np.floor(np.log2(np.maximum(counts, 1))).astype(int)
    cpu_seconds, n_weights = 0.0, 0.0
    # Short rows are trained label by label, and times differ a hundredfold: no label of the sample twice.
    n_chosen = _LABELS_UNDER_WAY if "background" in arrays else _LABELS_PER_STRATUM
    # The rarest labels first: there are most of them. What the clock no longer allows is guessed from the last.
    per_label, weights_per_label = 0.0, 0.0
    for stratum in np.unique(strata[counts > 0]):
        label_ids = np.flatnonzero((strata == stratum) & (counts > 0))
        if time.perf_counter() - begin < _MAX_PROBE_SECONDS:
            chosen = label_ids[np.linspace(0, len(label_ids) - 1, min(len(label_ids), n_chosen)).astype(int)]
            per_label, weights_per_label = _train_sample(arrays, params, chosen)
        else:
            per_label, weights_per_label = 2 * per_label, 1.5 * weights_per_label
        cpu_seconds += per_label * len(label_ids)
        n_weights += weights_per_label * len(label_ids)
    n_features = int(params["n_features"])
    weight_bytes = 5 if int8 else 8
    model_bytes = int(n_weights * weight_bytes) + 8 * (n_features + 1) + 20 * len(counts)
    n_rows = len(arrays["mean_margins"])
    has_gram = "x_dense" not in arrays and params["regularize_bias"]  # else sets of any size are solved by rows
    # Labels with more than a row in eight active are soon trained by other means, unless there are many features.
    max_cost = params["cost"] * float(np.max(arrays.get("positive_weights", 1.0), initial=1.0))
    is_dual = max_cost <= _MAX_DUAL_COST
    max_gram_rows = _MAX_DUAL_GRAM_ROWS if is_dual else _MAX_GRAM_ROWS
    gram_rows = min(n_rows if n_features > _WIDE_FEATURES else n_rows // 7, max_gram_rows)
    gram_bytes = _LABELS_UNDER_WAY * 4 * gram_rows**2 if has_gram else 0
    if has_gram and is_dual:  # copies of one label's rows, at most of all
        gram_bytes += (6 if n_features < 1 << 16 else 8) * len(arrays["x_values"])
    scratch = n_jobs * (_SCRATCH_BYTES_PER_FEATURE * n_features + gram_bytes + _SCRATCH_BYTES)
    if params["loss"] == "logistic" or params["start"] == "zero" or not params["working_sets"]:
        scratch += n_jobs * (3 * 64 * n_rows + 7 * 64 * n_features)
    if "background" in arrays:  # the inverted index, and for each thread one label's rows
        n_stored = len(arrays["x_values"])
        scratch = 40 * n_stored + 12 * n_rows + n_jobs * (8 * n_stored + 8 * n_rows + 64 * n_features)
    label_bytes = arrays["y_indptr"].nbytes + arrays["y_row_ids"].nbytes
    # Shards (8 bytes a weight) and the index made of them are alive together.
    memory_bytes = scratch + int(n_weights * 8) + model_bytes + label_bytes + 8 * (n_rows + n_features)
    return Estimate(
        seconds=background_seconds + cpu_seconds / n_jobs,
        cpu_seconds=background_seconds + cpu_seconds,
        memory_bytes=memory_bytes,
        model_bytes=model_bytes,
        probe_seconds=time.perf_counter() - begin,
    )


def _train_sample(arrays: Arrays, params: dict[str, Any], label_ids: NDArray[Any]) -> tuple[float, float]:
    """Train a few labels; return seconds and weights per label as in a full run, where every lane is taken."""
    indptr = arrays["y_indptr"]
    columns = [arrays["y_row_ids"][indptr[i] : indptr[i + 1]] for i in label_ids]
    repeats = max(1, _LABELS_UNDER_WAY // len(label_ids))  # a pass costs the same for one label as for 64
    sample = {name: value for name, value in arrays.items() if name not in ("label_order", "label_parents")}
    sample["y_row_ids"] = np.concatenate(columns * repeats)
    sample["y_indptr"] = np.concatenate([[0], np.cumsum([len(c) for c in columns] * repeats)]).astype(np.int64)
    if "positive_weights" in arrays:
        sample["positive_weights"] = np.tile(arrays["positive_weights"][label_ids], repeats)
    begin = time.thread_time()  # others on the machine do not count
    shard = train_label_range(sample, params | {"keep_statistics": False}, 0, _core.Control())
    n_trained = len(label_ids) * repeats
    return (time.thread_time() - begin) / n_trained, len(shard["weights"]) / n_trained
