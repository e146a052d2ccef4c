"""What does `keep_statistics=True` cost?

Fits a sample of the labels of each set with and without statistics, in turn, and reports the ratio of CPU seconds.

Example: python benchmarks/bench_dismec_statistics.py --save
"""

from functools import partial

import numpy as np
import scipy.sparse as sp
from dismec_data import describe, load
from measure import emit, make_parser, measure_in_turn

import longtail as lt

SHARES = {"eurlex": 1 / 8, "bibtex": 1.0, "mediamill": 1.0, "wnwords": 1 / 256}  # of the labels, drawn at random


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=tuple(SHARES), choices=tuple(SHARES))
    options = parser.parse_args()
    for name in options.datasets:
        X, Y = load(name, "train")
        n_trained = int(SHARES[name] * Y.shape[1])
        chosen = np.random.default_rng(0).choice(Y.shape[1], n_trained, replace=False)
        columns = sp.csr_array(Y.tocsc()[:, np.sort(chosen)])
        fits = [partial(lt.DiSMEC(n_jobs=1, keep_statistics=kept).fit, X, columns) for kept in (False, True)]
        plain, told = measure_in_turn(fits, options.repeats, warm_ups=1)
        record = {"question": "cost of statistics", "system": "DiSMEC", "threads": 1} | describe(name, X, Y)
        record |= {"n_trained": n_trained, "cpu_seconds": plain["cpu_seconds"]}
        record |= {"cpu_seconds_with_statistics": told["cpu_seconds"], "repeats": options.repeats}
        # The least of each: others on the machine can only add to it.
        record["ratio"] = round(told["cpu_seconds_min"] / plain["cpu_seconds_min"], 3)
        emit(record, "dismec_statistics" if options.save else None)


if __name__ == "__main__":
    main()
