"""What do rare labels gain from calibration and utilities, and what does it cost?

For each set, system and seed, an estimator is fitted with `calibrate=True`. One line gives P@k, PSP@k and macro-F1@5 of
every utility on the test rows, the calibration error of the five best labels, and CPU seconds: of the plain fit, of the
calibrated one, and per row of a prediction (the least of five, for `Blend` of two, utilities in turn). `Blend` is
`longtail.blend.best_quality`. With `--save`, cells that are in the results of this commit already are
left out: a run that was stopped goes on where it was. `--kernel` times the ascent for macro-F1, 100,000 rows with 100
candidates.
"""

import json
import os
import time
from pathlib import Path

import numpy as np
from measure import RESULTS, emit, make_parser, measure_in_turn

import longtail as lt
from longtail import _core, propensity
from longtail.bench.machine import describe_machine
from longtail.blend import best_quality, usual_members
from longtail.calibration import brier_score, expected_calibration_error, find_hits, log_loss
from longtail.metrics import evaluate, macro_f1_at_k

UTILITIES = ("score", "precision", "balanced", "power:0.5", "psp", "macro-f1", "macro-f1-by-row", "coverage")
TIMED = ("score", "balanced", "psp")
SYSTEMS = ("DiSMEC", "LabelTree", "FastXML", "Blend")
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
MAX_LOSS = 0.25


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["bibtex", "delicious", "mediamill", "eurlex"])
    parser.add_argument("--systems", nargs="+", default=SYSTEMS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--kernel", action="store_true")
    options = parser.parse_args()
    save = "tail" if options.save else None
    if options.kernel:
        time_kernel(save)
        return
    done = done_cells() if options.save else set()
    folder = Path(os.environ.get("LONGTAIL_DATA", "../shared/data"))
    for name in options.datasets:
        train = lt.datasets.read_xmc(folder / name / f"{name}_train.txt.gz")
        test = lt.datasets.read_xmc(folder / name / f"{name}_test.txt.gz")
        for system in options.systems:
            for seed in options.seeds:
                if (name, system, seed) in done:
                    continue
                record = {"question": "tail", "dataset": name, "system": system, "seed": seed}
                # Mediamill's rows keep their lengths, as in the other benchmarks; LabelTree converges faster without.
                model = make(system, seed, unit_rows=name != "mediamill" or system == "LabelTree")
                emit(record | measured(model, train, test, options.repeats), save=save)


def done_cells():
    path, commit = RESULTS / "tail.jsonl", describe_machine()["commit"].rstrip("+")  # the results are a file, too
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    cells = [line for line in lines if "system" in line and line["machine"]["commit"].rstrip("+") == commit]
    return {(line["dataset"], line["system"], line["seed"]) for line in cells}


def make(system, seed, *, unit_rows):
    if system != "Blend":
        return getattr(lt, system)(unit_rows=unit_rows, random_state=seed, n_jobs=1)
    return best_quality(usual_members(unit_rows=unit_rows), random_state=seed, n_jobs=1)


def measured(model, train, test, repeats):
    (X, Y), (X_test, Y_test) = train, test
    found = {}
    if not isinstance(model, lt.Blend):  # which is always calibrated
        model.fit(X[:50], Y[:50])  # loads what the first fit of a process loads
        found["fit_cpu_seconds"] = round(cpu_seconds(lambda: model.fit(X, Y)), 4)
    found["fit_and_calibrate_cpu_seconds"] = round(cpu_seconds(lambda: model.fit(X, Y, calibrate=True)), 4)
    chances = propensity.from_labels(Y)
    tops = {utility: model.predict_top_k(X_test, 5, utility=utility) for utility in UTILITIES}
    tops["macro-f1, max_loss"] = model.predict_top_k(X_test, 5, utility="macro-f1", max_loss=MAX_LOSS)
    calls = [lambda utility=utility: model.predict_top_k(X_test, 5, utility=utility) for utility in TIMED]
    times = measure_in_turn(calls, min(repeats, 2) if isinstance(model, lt.Blend) else repeats)
    found["utilities"] = {name: figures(top, Y_test, chances) for name, top in tops.items()}
    found["predict_us_per_row"] = {
        utility: round(1e6 * spent["cpu_seconds_min"] / X_test.shape[0], 2)
        for utility, spent in zip(TIMED, times, strict=True)
    }
    best = tops["score"]
    proba, hits = model.calibration_.proba(*best), find_hits(best.label_ids, Y_test)
    return found | {
        "ece_points": round(100 * expected_calibration_error(proba, hits), 3),
        "brier": round(brier_score(proba, hits), 5),
        "log_loss": round(log_loss(proba, hits), 5),
        "balanced_power": model.calibration_.balanced_power_,
    }


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
        record = {"question": "tail", "kernel": name, "n_rows": n_rows, "n_candidates": n_candidates}
        emit(record | {"n_passes": n_passes, "cpu_seconds": seconds}, save=save)


if __name__ == "__main__":
    main()
