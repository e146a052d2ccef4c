"""How fast does GBDT-SPARSE predict, and how small is it, against FastXML's 50 trees on the same data?

The paper claims an order of magnitude in both; we ask for 5×. Batch prediction of the whole test set and one row at a
time, on one thread, projection included.
"""

from functools import partial

from gbdt_data import SETTINGS, add_data_option, model_bytes, precisions, read_set
from measure import emit, make_parser, measure

import longtail as lt


def predict_one_by_one(model, rows) -> None:
    for row in rows:
        model.predict_top_k(row, 5)


def main() -> None:
    parser = make_parser(__doc__)
    add_data_option(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    options = parser.parse_args()
    for name in options.sets:
        X, Y, X_test, Y_test = read_set(options.data, name)
        for model in (lt.GBDTSparse(**SETTINGS[name], n_jobs=1), lt.FastXML(n_jobs=1)):
            training = measure(partial(model.fit, X, Y), 1)
            batch = measure(partial(model.predict_top_k, X_test, 5), options.repeats, warm_ups=1)
            rows = [X_test[[row]] for row in range(200)]
            single = measure(partial(predict_one_by_one, model, rows), options.repeats, warm_ups=1)
            record = {"question": "gbdt prediction", "set": name, "model": type(model).__name__, "threads": 1}
            record["train_cpu_seconds"] = training["cpu_seconds"]
            record["predict_us_per_row"] = round(1e6 * batch["wall_seconds"] / X_test.shape[0], 2)
            record["predict_single_us"] = round(1e6 * single["wall_seconds"] / len(rows), 2)
            record |= {"model_bytes": model_bytes(model), **precisions(model, X_test, Y_test)}
            emit(record, save="gbdt_prediction" if options.save else None)


if __name__ == "__main__":
    main()
