"""Does exact one-vs-all training take much longer at some costs or losses than at its defaults?

Fits each set on one thread for costs from 0.1 to 10 and both losses, and prints CPU seconds as a ratio to those of the
defaults in the same run. Then solves a few labels with LIBLINEAR at the default cost and compares the objectives.

Example: python benchmarks/bench_dismec_cliffs.py --repeats 3
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from dismec_data import describe, load
from measure import emit, make_parser, measure
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import longtail as lt

# Of the labels, drawn at random. Small samples mislead: their few frequent labels do not fill the lanes of a pass.
SHARES = {"eurlex": 1.0, "bibtex": 1.0, "wnwords": 1 / 32}
COSTS = (1.0, 0.1, 0.3, 3.0, 10.0)
LOSSES = ("squared_hinge", "logistic")
QUESTION = "cost and loss against the defaults"


def objective(X, is_positive, weights, bias, loss) -> float:
    """Give ½‖w‖² and the loss of every row, in float64, at cost 1."""
    margins = X.astype(np.float64) @ weights + bias
    signed = np.where(is_positive, margins, -margins)
    losses = np.maximum(0.0, 1.0 - signed) ** 2 if loss == "squared_hinge" else np.logaddexp(0.0, -signed)
    return 0.5 * float(weights @ weights + bias * bias) + float(losses.sum())


def liblinear_differences(X, column, loss: str) -> dict[str, float]:
    """Give how far objectives of one label are above LIBLINEAR's minimum, as shares of it: ours, and LIBLINEAR's own.

    Its own is where LIBLINEAR's primal solver stops by the rule that we use too, at the same tolerance.
    """
    is_positive = column.toarray().ravel() > 0
    model = lt.DiSMEC(n_jobs=1, loss=loss, prune_below=0.0).fit(X, column)
    weights = np.zeros(X.shape[1])
    feature_ids, values, bias = model.label_weights(0)
    weights[feature_ids] = values

    def theirs(tolerance: float, *, dual: bool) -> float:
        if loss == "squared_hinge":
            twin = LinearSVC(dual=dual, tol=tolerance, max_iter=20_000)
        else:
            twin = LogisticRegression(solver="liblinear", tol=tolerance, max_iter=1000)
        twin.fit(X, is_positive)
        return objective(X, is_positive, twin.coef_.ravel(), float(twin.intercept_[0]), loss)

    least = theirs(1e-6, dual=True)
    ours = objective(X, is_positive, weights, bias, loss)
    same_rule = theirs(model.tolerance, dual=False)
    return {"relative_difference": ours / least - 1.0, "same_rule_difference": same_rule / least - 1.0}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="*", choices=tuple(SHARES), default=tuple(SHARES))
    parser.add_argument("--losses", nargs="*", choices=LOSSES, default=LOSSES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--liblinear", type=int, default=5, help="labels to solve with LIBLINEAR too (default 5)")
    options = parser.parse_args()
    save = "dismec_cliffs" if options.save else None
    for name in options.datasets:
        X, Y = load(name, "train")
        random = np.random.default_rng(options.seed)
        n_trained = int(SHARES[name] * Y.shape[1])
        label_ids = np.sort(random.choice(Y.shape[1], n_trained, replace=False))
        columns = sp.csr_array(Y.tocsc()[:, label_ids])
        size = describe(name, X, Y) | {"n_trained": n_trained, "seed": options.seed}
        lt.DiSMEC(n_jobs=1).fit(X[:64], columns[:64])  # a first call takes seconds of its own
        default = measure(partial(lt.DiSMEC(n_jobs=1).fit, X, columns), options.repeats)["cpu_seconds"]
        for loss in options.losses:
            for cost in COSTS:
                model = lt.DiSMEC(n_jobs=1, cost=cost, loss=loss)
                timed = measure(partial(model.fit, X, columns), options.repeats)
                record = {"question": QUESTION, "system": "DiSMEC", "threads": 1, "loss": loss, "cost": cost}
                record |= size | timed | {"n_unconverged": model.n_unconverged_}
                emit(record | {"ratio_to_default": round(timed["cpu_seconds"] / default, 2)}, save)
        counts = np.asarray((columns != 0).sum(axis=0)).ravel()
        for place in random.choice(np.flatnonzero(counts), options.liblinear, replace=False):
            for loss in options.losses:
                record = {"question": "objective against LIBLINEAR's", "dataset": name, "loss": loss}
                record |= {"label_id": int(label_ids[place])}
                emit(record | liblinear_differences(X, sp.csr_array(columns[:, [place]]), loss), save)


if __name__ == "__main__":
    main()
