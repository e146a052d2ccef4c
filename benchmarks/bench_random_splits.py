"""How much easier are random splits, over which the FastXML paper averages, than the splits of the files?

The rows of both files are merged and drawn again: as many to train on as the file has, the others to test on. One line
per data set and system: P@1, 3, 5 and labels per leaf. FastXML also gets standardised features, as its l1 penalty
depends on their scale. What has a line in results/random_splits.jsonl is not run again with --save. Then
write_baseline_tables.py.
"""

import json

import numpy as np
import scipy.sparse as sp
from fastxml_data import describe, load
from measure import RESULTS, emit, make_parser

import longtail as lt
from longtail.saving import make_estimator

SETS = ("delicious", "mediamill")
STANDARDISED = "FastXML, standardised"  # dense features with mean 0 and variance 1
SYSTEMS = {"FastXML": {"leaf_labels": 20}, "MLRF": {}, STANDARDISED: {"leaf_labels": 20}}


def split(dataset: str, seed: int):
    """Merge both files and draw as many training rows as the first one has."""
    (X, Y), (X_test, Y_test) = load(dataset, "train"), load(dataset, "test")
    stack = sp.vstack if sp.issparse(X) else np.vstack
    X_all, Y_all = stack([X, X_test]), sp.vstack([Y, Y_test])
    if sp.issparse(X):
        X_all = sp.csr_array(X_all)
    order = np.random.default_rng(seed).permutation(Y_all.shape[0])
    train, test = order[: Y.shape[0]], order[Y.shape[0] :]
    Y_all = sp.csr_array(Y_all)
    return X_all[train], Y_all[train], X_all[test], Y_all[test]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--seeds", type=int, default=1, help="random splits")
    options = parser.parse_args()
    path = RESULTS / "random_splits.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if options.save and path.exists() else []
    done = {(one["dataset"], one["system"], one["seed"]) for one in map(json.loads, lines)}
    for dataset in options.datasets:
        for seed in range(options.seeds):
            for system in options.systems:
                X, Y, X_test, Y_test = split(dataset, seed)
                if (dataset, system, seed) in done or (system == STANDARDISED and sp.issparse(X)):
                    continue
                if system == STANDARDISED:
                    means, deviations = X.mean(axis=0), X.std(axis=0)
                    X, X_test = (X - means) / deviations, (X_test - means) / deviations
                model = make_estimator(system.partition(",")[0], SYSTEMS[system] | {"n_jobs": 1}).fit(X, Y)
                found = lt.metrics.evaluate(model.predict_top_k(X_test), Y_test)
                record = {"question": "random splits", "system": system, "params": SYSTEMS[system], "seed": seed}
                precisions = {f"P@{k}": round(float(found[f"P@{k}"]), 2) for k in (1, 3, 5)}
                if system != "MLRF":
                    precisions["labels_per_leaf"] = round(model.labels_per_leaf_, 2)
                emit(record | describe(dataset, X, Y) | precisions, "random_splits" if options.save else None)


if __name__ == "__main__":
    main()
