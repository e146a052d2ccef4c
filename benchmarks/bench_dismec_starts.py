"""How much does the start save? Table 1 of the paper, for the sets we have and for both of our solvers.

Times one fit for each start and solver; the P@k beside it shows that the answer stays the same.

Example: python benchmarks/bench_dismec_starts.py --datasets bibtex eurlex --solvers newton auto
"""

import functools

from dismec_data import SETS, describe, load
from measure import emit, make_parser, measure

import longtail as lt

STARTS = ("zero", "bias", "ovap", "ovap++", "msi")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["bibtex", "delicious", "mediamill", "eurlex"], choices=SETS)
    parser.add_argument("--starts", nargs="+", default=list(STARTS), choices=STARTS)
    parser.add_argument("--solvers", nargs="+", default=["auto", "newton"], choices=("auto", "newton"))
    parser.add_argument("--loss", default="squared_hinge", choices=("squared_hinge", "logistic"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="train every n-th label only (wnwords is large)")
    options = parser.parse_args()
    for name in options.datasets:
        X, Y = load(name, "train")
        X_test, Y_test = load(name, "test")
        Y, Y_test = Y[:, :: options.every], Y_test[:, :: options.every]
        lt.DiSMEC(n_jobs=options.threads).fit(X, Y[:, :64])  # imports and page faults are not the question
        for solver in options.solvers:
            for start in options.starts:
                model = lt.DiSMEC(start=start, solver=solver, loss=options.loss, n_jobs=options.threads)
                record = {"question": "starts", "start": start, "solver": solver, "loss": options.loss}
                record |= describe(name, X, Y) | {"threads": options.threads, "every": options.every}
                record |= measure(functools.partial(model.fit, X, Y), options.repeats)
                found = lt.metrics.evaluate(model.predict_top_k(X_test, top_k=5), Y_test)
                record |= {f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}
                emit(record, "dismec_starts" if options.save else None)


if __name__ == "__main__":
    main()
