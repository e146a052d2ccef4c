"""How does FastXML compare with the original program over many seeds?

Trains one model per seed with default parameters and emits a line for each: P@1/3/5 of the forest and of its first
tree, and the mean number of weights per split without the bias. The means of the originals are in ORIGINALS.

Example: python benchmarks/bench_fastxml_seeds.py --dataset bibtex --seeds 20 --save
"""

import time

import numpy as np
from fastxml_data import describe, load
from measure import emit, make_parser

import longtail as lt

# Means of the original program: forest of 50 trees, one tree, weights per split.
ORIGINALS = {
    "bibtex": {"forest": (63.62, 38.89, 28.51), "tree": (46.34, 26.02, 17.74), "weights": 40.0, "seeds": 20},
    "mediamill": {"forest": (83.10, 66.39, 52.56), "tree": None, "weights": 16.5, "seeds": None},
}


def precisions(model, X, Y, **options) -> list[float]:
    found = lt.metrics.evaluate(model.predict_top_k(X, 5, **options), Y)
    return [round(found[f"P@{k}"], 3) for k in (1, 3, 5)]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", choices=ORIGINALS, default="bibtex")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    (X, Y), (X_test, Y_test) = load(options.dataset, "train"), load(options.dataset, "test")
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        begin = time.process_time()
        model = lt.FastXML(random_state=seed, n_jobs=1).fit(X, Y)
        record = {"question": "many seeds", "seed": seed} | describe(options.dataset, X, Y)
        record["cpu_seconds"] = round(time.process_time() - begin, 2)
        record["forest"] = precisions(model, X_test, Y_test)
        record["tree"] = precisions(model, X_test, Y_test, n_trees=1)
        record["weights"] = round(float(np.diff(model.split_indptr_)[model.right_child_ > 0].mean()), 2)
        emit(record, "fastxml_seeds" if options.save else None)


if __name__ == "__main__":
    main()
