"""How long does a label of short rows take in exact one-vs-all training, and is it as good as LIBLINEAR's?

Trains a random share of the labels of npmowner (1.35 million rows of 3.3 words, 412,638 labels) on one thread and tells
milliseconds per label with and without what is done once for all of them, peak memory and labels that did not converge.
Then solves a few of these labels with LIBLINEAR and compares the objectives; a LIBLINEAR label takes some seconds.

Example: python benchmarks/bench_dismec_short_rows.py --share 0.1 --repeats 1
"""

import resource

import numpy as np
import scipy.sparse as sp
from dismec_data import describe, load
from measure import emit, make_parser, measure
from sklearn.svm import LinearSVC

import longtail as lt


def objective(X, is_positive, weights, bias) -> float:
    """Give ½‖w‖² and the squared hinge of every row, in float64."""
    margins = X.astype(np.float64) @ weights + bias
    gaps = np.maximum(0.0, 1.0 - np.where(is_positive, margins, -margins))
    return 0.5 * (weights @ weights + bias * bias) + float(gaps @ gaps)


def liblinear_difference(X, Y, label_id: int) -> float:
    """Give how far our objective of one label is above LIBLINEAR's, as a share of it."""
    column = sp.csr_array(Y[:, [label_id]])
    is_positive = column.toarray().ravel() > 0
    model = lt.DiSMEC(n_jobs=1, prune_below=0.0).fit(X, column)
    weights = np.zeros(X.shape[1])
    feature_ids, values, bias = model.label_weights(0)
    weights[feature_ids] = values
    ours = objective(X, is_positive, weights, bias)
    svc = LinearSVC(dual=True, tol=1e-6, max_iter=20_000).fit(X, is_positive)
    theirs = objective(X, is_positive, svc.coef_.ravel(), float(svc.intercept_[0]))
    return ours / theirs - 1.0


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of the labels, drawn at random (default 0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--liblinear", type=int, default=3, help="labels to solve with LIBLINEAR too (default 3)")
    options = parser.parse_args()
    save = "dismec_short_rows" if options.save else None
    X, Y = load("npmowner", "train")
    random = np.random.default_rng(options.seed)
    label_ids = np.sort(random.choice(Y.shape[1], max(1, int(options.share * Y.shape[1])), replace=False))
    columns = sp.csr_array(Y.tocsc()[:, label_ids])
    model = lt.DiSMEC(n_jobs=1)
    told = model.estimate(X, Y)
    record = {"question": "seconds per label of short rows", "system": "DiSMEC", "threads": 1}
    record |= describe("npmowner", X, Y) | {"n_trained": len(label_ids), "seed": options.seed}
    once = measure(lambda: lt.DiSMEC(n_jobs=1).fit(X, sp.csr_array(columns[:, :1])), options.repeats)
    timed = measure(lambda: model.fit(X, columns), options.repeats)
    record |= timed | {"once_cpu_seconds": once["cpu_seconds"]}
    record["ms_per_label"] = 1e3 * timed["cpu_seconds"] / len(label_ids)
    record["ms_per_further_label"] = 1e3 * (timed["cpu_seconds"] - once["cpu_seconds"]) / max(1, len(label_ids) - 1)
    record["peak_memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # with the data
    record |= {"n_unconverged": model.n_unconverged_, "n_weights": len(model.index_label_ids_)}
    record |= {"estimated_cpu_seconds_of_all": told.cpu_seconds, "estimated_memory_bytes_of_all": told.memory_bytes}
    emit(record, save)
    for label_id in random.choice(label_ids, options.liblinear, replace=False):
        difference = {"label_id": int(label_id), "relative_difference": liblinear_difference(X, Y, label_id)}
        emit({"question": "objective against LIBLINEAR's", "dataset": "npmowner"} | difference, save)


if __name__ == "__main__":
    main()
