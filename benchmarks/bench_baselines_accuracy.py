"""How accurate are the baselines of the papers' tables, and what do they cost?

One line per data set and system: P@1, 3, 5, PSP@1, 3, 5 (propensities with A = 0.55, B = 1.5), CPU seconds of training,
prediction time and size. Rows are scaled to length one, but Mediamill's dense ones. Settings that are not the
defaults were chosen on a fifth of the training rows.
"""

from functools import partial

from fastxml_data import SETS, describe, load
from measure import emit, make_parser, measure

import longtail as lt
from longtail.saving import make_estimator

SYSTEMS = ("CPLST", "CS", "MLCSSP", "LPSR", "LPSRNB", "WSABIE", "SLEEC", "PDSparse", "MLRF", "MLRFnDCG", "LEML")
SETTINGS: dict[tuple[str, str], dict[str, object]] = {}
NAMES = [f"{measure_name}@{k}" for measure_name in ("P", "PSP") for k in (1, 3, 5)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--n-jobs", type=int, default=1)
    options = parser.parse_args()
    for dataset in options.datasets:
        (X, Y), (X_test, Y_test) = load(dataset, "train"), load(dataset, "test")
        propensity = lt.propensity.from_labels(Y)
        for system in options.systems:
            params = {"unit_rows": dataset != "mediamill"} | SETTINGS.get((dataset, system), {})
            model = make_estimator(system, params | {"n_jobs": options.n_jobs})
            record = {"question": "baselines accuracy", "system": system, "params": params, "threads": options.n_jobs}
            record |= describe(dataset, X, Y)
            training = measure(partial(model.fit, X, Y), 1)
            record |= {f"train_{key}": training[key] for key in ("cpu_seconds", "wall_seconds")}
            top = model.predict_top_k(X_test)
            predicting = measure(partial(model.predict_top_k, X_test), 1)
            record["predict_cpu_ms_per_row"] = round(1e3 * predicting["cpu_seconds"] / X_test.shape[0], 4)
            record["model_bytes"] = sum(getattr(model, name).nbytes for name in model._fitted_arrays())
            found = lt.metrics.evaluate(top, Y_test, propensity)
            emit(
                record | {name: round(float(found[name]), 2) for name in NAMES},
                "baselines" if options.save else None,
            )


if __name__ == "__main__":
    main()
