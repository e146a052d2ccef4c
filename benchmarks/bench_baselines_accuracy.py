"""How accurate are the baselines of the papers' tables, and what do they cost?

One line per data set and system: P@1, 3, 5, PSP@1, 3, 5 (propensities with A = 0.55, B = 1.5), CPU seconds of training,
prediction time and size. With --save, what has a line in results/baselines.jsonl is not run again. Settings that are
not the defaults were chosen on a fifth of the training rows (choose_baseline_settings.py).
"""

import json
from functools import partial

import scipy.sparse as sp
from fastxml_data import SETS, describe, load
from measure import RESULTS, emit, make_parser, measure

import longtail as lt
from longtail.saving import make_estimator

# Cheapest first.
SYSTEMS = ("CS", "MLCSSP", "LEML", "CPLST", "PDSparse", "LPSRNB", "LPSR", "SLEEC", "WSABIE", "MLRF", "MLRFnDCG")
OTHERS = ("LabelTree",)  # no baseline, but in no matrix of `longtail bench` that covers all four sets
FORESTS = ("MLRF", "MLRFnDCG")
NAMES = [f"{measure_name}@{k}" for measure_name in ("P", "PSP") for k in (1, 3, 5)]


def settings(system: str, X, Y) -> dict[str, object]:
    """Return the parameters that are not the defaults, by a rule from the shape of the data."""
    # Dense rows (Mediamill's) stay as they are: CS gets 84.6 on held-out rows, and 83.5 with rows of length one.
    # Forests look at one feature at a time and get the rows of the file, as in the papers.
    params: dict[str, object] = {"unit_rows": sp.issparse(X) and system not in FORESTS}
    if system in ("CPLST", "CS", "MLCSSP"):
        # The default of 200, at most half as many as labels: more components are always better, and with one per label
        # CPLST and ML-CSSP are plain ridge regression, not embeddings.
        params["n_components"] = min(200, Y.shape[1] // 2)
    return params


def finished(path) -> set[str]:
    """Return the data set, system and parameters of each stored line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {key_of(json.loads(line)) for line in lines}


def key_of(record: dict) -> str:
    return json.dumps([record["dataset"], record["system"], record["params"]], sort_keys=True)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--systems", nargs="+", default=[*SYSTEMS, *OTHERS], choices=(*SYSTEMS, *OTHERS))
    parser.add_argument("--n-jobs", type=int, default=1)
    options = parser.parse_args()
    done = finished(RESULTS / "baselines.jsonl") if options.save else set()
    for system in options.systems:
        for dataset in options.datasets:
            X, Y = load(dataset, "train")
            params = settings(system, X, Y)
            record = {"question": "baselines accuracy", "system": system, "params": params, "threads": options.n_jobs}
            record |= describe(dataset, X, Y)
            if key_of(record) in done:
                continue
            X_test, Y_test = load(dataset, "test")
            model = make_estimator(system, params | {"n_jobs": options.n_jobs})
            training = measure(partial(model.fit, X, Y), 1)
            record |= {f"train_{key}": training[key] for key in ("cpu_seconds", "wall_seconds")}
            top = model.predict_top_k(X_test)
            predicting = measure(partial(model.predict_top_k, X_test), 1)
            record["predict_cpu_ms_per_row"] = round(1e3 * predicting["cpu_seconds"] / X_test.shape[0], 4)
            record["model_bytes"] = sum(getattr(model, name).nbytes for name in model._fitted_arrays())
            found = lt.metrics.evaluate(top, Y_test, lt.propensity.from_labels(Y))
            emit(
                record | {name: round(float(found[name]), 2) for name in NAMES},
                "baselines" if options.save else None,
            )


if __name__ == "__main__":
    main()
