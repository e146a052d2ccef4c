"""How long does one tree take on data of Delicious-200K's shape, and how much memory (the paper: 1,092 s on one core)?

196,606 rows, 100 dense features, 205,443 labels, 75 labels per row from the synthetic generator; k = 100, depth 10, at
least 100 rows per leaf. Seconds are those of a tree after the first, which also cuts features into bins. The memory
is the whole process with the data.
"""

import resource
import statistics
import time

from gbdt_data import PAPER
from measure import emit, make_parser

import longtail as lt
from longtail import _core
from longtail.gbdt.column_blocks import make_booster


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=196_606)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--split-labels", type=int, default=0, help="as in GBDTSparse; 0 for all (default)")
    options = parser.parse_args()
    data = lt.datasets.make_synthetic(options.rows, 100, 205_443, 75.0, dense=True)
    for threads in options.threads:
        model = lt.GBDTSparse(**(PAPER | {"leaf_top_k": 100, "split_labels": options.split_labels or None}))
        labels = (data.Y.indptr, data.Y.indices, data.Y.shape[1])
        booster, control = make_booster(data.X, *labels, model._native_params()), _core.Control()
        wall, cpu = [], []
        for tree_id in range(options.repeats + 1):
            begin = time.perf_counter(), time.process_time()
            booster.grow(tree_id, threads, control)
            wall.append(time.perf_counter() - begin[0])
            cpu.append(time.process_time() - begin[1])
        record = {"question": "gbdt tree of Delicious-200K's shape", "rows": options.rows, "threads": threads}
        record |= {"split_labels": options.split_labels, "first_tree_wall_seconds": round(wall[0], 2)}
        for name, values in (("wall", wall[1:]), ("cpu", cpu[1:])):
            record[f"tree_{name}_seconds"] = round(statistics.median(values), 2)
            record[f"tree_{name}_seconds_range"] = [round(min(values), 2), round(max(values), 2)]
        record["gradients_per_row"] = round(float(booster.gradient_sizes().mean()), 1)
        record["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        emit(record, save="gbdt_large_tree" if options.save else None)


if __name__ == "__main__":
    main()
