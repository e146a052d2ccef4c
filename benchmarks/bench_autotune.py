"""Does `longtail tune --minutes` beat the defaults on rows that it has not seen?

Searches on the training rows of three data sets, trains with the defaults and with what was found on all training rows,
and measures both on the test rows. Prints one JSON line per data set and measure. Minutes are CPU minutes of one
thread, so that other work on the machine does not change the result. With --save, searches whose line is already in
benchmarks/results/autotune.jsonl are left out, so that an interrupted run continues with the next one:

    python benchmarks/bench_autotune.py --save --datasets debtags --minutes 1.5
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from measure import RESULTS, emit, make_parser

import longtail as lt
from longtail.tuning import budget

MINUTES = {"bibtex": 0.75, "debtags": 1.5, "eurlex": 2.0}


class CpuClock:
    """What the search reads in place of the clock on the wall."""

    monotonic = staticmethod(time.process_time)


budget.time = CpuClock  # type: ignore[assignment]


def load(name: str, folder: Path) -> tuple[Any, Any, Any, Any, Any]:
    """Return a model with its defaults, and the training and test rows of a data set."""
    if name == "debtags":
        sample = lt.datasets.load_sample()
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer())
        return tagger, sample.train_texts, sample.train_labels, sample.test_texts, sample.test_labels
    train = lt.datasets.read(folder / name / f"{name}_train.txt.gz")
    n_features, n_labels = train[0].shape[1], train[1].shape[1]
    test = lt.datasets.read(folder / name / f"{name}_test.txt.gz", n_features=n_features, n_labels=n_labels)
    return lt.DiSMEC(unit_rows=True, n_jobs=1), *train, *test


def measures(model: Any, X: Any, y: Any) -> dict[str, float]:
    Y, _ = model.encode(y)
    propensity = lt.propensity.from_counts(model.label_counts_, model.n_rows_)
    found = lt.metrics.evaluate(model.predict_top_k(X, 5), Y, propensity=propensity)
    return {name: round(found[name], 2) for name in ("P@1", "P@5", "nDCG@5", "PSP@1", "PSP@5")}


def keys_of(lines: list[str]) -> set[tuple[Any, ...]]:
    return {tuple(json.loads(line)[key] for key in ("dataset", "measure", "minutes", "random_state")) for line in lines}


parser = make_parser(__doc__)
parser.add_argument("--data", type=Path, default=Path("/work/shared/data"))
parser.add_argument("--datasets", nargs="*", default=list(MINUTES), choices=list(MINUTES))
parser.add_argument("--minutes", type=float, help="of each search (default: more for larger data sets)")
parser.add_argument("--measures", nargs="*", default=["P@5"])
parser.add_argument("--random-state", type=int, default=0)
options = parser.parse_args()
saved = RESULTS / "autotune.jsonl"
done = keys_of(saved.read_text().splitlines()) if options.save and saved.exists() else set()
for name in options.datasets:
    minutes = options.minutes or MINUTES[name]
    missing = [one for one in options.measures if (name, one, minutes, options.random_state) not in done]
    if not missing:
        continue
    model, X, y, X_test, y_test = load(name, options.data)
    plain = model.with_parts() if isinstance(model, lt.Tagger) else lt.DiSMEC(**model.get_params(deep=False))
    defaults = measures(plain.fit(X, y), X_test, y_test)
    for measure in missing:
        begin, cpu = time.monotonic(), time.process_time()
        found = lt.autotune(model, X, y, minutes=minutes, measure=measure, random_state=options.random_state)
        seconds, cpu_seconds = time.monotonic() - begin, time.process_time() - cpu
        tuned = measures(found.model.fit(X, y), X_test, y_test) if found.is_better else defaults
        record = {
            "dataset": name,
            "measure": measure,
            "minutes": minutes,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu_seconds, 1),
            "n_trials": len(found.trials),
            "n_whole_trials": sum(trial.confirmed is not None for trial in found.trials),
            "is_better": found.is_better,
            "held_out_default": round(found.default_score, 2),
            "held_out_best": round(found.best_score, 2),
            "best_params": found.best_params,
            "test_default": defaults,
            "test_best": tuned,
            "random_state": options.random_state,
            "longtail": lt.__version__,
        }
        emit(record, "autotune" if options.save else None)
