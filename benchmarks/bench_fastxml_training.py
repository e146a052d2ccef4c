"""How long does a FastXML forest take to train, on one thread and on two, and how large is it on disk?

EURLex-4K with unit rows, the others as in the file; 50 trees. The yardstick is Omikuji's Parabel on the same machine
(`longtail bench benchmarks/matrix.toml`, or references in docs/fastxml.md): FastXML should take at most 0.65 of it.

Example: python benchmarks/bench_fastxml_training.py --datasets eurlex mediamill --save
"""

import functools
import tempfile
from pathlib import Path

from fastxml_data import SETS, describe, load
from measure import emit, make_parser, measure_in_turn

import longtail as lt


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["eurlex", "mediamill"], choices=SETS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--system", default="FastXML", choices=["FastXML", "PfastXML", "PfastreXML"])
    parser.add_argument("--raw-rows", action="store_true", help="EURLex-4K as in the file")
    options = parser.parse_args()
    save = "fastxml_training" if options.save else None
    for name in options.datasets:
        X, Y = load(name, "train")
        X_test, Y_test = load(name, "test")
        unit_rows = name == "eurlex" and not options.raw_rows
        make = functools.partial(getattr(lt, options.system), n_trees=options.trees, unit_rows=unit_rows)
        models = [make(n_jobs=threads) for threads in options.threads]
        times = measure_in_turn([functools.partial(model.fit, X, Y) for model in models], options.repeats)
        for threads, model, seconds in zip(options.threads, models, times, strict=True):
            record = {"question": "training time", "system": options.system, "threads": threads, "unit_rows": unit_rows}
            record |= {"n_trees": options.trees} | describe(name, X, Y) | seconds
            found = lt.metrics.evaluate(model.predict_top_k(X_test, 5), Y_test)
            record |= {f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}
            with tempfile.TemporaryDirectory() as folder:
                lt.save(model, Path(folder) / "model")
                files = (Path(folder) / "model").rglob("*")
                record["model_bytes"] = sum(file.stat().st_size for file in files if file.is_file())
            emit(record, save)


if __name__ == "__main__":
    main()
