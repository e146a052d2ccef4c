"""Which settings of FastXML rank better, judged without a look at the test rows?

Trains every setting on three quarters of the training rows and ranks the other quarter, for several random splits and
seeds, the same for all settings. Gives the mean P@k, and by how much it differs from the first setting with the
standard error of that difference (the runs are paired). Settings are JSON objects of parameters.

Example: python benchmarks/bench_fastxml_settings.py --datasets bibtex '{}' '{"max_newton": 5}' '{"max_newton": 3}'
"""

import json
import time

import numpy as np
from fastxml_data import SETS, describe, load
from measure import emit, make_parser

import longtail as lt

NAMES = ("P@1", "P@3", "P@5")
TRAINING_SHARE = 0.75


def split_rows(X, Y, seed):
    """Part the rows at random into those to train on and those to judge by."""
    order = np.random.default_rng(seed).permutation(X.shape[0])
    cut = int(TRAINING_SHARE * len(order))
    train, held_out = np.sort(order[:cut]), np.sort(order[cut:])
    return X[train], Y[train], X[held_out], Y[held_out]


def judge(params, options, X, Y):
    """Train one model per split and seed; give its precisions, a line each, and the CPU seconds of a fit."""
    found, seconds = [], []
    for split in range(options.splits):
        X_train, Y_train, X_held_out, Y_held_out = split_rows(X, Y, seed=100 + split)
        for seed in range(options.seeds):
            before = time.process_time()
            model = getattr(lt, options.system)(n_jobs=1, random_state=seed, **params).fit(X_train, Y_train)
            seconds.append(time.process_time() - before)
            result = lt.metrics.evaluate(model.predict_top_k(X_held_out, 5), Y_held_out)
            found.append([result[name] for name in NAMES])
    return np.array(found), float(np.median(seconds))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("settings", nargs="+", type=json.loads, help="parameters as JSON, the first to compare with")
    parser.add_argument("--datasets", nargs="+", default=["bibtex"], choices=SETS)
    parser.add_argument("--system", default="FastXML", choices=("FastXML", "PfastXML", "PfastreXML"))
    parser.add_argument("--splits", type=int, default=3, help="random splits of the training rows (default 3)")
    parser.add_argument("--seeds", type=int, default=3, help="models per split (default 3)")
    options = parser.parse_args()
    for name in options.datasets:
        X, Y = load(name, "train")
        first = None
        for params in options.settings:
            found, seconds = judge(params, options, X, Y)
            first = found if first is None else first
            gain = found - first
            error = gain.std(axis=0) / np.sqrt(len(gain))
            record = {"question": "settings", "system": options.system, "params": params} | describe(name, X, Y)
            record |= {"splits": options.splits, "seeds": options.seeds, "cpu_seconds": round(seconds, 2)}
            record |= dict(zip(NAMES, found.mean(axis=0).round(2).tolist(), strict=True))
            record["gain"] = dict(zip(NAMES, gain.mean(axis=0).round(2).tolist(), strict=True))
            record["standard_error"] = dict(zip(NAMES, error.round(2).tolist(), strict=True))
            emit(record, "fastxml_settings" if options.save else None)


if __name__ == "__main__":
    main()
