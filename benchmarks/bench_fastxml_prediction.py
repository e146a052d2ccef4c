"""How long does a row take with 50 trees, in a batch and alone, and how long does a saved forest take to load?

Trains once (or takes a saved model with --model), saves, loads and ranks EURLex-4K's test rows on one thread.
`load_seconds` is a first load that checks every array but no checksum, as `lt.load` does by default.

Example: python benchmarks/bench_fastxml_prediction.py --systems FastXML PfastreXML --save
"""

import functools
import tempfile
from pathlib import Path

from fastxml_data import SETS, describe, load
from measure import emit, make_parser, measure

import longtail as lt

SINGLE_ROWS = 500


def rank_one_by_one(model, rows):
    for row in rows:
        model.predict_top_k(row, 5)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="eurlex", choices=SETS)
    parser.add_argument("--systems", nargs="+", default=["FastXML", "PfastreXML"])
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--model", type=Path, help="a saved model instead of training one")
    options = parser.parse_args()
    save = "fastxml_prediction" if options.save else None
    X, Y = load(options.dataset, "train")
    X_test, _ = load(options.dataset, "test")
    single_rows = [X_test[[i]] for i in range(SINGLE_ROWS)]
    with tempfile.TemporaryDirectory() as folder:
        for system in options.systems:
            path = options.model or Path(folder) / system
            if options.model is None:
                unit_rows = options.dataset == "eurlex"
                lt.save(getattr(lt, system)(n_trees=options.trees, unit_rows=unit_rows).fit(X, Y), path)
            loading = measure(functools.partial(lt.load, path), options.repeats)
            model = lt.load(path)
            model.n_jobs = 1
            record = {"question": "prediction time", "system": type(model).__name__, "threads": 1}
            record |= {"n_trees": len(model.tree_roots_)} | describe(options.dataset, X_test, Y)
            batch = measure(functools.partial(model.predict_top_k, X_test, 5), options.repeats, warm_ups=1)
            alone = measure(functools.partial(rank_one_by_one, model, single_rows), options.repeats, warm_ups=1)
            record["load_seconds"] = loading["wall_seconds"]
            record["batch_ms_per_row"] = round(1e3 * batch["wall_seconds"] / X_test.shape[0], 4)
            record["batch_ms_per_row_max"] = round(1e3 * batch["wall_seconds_max"] / X_test.shape[0], 4)
            record["single_ms_per_row"] = round(1e3 * alone["wall_seconds"] / SINGLE_ROWS, 4)
            record["single_ms_per_row_max"] = round(1e3 * alone["wall_seconds_max"] / SINGLE_ROWS, 4)
            emit(record, save)


if __name__ == "__main__":
    main()
