"""How accurate is GBDT-SPARSE at the paper's settings and at our best ones (Tables 1 and 3)?

One line a data set and setting: training and prediction time, size, P@1, 3, 5. EURLex-4K is trained with each of the
three projections (Table 1 has them for Wiki10-31K). LEML itself is the first line of each data set. Our best settings
for Delicious weigh words by idf; the paper's are tried on such rows too.
"""

from functools import partial

from gbdt_data import BEST, IDF_SETS, SETTINGS, add_data_option, learn_projection, model_bytes, precisions, read_set
from measure import emit, make_parser, measure
from sklearn.base import clone

import longtail as lt


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(repeats=1)
    add_data_option(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--models", nargs="+", help="only these lines, e.g. 'best settings' (default all)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for name in options.sets:
        kinds_of_rows = ("unit", "idf") if name in IDF_SETS else ("unit",)
        data = {rows: read_set(options.data, name, rows) for rows in kinds_of_rows}
        models = {"LEML": lt.LEML(l2=SETTINGS[name].get("projection_l2", 10.0), n_jobs=options.threads)}
        models["paper's settings"] = lt.GBDTSparse(**SETTINGS[name], n_jobs=options.threads)
        if name in IDF_SETS:
            models["paper's settings, idf"] = clone(models["paper's settings"])
        if name == "eurlex":
            for projection in ("leml", "pca", "random"):
                settings = BEST[name] | {"projection": projection}
                models[f"best settings, {projection}"] = lt.GBDTSparse(**settings, n_jobs=options.threads)
        else:
            models["best settings"] = lt.GBDTSparse(**BEST[name], n_jobs=options.threads)
        for label, model in models.items():
            if options.models and label not in options.models:
                continue
            rows = "unit" if label in ("LEML", "paper's settings") else kinds_of_rows[-1]
            X, Y, X_test, Y_test = data[rows]
            record = {
                "question": "gbdt accuracy",
                "set": name,
                "model": label,
                "rows": rows,
                "threads": options.threads,
            }
            record["params"] = {key: value for key, value in model.get_params().items() if key != "n_jobs"}
            if label.startswith("best settings, "):
                learn = partial(learn_projection, model.projection, X, Y, model.projection_l2, options.threads)
                record["projection_cpu_seconds"] = measure(learn, 1)["cpu_seconds"]
            record |= {
                f"train_{key}": value for key, value in measure(partial(model.fit, X, Y), options.repeats).items()
            }
            predicting = measure(partial(model.predict_top_k, X_test, 5), 5, warm_ups=1)
            record["predict_us_per_row"] = round(1e6 * predicting["wall_seconds"] / X_test.shape[0], 2)
            record |= {"model_bytes": model_bytes(model), **precisions(model, X_test, Y_test)}
            emit(record, save="gbdt_accuracy" if options.save else None)


if __name__ == "__main__":
    main()
