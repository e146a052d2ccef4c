"""How much faster than vanilla boosting are sparse leaves on EURLex-4K (LEML, 100 dimensions; the paper: 40×)?

Both boosters see the same projected rows; the projection's time is not counted. Vanilla (`leaf_top_k=None`) keeps every
label in every leaf; its gradients are dense after a few trees. The sparse booster may grow more trees: the first
number of trees at which it is as accurate as vanilla is searched, and its time up to there is reported too.
"""

from gbdt_data import PAPER, add_data_option, learn_projection, model_bytes, precisions, read_set
from measure import emit, make_parser, measure

import longtail as lt
from longtail import _core
from longtail.gbdt.projection import project


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(repeats=1)
    add_data_option(parser)
    parser.add_argument("--trees", type=int, default=10, help="trees of the vanilla booster (default 10)")
    parser.add_argument("--leaf-top-k", type=int, default=10, help="of the sparse booster (default 10)")
    parser.add_argument("--split-labels", type=int, default=16, help="of the sparse booster (default 16)")
    parser.add_argument("--shrinkage", type=float, default=0.3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    X, Y, X_test, Y_test = read_set(options.data, "eurlex")
    control = _core.Control()
    W = learn_projection("leml", X, Y, 1.0, options.threads)
    Z, Z_test = (project(rows, W, options.threads, control) for rows in (X, X_test))

    def run(label: str, **settings: object) -> tuple[float, float]:
        shared = PAPER | {"shrinkage": options.shrinkage, "projection": "none", "n_jobs": options.threads}
        model = lt.GBDTSparse(**(shared | settings))
        spent = measure(lambda: model.fit(Z, Y), options.repeats)
        found = precisions(model, Z_test, Y_test)
        predicting = measure(lambda: model.predict_top_k(Z_test, 5), 1)
        record = {"question": "gbdt sparse against vanilla", "set": "eurlex", "booster": label, **settings}
        record |= {"shrinkage": options.shrinkage, "threads": options.threads, **spent, **found}
        record["predict_us_per_row"] = round(1e6 * predicting["wall_seconds"] / Z_test.shape[0], 2)
        emit(record | {"model_bytes": model_bytes(model)}, save="gbdt_vanilla" if options.save else None)
        return spent["cpu_seconds"], found["P@1"]

    vanilla_seconds, vanilla_precision = run("vanilla", leaf_top_k=None, n_trees=options.trees)
    leaves = {"leaf_top_k": options.leaf_top_k, "split_labels": options.split_labels}
    for factor in (1, 1.1, 1.2, 1.35, 1.5, 2, 3, 4, 6):
        seconds, precision = run("sparse", **leaves, n_trees=round(factor * options.trees))
        print(f"{round(factor * options.trees)} trees: {vanilla_seconds / seconds:.1f} times faster, P@1 {precision}")
        if precision >= vanilla_precision:
            break


if __name__ == "__main__":
    main()
