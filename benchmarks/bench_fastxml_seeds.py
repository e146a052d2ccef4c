"""How do FastXML, PfastXML and PfastreXML compare with the original programs over many seeds?

Trains one model per seed with default parameters (EURLex-4K: unit rows) and emits a line for each: P@1/3/5 of the
forest and of its first tree (PfastreXML: PSP@1/3/5 of the forest), and the mean number of weights per split without the
bias. The means of the originals are in ORIGINALS.

Example: python benchmarks/bench_fastxml_seeds.py --system PfastXML --dataset bibtex --seeds 20 --save
"""

import time

import numpy as np
from fastxml_data import describe, load
from measure import emit, make_parser

import longtail as lt

# Means of the original programs by system and set: forest of 50 trees, one tree, weights per split.
ORIGINALS = {
    ("FastXML", "bibtex"): {"forest": (63.62, 38.89, 28.51), "tree": (46.34, 26.02, 17.74), "weights": 40.0},
    ("FastXML", "mediamill"): {"forest": (83.10, 66.39, 52.56), "weights": 16.5},
    ("PfastXML", "bibtex"): {"forest": (63.55, 39.54, 29.14)},
    ("PfastXML", "delicious"): {"forest": (65.97, 61.62, 57.63)},
    ("PfastreXML", "eurlex"): {"forest": (41.81, 43.94, 45.35)},
}
MEASURES = {"FastXML": "P", "PfastXML": "P", "PfastreXML": "PSP"}


def evaluate(measure, model, X, Y, propensity, **options) -> list[float]:
    found = lt.metrics.evaluate(model.predict_top_k(X, 5, **options), Y, propensity)
    return [round(found[f"{measure}@{k}"], 3) for k in (1, 3, 5)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--system", choices=MEASURES, default="FastXML")
    parser.add_argument("--dataset", choices=sorted({dataset for _, dataset in ORIGINALS}), default="bibtex")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    (X, Y), (X_test, Y_test) = load(options.dataset, "train"), load(options.dataset, "test")
    propensity = lt.propensity.from_labels(Y)
    make, measure = getattr(lt, options.system), MEASURES[options.system]
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        begin = time.process_time()
        model = make(random_state=seed, n_jobs=1, unit_rows=options.dataset == "eurlex").fit(X, Y)
        record = {"question": "many seeds", "system": options.system, "seed": seed}
        record |= describe(options.dataset, X, Y) | {"measure": measure}
        record["cpu_seconds"] = round(time.process_time() - begin, 2)
        record["forest"] = evaluate(measure, model, X_test, Y_test, propensity)
        if options.system != "PfastreXML":
            record["tree"] = evaluate(measure, model, X_test, Y_test, propensity, n_trees=1)
        record["weights"] = round(float(np.diff(model.split_indptr_)[model.right_child_ > 0].mean()), 2)
        emit(record, "fastxml_seeds" if options.save else None)


if __name__ == "__main__":
    main()
