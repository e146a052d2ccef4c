"""Does training time grow linearly with the number of labels, and memory not at all but for the model?

Trains 1,000 to 100,000 synthetic labels on the same rows (the labels of a smaller run are the first of a larger one)
and reports seconds per label, and the peak memory of a fit in a process of its own, with and without the model.

Example: python benchmarks/bench_dismec_scaling.py --labels 1000 10000 --repeats 1
"""

import functools
import tempfile
from pathlib import Path

from dismec_data import synthetic
from measure import emit, make_parser, measure, peak_memory

import longtail as lt

N_ROWS, N_FEATURES, MAX_LABELS = 20_000, 10_000, 100_000


def data(n_labels: int):
    X, Y = synthetic(N_ROWS, N_FEATURES, MAX_LABELS)
    return X, Y[:, :n_labels]


def fit_with_checkpoint(pair) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lt.DiSMEC(n_jobs=1).fit(*pair, checkpoint=Path(folder) / "run")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--labels", nargs="+", type=int, default=[1000, 3000, 10_000, 30_000, 100_000])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    for n_labels in options.labels:
        X, Y = data(n_labels)
        for threads in options.threads:
            model = lt.DiSMEC(n_jobs=threads)
            record = {"question": "labels scaling", "n_labels": n_labels, "n_rows": N_ROWS, "threads": threads}
            record |= {"n_features": N_FEATURES} | measure(functools.partial(model.fit, X, Y), options.repeats)
            record["wall_milliseconds_a_label"] = 1000 * record["wall_seconds"] / n_labels
            record["model_bytes"] = sum(getattr(model, part).nbytes for part in model._fitted_arrays())
            if threads == 1:
                # Mapped pages of the shards and of the model count as resident while there is room for them.
                record |= peak_memory(fit_with_checkpoint, functools.partial(data, n_labels))
            emit(record, "dismec_scaling" if options.save else None)


if __name__ == "__main__":
    main()
