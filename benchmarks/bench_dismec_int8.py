"""How far are DiSMEC's int8 models from float32 ones, and what do they save?

Trains both on random nine tenths of the training rows, once per seed, and ranks all test rows. P@k of int8 minus that
of float32 is a matter of chance for one model, because a few rows change their first label: the mean over seeds is
reported with its standard error.

Example: python benchmarks/bench_dismec_int8.py --seeds 3 --save
"""

import time

import numpy as np
from dismec_data import describe, load
from measure import emit, make_parser

import longtail as lt

SETS = ("bibtex", "delicious", "mediamill", "eurlex")
SHARE = 0.9
TYPES = ("float32", "int8")


def compare(X, Y, X_test, Y_test) -> dict[str, float]:
    """Fit both kinds; give differences of P@k, the share of rows with another first label, CPU seconds and sizes."""
    found, firsts, record = {}, {}, {}
    for kind in TYPES:
        model = lt.DiSMEC(n_jobs=1, weight_type=kind)
        begin = time.process_time()
        model.fit(X, Y)
        record[f"train_seconds {kind}"] = time.process_time() - begin
        begin = time.process_time()
        top = model.predict_top_k(X_test, top_k=5)
        record[f"predict_seconds {kind}"] = time.process_time() - begin
        record[f"model_bytes {kind}"] = sum(getattr(model, part).nbytes for part in model._fitted_arrays())
        found[kind], firsts[kind] = lt.metrics.evaluate(top, Y_test), top.label_ids[:, 0]
    record |= {f"P@{k}": found["int8"][f"P@{k}"] - found["float32"][f"P@{k}"] for k in (1, 3, 5)}
    return record | {"other_first_label": float((firsts["int8"] != firsts["float32"]).mean())}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=int, default=5, help="training samples per set (default 5)")
    options = parser.parse_args()
    lt.DiSMEC(n_jobs=1).fit([[1.0], [0.0]], [[1, 0], [0, 1]])  # imports what every fit imports
    for name in options.datasets:
        X, Y = load(name, "train")
        X_test, Y_test = load(name, "test")
        runs = []
        for seed in range(options.seeds):
            rows = np.random.default_rng(seed).permutation(X.shape[0])[: int(SHARE * X.shape[0])]
            runs.append(compare(X[np.sort(rows)], Y[np.sort(rows)], X_test, Y_test))
        record = {"question": "int8 minus float32", "system": "DiSMEC", "threads": 1, "seeds": options.seeds}
        record |= describe(name, X, Y)
        for key in runs[0]:
            values = np.array([run[key] for run in runs])
            record[key] = float(f"{values.mean():.4g}")
            if key.startswith("P@"):
                record[f"{key}_error"] = float(f"{values.std(ddof=1) / np.sqrt(len(values)):.2g}")
        emit(record, "dismec_int8" if options.save else None)


if __name__ == "__main__":
    main()
