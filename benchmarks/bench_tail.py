"""What do rare labels gain from calibration and utilities, and what does it cost?

For each set and seed, an estimator is fitted with `calibrate=True`; lines give P@k, PSP@k and macro-F1@5 of every
utility on the test rows (`utility`), ECE, Brier score and log loss of the five best labels (`calibration`), and the CPU
seconds of the plain fit, of the calibrated one and of the best of five predictions (`cost`). `--blend` does the same
for DiSMEC, FastXML and GBDTSparse blended. `--kernel` times the ascent for macro-F1, 100,000 rows with 100 candidates.
"""

import os
import time
from pathlib import Path

import numpy as np
from measure import emit, make_parser

import longtail as lt
from longtail import _core, propensity
from longtail.calibration import brier_score, expected_calibration_error, find_hits, log_loss
from longtail.metrics import evaluate, macro_f1_at_k

UTILITIES = ("score", "precision", "balanced", "power:0.5", "psp", "macro-f1", "macro-f1-by-row", "coverage")
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
MAX_LOSS = 0.25
N_REPEATS = 5


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["eurlex", "bibtex", "delicious", "mediamill"])
    parser.add_argument("--estimator", default="DiSMEC")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--blend", action="store_true")
    parser.add_argument("--kernel", action="store_true")
    options = parser.parse_args()
    save = "tail" if options.save else None
    if options.kernel:
        time_kernel(save)
        return
    folder = Path(os.environ.get("LONGTAIL_DATA", "../shared/data"))
    for name in options.datasets:
        train = lt.datasets.read_xmc(folder / name / f"{name}_train.txt.gz")
        test = lt.datasets.read_xmc(folder / name / f"{name}_test.txt.gz")
        for seed in options.seeds:
            system = "Blend" if options.blend else options.estimator
            record = {"question": "tail", "dataset": name, "system": system, "seed": seed}
            for line in lines(make(options, seed), train, test):
                emit(record | line, save=save)


def make(options, seed):
    if not options.blend:
        return getattr(lt, options.estimator)(unit_rows=True, random_state=seed, n_jobs=1)
    parts = {"first": lt.DiSMEC(unit_rows=True), "second": lt.FastXML(), "third": lt.GBDTSparse(unit_rows=True)}
    return lt.Blend(**parts, random_state=seed, n_jobs=1)


def lines(model, train, test):
    (X, Y), (X_test, Y_test) = train, test
    cost = {"part": "cost"}
    if not isinstance(model, lt.Blend):  # which is always calibrated
        model.fit(X[:50], Y[:50])  # loads what the first fit of a process loads
        cost["fit_cpu_seconds"] = round(cpu_seconds(lambda: model.fit(X, Y)), 2)
    cost["fit_and_calibrate_cpu_seconds"] = round(cpu_seconds(lambda: model.fit(X, Y, calibrate=True)), 2)
    chances = propensity.from_labels(Y)
    for utility in UTILITIES:
        top = model.predict_top_k(X_test, 5, utility=utility)
        seconds = min(cpu_seconds(lambda: model.predict_top_k(X_test, 5, utility=utility)) for _ in range(N_REPEATS))  # noqa: B023
        cost[f"predict_ms_per_row {utility}"] = round(1e3 * seconds / X_test.shape[0], 4)
        yield {"part": "utility", "utility": utility, **figures(top, Y_test, chances)}
    top = model.predict_top_k(X_test, 5, utility="macro-f1", max_loss=MAX_LOSS)
    yield {"part": "utility", "utility": "macro-f1", "max_loss": MAX_LOSS, **figures(top, Y_test, chances)}
    best = model.predict_top_k(X_test, 5, utility="score")
    proba, hits = model.calibration_.proba(*best), find_hits(best.label_ids, Y_test)
    yield {
        "part": "calibration",
        "ece_points": round(100 * expected_calibration_error(proba, hits), 3),
        "brier": round(brier_score(proba, hits), 5),
        "log_loss": round(log_loss(proba, hits), 5),
        "balanced_power": round(model.calibration_.balanced_power_, 4),
    }
    yield cost


def cpu_seconds(work):
    begin = time.process_time()
    work()
    return time.process_time() - begin


def figures(top, Y, chances):
    found = evaluate(top, Y, propensity=chances)
    return {name: round(found[name], 2) for name in MEASURES} | {"macro-F1@5": round(macro_f1_at_k(top, Y, 5), 2)}


def time_kernel(save):
    rng = np.random.default_rng(0)
    n_rows, n_candidates, n_labels = 100_000, 100, 50_000
    label_ids = np.argsort(rng.random((n_rows, 2 * n_candidates), dtype=np.float32), axis=1)[:, :n_candidates]
    # Candidates of a row lie in a window of labels that differs by row, so that no label comes twice.
    label_ids = ((label_ids + rng.integers(0, n_labels, (n_rows, 1))) % n_labels).astype(np.int32)
    proba = (rng.random((n_rows, n_candidates), dtype=np.float32) ** 6).astype(np.float32)
    positives = np.bincount(label_ids.ravel(), proba.ravel(), n_labels)
    for name in ("macro-f1", "coverage"):
        begin = time.process_time()
        *_, n_passes = _core.ascend(label_ids, proba, positives, name == "coverage", 5, 1.0, 30, 1e-4, _core.Control())
        seconds = round(time.process_time() - begin, 3)
        record = {"question": "tail", "part": "kernel", "utility": name, "n_rows": n_rows, "n_candidates": n_candidates}
        emit(record | {"n_passes": n_passes, "cpu_seconds": seconds}, save=save)


if __name__ == "__main__":
    main()
