"""How accurate is DiSMEC on the public sets, with its losses, weights of positives and int8 weights?

Example: python benchmarks/bench_dismec_accuracy.py --datasets bibtex eurlex --repeats 1
"""

import functools

from dismec_data import SETS, describe, load
from measure import emit, make_parser, measure

import longtail as lt

VARIANTS = {
    "default": {},
    "int8": {"weight_type": "int8"},
    "propensity": {"positive_weights": "propensity"},
    "unbiased": {"positive_weights": "unbiased"},
    "free bias": {"regularize_bias": False},
    "logistic": {"loss": "logistic"},
}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["bibtex", "delicious", "mediamill", "eurlex"], choices=SETS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for name in options.datasets:
        X, Y = load(name, "train")
        X_test, Y_test = load(name, "test")
        propensity = lt.propensity.from_labels(Y)
        for variant in options.variants:
            model = lt.DiSMEC(n_jobs=options.threads, **VARIANTS[variant])
            record = {"question": "accuracy", "variant": variant, "threads": options.threads} | describe(name, X, Y)
            record |= measure(functools.partial(model.fit, X, Y), options.repeats)
            found = lt.metrics.evaluate(model.predict_top_k(X_test, top_k=5), Y_test, propensity=propensity)
            record |= {f"{m}@{k}": round(found[f"{m}@{k}"], 2) for m in ("P", "PSP") for k in (1, 3, 5)}
            record["n_unconverged"] = model.n_unconverged_
            emit(record, "dismec_accuracy" if options.save else None)


if __name__ == "__main__":
    main()
