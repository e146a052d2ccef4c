"""Does the cost of a tree grow as n log n in the rows, and is its memory the data plus the tree in progress?

Synthetic text-like rows, 10,000 to 1,000,000; one tree, one thread, in a process of its own. `ns_per_row_level` is CPU
time over n log2(n / max_leaf_size): flat means n log n. Peak memory is reported with and without the data.

Example: python benchmarks/bench_fastxml_scaling.py --rows 10000 100000 1000000 --repeats 1 --save
"""

import functools
import math

import numpy as np
from measure import emit, make_parser, measure, peak_memory

import longtail as lt


def make(n_rows: int):
    """Make rows and labels; a first small fit pays for what fit imports, in time and memory."""
    grow((np.eye(20, dtype=np.float32), np.eye(20)))
    data = lt.datasets.make_synthetic(
        n_rows=n_rows, n_features=20_000, n_labels=max(100, n_rows // 50), labels_per_row=3, random_state=0
    )
    return data.X, data.Y


def grow(data) -> lt.FastXML:
    return lt.FastXML(n_trees=1, n_jobs=1, unit_rows=True).fit(*data)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    options = parser.parse_args()
    for n_rows in options.rows:
        X, Y = data = make(n_rows)
        model = lt.FastXML(n_trees=1, n_jobs=1, unit_rows=True)
        record = {"question": "scaling in rows", "system": "FastXML", "threads": 1, "n_rows": n_rows}
        record |= {"n_features": X.shape[1], "n_labels": Y.shape[1], "nnz": X.nnz, "label_nnz": Y.nnz}
        record |= measure(functools.partial(model.fit, *data), options.repeats)
        levels = math.log2(n_rows / model.max_leaf_size)
        record["ns_per_row_level"] = round(1e9 * record["cpu_seconds"] / (n_rows * levels), 1)
        record["depth"] = round(float(model.tree_depths_[0]), 2)
        record["data_bytes"] = X.nnz * 8 + Y.nnz * 4 + 16 * n_rows
        record |= peak_memory(grow, functools.partial(make, n_rows))
        emit(record, "fastxml_scaling" if options.save else None)


if __name__ == "__main__":
    main()
