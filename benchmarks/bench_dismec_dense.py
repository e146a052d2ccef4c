"""How fast is one-vs-all training on dense rows, and does it reach the minimum?

Fits Mediamill and synthetic embeddings on one thread, with both losses, and solves a few labels with LIBLINEAR's primal
solver, to a tolerance of 1e-8 and to ours: how far are objectives above the minimum, ours and LIBLINEAR's own when it
stops by the same rule?

Example: python benchmarks/bench_dismec_dense.py --repeats 3 --save
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from bench_dismec_cliffs import objective
from dismec_data import describe, load
from measure import emit, make_parser, measure
from sklearn.svm import LinearSVC

import longtail as lt

EMBEDDINGS = {"embeddings-128": 128, "embeddings-256": 256, "embeddings-768": 768}
N_ROWS, N_LABELS, LABELS_PER_ROW = 10_000, 1000, 3


def embeddings(n_features: int, seed: int = 0):
    """Make unit rows near the sum of their labels' directions; a few labels are frequent, most are rare."""
    random = np.random.default_rng(seed)
    directions = random.standard_normal((N_LABELS, n_features)).astype(np.float32)
    chances = 1 / np.arange(1, N_LABELS + 1) ** 0.8
    labels = random.choice(N_LABELS, size=(N_ROWS, LABELS_PER_ROW), p=chances / chances.sum())
    noise = random.standard_normal((N_ROWS, n_features)).astype(np.float32)
    X = np.ascontiguousarray(lt.datasets.unit_rows(0.7 * directions[labels].sum(axis=1) + noise), dtype=np.float32)
    rows = np.repeat(np.arange(N_ROWS), LABELS_PER_ROW)
    Y = sp.coo_array((np.ones(labels.size, np.int8), (rows, labels.ravel())), shape=(N_ROWS, N_LABELS)).tocsr()
    Y.data[:] = 1
    return X, Y


def above_minimum(X, Y, label_ids) -> tuple[list[float], list[float]]:
    """Give how far objectives of some labels are above the minimum, as shares of it: ours and LIBLINEAR's own."""
    model = lt.DiSMEC(n_jobs=1, prune_below=0.0).fit(X, sp.csr_array(Y.tocsc()[:, label_ids]))
    ours, same_rule = [], []
    for place, label_id in enumerate(label_ids):
        is_positive = Y.tocsc()[:, [label_id]].toarray().ravel() > 0
        weights = np.zeros(X.shape[1])
        feature_ids, values, bias = model.label_weights(place)
        weights[feature_ids] = values
        least, stopped = (
            objective(X, is_positive, twin.coef_.ravel(), float(twin.intercept_[0]), "squared_hinge")
            for twin in (
                LinearSVC(dual=False, tol=tolerance, max_iter=10_000).fit(X, is_positive)
                for tolerance in (1e-8, model.tolerance)
            )
        )
        ours.append(objective(X, is_positive, weights, bias, "squared_hinge") / least - 1)
        same_rule.append(stopped / least - 1)
    return ours, same_rule


def main() -> None:
    parser = make_parser(__doc__)
    names = ("mediamill", *EMBEDDINGS)
    parser.add_argument("--datasets", nargs="+", default=names, choices=names)
    parser.add_argument("--losses", nargs="+", default=("squared_hinge", "logistic"))
    parser.add_argument("--liblinear", type=int, default=8, help="labels to solve with LIBLINEAR too (default 8)")
    options = parser.parse_args()
    save = "dismec_dense" if options.save else None
    lt.DiSMEC(n_jobs=1).fit([[1.0], [0.0]], [[1, 0], [0, 1]])  # imports what every fit imports
    for name in options.datasets:
        X, Y = load(name, "train") if name == "mediamill" else embeddings(EMBEDDINGS[name])
        trained = np.flatnonzero(np.asarray(Y.astype(np.int64).sum(axis=0)).ravel())
        label_ids = np.sort(np.random.default_rng(0).choice(trained, options.liblinear, replace=False))
        ours, same_rule = above_minimum(X, Y, label_ids) if "squared_hinge" in options.losses else ([], [])
        for loss in options.losses:
            model = lt.DiSMEC(n_jobs=1, loss=loss)
            record = {"question": "dense rows", "system": "DiSMEC", "threads": 1, "loss": loss} | describe(name, X, Y)
            record |= measure(partial(model.fit, X, Y), options.repeats) | {"n_unconverged": model.n_unconverged_}
            record["ms_per_label"] = float(f"{1000 * record['cpu_seconds'] / len(trained):.3g}")
            if loss == "squared_hinge":
                for name_of, found in (("above_liblinear", ours), ("same_rule_difference", same_rule)):
                    record[f"{name_of}_max"] = float(f"{max(found):.2g}")
                    record[f"{name_of}_median"] = float(f"{np.median(found):.2g}")
            emit(record, save)


if __name__ == "__main__":
    main()
