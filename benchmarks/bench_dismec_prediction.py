"""How fast is exact prediction, in batches and one row at a time, and what do int8 weights cost?

Example: python benchmarks/bench_dismec_prediction.py --peers .venv-peers/bin/python
"""

import functools
from pathlib import Path

from dismec_data import SETS, describe, load, run_peer
from measure import emit, make_parser, measure

import longtail as lt

N_SINGLE = 500


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="eurlex", choices=SETS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--peers", type=Path, help="Python of the environment with libpecos")
    options = parser.parse_args()
    save = "dismec_prediction" if options.save else None
    X, Y = load(options.dataset, "train")
    X_test, Y_test = load(options.dataset, "test")
    for weight_type in ("float32", "int8"):
        model = lt.DiSMEC(weight_type=weight_type).fit(X, Y)
        for threads in options.threads:
            model.set_params(n_jobs=threads)
            record = {"question": "prediction", "system": "DiSMEC", "weight_type": weight_type, "threads": threads}
            record |= describe(options.dataset, X_test, Y_test)
            batch = measure(functools.partial(model.predict_top_k, X_test, 5), options.repeats, warm_ups=1)
            record |= batch | {"ms_a_row_batch": 1000 * batch["wall_seconds"] / X_test.shape[0]}
            record["cpu_ms_a_row_batch"] = 1000 * batch["cpu_seconds"] / X_test.shape[0]
            rows = [X_test[[i]] for i in range(min(N_SINGLE, X_test.shape[0]))]
            single = measure(lambda: [model.predict_top_k(row, top_k=5) for row in rows], options.repeats)  # noqa: B023
            record["ms_a_row_single"] = 1000 * single["wall_seconds"] / len(rows)
            record["cpu_ms_a_row_single"] = 1000 * single["cpu_seconds"] / len(rows)
            found = lt.metrics.evaluate(model.predict_top_k(X_test, top_k=5), Y_test)
            record |= {f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}
            record["model_bytes"] = sum(getattr(model, part).nbytes for part in model._fitted_arrays())
            emit(record, save)
    if options.peers is not None:
        record = {"question": "prediction"} | describe(options.dataset, X_test, Y_test)
        emit(record | run_peer(options.dataset, "pecos-ovr", options.peers), save)


if __name__ == "__main__":
    main()
