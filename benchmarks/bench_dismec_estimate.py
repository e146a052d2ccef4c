"""Does `DiSMEC.estimate` predict the time and memory of a fit within a factor of two?

Estimates, fits on one thread, and fits once more in a process of its own, whose growth in memory is what fit took.
CPU seconds are compared, so that others on the machine do not matter much.

Example: python benchmarks/bench_dismec_estimate.py --repeats 1 --save
"""

import functools

import numpy as np
import scipy.sparse as sp
from dismec_data import describe, load, synthetic
from measure import emit, make_parser, measure, peak_memory

import longtail as lt

SETS = ("bibtex", "mediamill", "synthetic", "wide", "gaps", "words", "wnwords", "eurlex")
MEDIAMILL_ROWS = 6000
WNWORDS_SHARE = 1 / 32  # of the labels


def rows_of(name: str):
    """Give X and Y to train on; a part of Mediamill's rows is enough."""
    lt.DiSMEC(n_jobs=1).fit([[1.0], [0.0]], [[1, 0], [0, 1]])  # imports what every fit imports
    if name == "synthetic":
        return synthetic(10_000, 10_000, 1000)
    if name == "wide":  # few rows of many features
        return synthetic(3000, 5000, 500)
    if name == "gaps":  # few of the features occur
        return _random_rows(4, 3, 20_000_000)
    if name == "words":  # many features, all of which take memory
        return _random_rows(40_000, 30, 400_000)
    X, Y = load(name, "train")
    if name == "wnwords":
        chosen = np.random.default_rng(0).choice(Y.shape[1], int(WNWORDS_SHARE * Y.shape[1]), replace=False)
        return X, sp.csr_array(Y.tocsc()[:, np.sort(chosen)])
    return (X[:MEDIAMILL_ROWS], Y[:MEDIAMILL_ROWS]) if name == "mediamill" else (X, Y)


def _random_rows(n_rows: int, n_words: int, n_features: int, n_labels: int = 64):
    random = np.random.default_rng(0)
    ids = random.integers(n_features, size=(n_rows, n_words), dtype=np.int32)
    X = sp.csr_array((np.ones(ids.size, np.float32), ids.ravel(), np.arange(0, ids.size + 1, n_words)))
    X.resize(n_rows, n_features)
    X.sum_duplicates()
    Y = sp.random_array((n_rows, n_labels), density=max(0.001, 2 / n_rows), rng=random, format="csr")
    return X, (Y != 0).astype(np.int8)


def fit(data) -> None:
    """Fit in the process whose memory is watched."""
    lt.DiSMEC(n_jobs=1).fit(*data)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    options = parser.parse_args()
    for name in options.datasets:
        X, Y = rows_of(name)
        model = lt.DiSMEC(n_jobs=1)
        told = model.estimate(X, Y)
        taken = measure(functools.partial(model.fit, X, Y), options.repeats)
        memory = peak_memory(fit, functools.partial(rows_of, name))
        model_bytes = sum(getattr(model, part).nbytes for part in model._fitted_arrays())
        record = {"question": "estimate", "system": "DiSMEC", "threads": 1} | describe(name, X, Y) | taken | memory
        record |= {"model_bytes": model_bytes, "estimated_cpu_seconds": told.cpu_seconds}
        record |= {"estimated_memory_bytes": told.memory_bytes, "estimated_model_bytes": told.model_bytes}
        record |= {"probe_seconds": told.probe_seconds}
        record["time_told_to_taken"] = round(told.cpu_seconds / taken["cpu_seconds"], 3)
        record["memory_told_to_taken"] = round(told.memory_bytes / memory["peak_growth_bytes"], 3)
        record["model_told_to_taken"] = round(told.model_bytes / model_bytes, 3)
        emit(record, "dismec_estimate" if options.save else None)


if __name__ == "__main__":
    main()
