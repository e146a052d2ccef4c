"""How does GBDT-SPARSE compare with XGBoost's multi-output trees: time, size, accuracy, and memory as labels grow?

`--peer` is an interpreter that has xgboost. Both grow the same number of trees of the same depth on the same rows
(Mediamill and Delicious, as in the files; Delicious unprojected, as XGBoost reads it). XGBoost keeps a histogram of
every node of a level, (features × bins × labels) of 16 bytes each: with its default of 256 bins, depth 10 on
Mediamill's 101 labels was killed at over 9 GB. `--cached-nodes` bounds how many it keeps (it then counts again instead
of subtracting), and `--max-bin 20` gives it no more thresholds than we try. With `--growing`, synthetic data with 100,
300, 1,000 … labels is trained by both; a system that was stopped is not asked for more labels.

Every run is a fresh process with `--memory-gb` of address space and `--timeout-seconds` to live. A line of a run that
was stopped says why, how many trees it had grown by then, and its memory so far.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from gbdt_data import PAPER, add_data_option, read_set
from measure import emit, make_parser

import longtail as lt

# Mediamill has 101 labels, 4.4 a row: leaves of 10 labels are as accurate as the paper's 20 and half as large.
LEAVES = {"mediamill": {"leaf_top_k": 10, "split_labels": 16}, "delicious": {"leaf_top_k": 20}}

# What both processes do; `system` chooses. Says on stderr how many trees there are, prints one JSON line at the end.
WORKER = r"""
import json, sys, time
import numpy as np, scipy.sparse as sp
system, folder, n_trees, depth, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
settings = json.loads(sys.argv[6])
X, X_test = (sp.load_npz(f"{folder}/{part}_X.npz") for part in ("train", "test"))
Y, Y_test = (sp.csr_matrix(sp.load_npz(f"{folder}/{part}_Y.npz")) for part in ("train", "test"))
if X.nnz > 0.3 * X.shape[0] * X.shape[1]:
    X, X_test = X.toarray(), X_test.toarray()
def memory(field):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
def tell(n_grown):
    print("trees", n_grown, file=sys.stderr, flush=True)
if system == "xgboost":
    import xgboost
    class Tell(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            tell(epoch + 1)
            return False
    model = xgboost.XGBClassifier(
        n_estimators=n_trees, max_depth=depth, tree_method="hist", multi_strategy="multi_output_tree", n_jobs=threads,
        learning_rate=settings["shrinkage"], reg_lambda=settings["l2"], min_child_weight=settings["min_leaf_size"] / 4,
        max_bin=settings["max_bin"], max_cached_hist_node=settings["cached_nodes"], callbacks=[Tell()])
    targets, more = Y.toarray(), {}
else:
    import longtail as lt
    ours = {name: value for name, value in settings.items() if name not in ("max_bin", "cached_nodes")}
    model = lt.GBDTSparse(n_trees=n_trees, max_depth=depth, projection="none", n_jobs=threads, **ours)
    targets, more = Y, {"progress": lambda done, total: tell(done) or True}
before = memory("VmRSS")
begin = time.perf_counter(), time.process_time()
model.fit(X, targets, **more)
record = {"train_wall_seconds": time.perf_counter() - begin[0], "train_cpu_seconds": time.process_time() - begin[1]}
record |= {"peak_bytes": memory("VmHWM"), "bytes_before": before}
if system == "xgboost":
    record["model_bytes"] = len(model.get_booster().save_raw("ubj"))
else:
    record["model_bytes"] = sum(getattr(model, name).nbytes for name in model._fitted_arrays())
begin = time.perf_counter()
if system == "xgboost":
    scores = model.predict_proba(X_test)
    top = np.argsort(-scores, axis=1, kind="stable")[:, :5]
else:
    top = model.predict_top_k(X_test, 5).label_ids
record["predict_us_per_row"] = 1e6 * (time.perf_counter() - begin) / X_test.shape[0]
truth = [set(Y_test.indices[a:b].tolist()) for a, b in zip(Y_test.indptr[:-1], Y_test.indptr[1:])]
hits = np.array([[i in labels for i in row] for row, labels in zip(top.tolist(), truth)])
record |= {f"P@{k}": round(100 * float(hits[:, :k].mean()), 2) for k in (1, 3, 5)}
print(json.dumps(record))
"""


def run(system, python, folder, options, settings):
    """Train and test in a fresh process; a record with `stopped`, trees and memory so far when it did not end well."""
    command = [python, "-c", WORKER, system, str(folder), str(options.trees), str(options.depth), str(options.threads)]
    room = options.memory_gb << 30
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        worker = subprocess.Popen(
            [*command, json.dumps(settings)],
            stdout=out,
            stderr=err,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)),
        )
        begin, peak = time.monotonic(), 0
        while worker.poll() is None and time.monotonic() - begin < options.timeout_seconds:
            peak = max(peak, peak_bytes(worker.pid))
            time.sleep(0.2)
        timed_out = worker.poll() is None
        worker.kill()
        worker.wait()
    said = (folder / "err").read_text().splitlines()
    if not timed_out and worker.returncode == 0:
        return json.loads((folder / "out").read_text().splitlines()[-1])
    grown = [int(line.split()[1]) for line in said if line.startswith("trees ")]
    last_words = [line for line in said if line.strip() and not line.startswith("trees ")]
    why = f"after {options.timeout_seconds} s" if timed_out else (last_words or [f"exit code {worker.returncode}"])[-1]
    return {"stopped": why[:200], "trees_grown": grown[-1] if grown else 0, "peak_bytes": peak}


def peak_bytes(pid):
    status = Path(f"/proc/{pid}/status")
    try:
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):  # it has just ended
        return 0


def run_often(system, python, folder, options, settings):
    """Repeat; the record of the median training time, with the range. A run that was stopped is not repeated."""
    records = []
    for _ in range(options.repeats):
        records.append(run(system, python, folder, options, settings))
        if "stopped" in records[-1]:
            return records[-1]
    records.sort(key=lambda record: record["train_wall_seconds"])
    middle = dict(records[(len(records) - 1) // 2])
    walls = [record["train_wall_seconds"] for record in records]
    middle["train_wall_seconds"] = statistics.median(walls)
    return middle | {"repeats": len(records), "train_wall_seconds_range": [walls[0], walls[-1]]}


def save_set(folder, X, Y, X_test, Y_test):
    for part, rows, labels in (("train", X, Y), ("test", X_test, Y_test)):
        sp.save_npz(folder / f"{part}_X.npz", sp.csr_matrix(rows))
        sp.save_npz(folder / f"{part}_Y.npz", sp.csr_matrix(labels))


def main() -> None:
    parser = make_parser(__doc__)
    parser.set_defaults(repeats=1)
    add_data_option(parser)
    parser.add_argument("--peer", required=True, help="python with xgboost")
    parser.add_argument("--sets", nargs="*", default=list(LEAVES), choices=list(LEAVES))
    parser.add_argument("--systems", nargs="+", default=["longtail", "xgboost"])
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--max-bin", type=int, default=256, help="of XGBoost (default 256, as it has it)")
    parser.add_argument("--cached-nodes", type=int, default=16, help="of XGBoost (default 16, so that it fits 10 GB)")
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout-seconds", type=int, default=600, help="of each process (default 600)")
    parser.add_argument("--memory-gb", type=int, default=10, help="address space of each process (default 10)")
    parser.add_argument("--growing", type=int, nargs="*", default=[], help="numbers of labels, e.g. 100 1000 10000")
    options = parser.parse_args()
    settings = {name: PAPER[name] for name in ("l2", "min_leaf_size")} | {"shrinkage": 0.1}
    settings |= {"max_bin": options.max_bin, "cached_nodes": options.cached_nodes}
    pythons = {"longtail": sys.executable, "xgboost": options.peer}
    systems = {system: pythons[system] for system in options.systems}
    save = "gbdt_xgboost" if options.save else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data_set in options.sets:
            save_set(folder, *read_set(options.data, data_set, "file"))
            for system, python in systems.items():
                record = {"question": "gbdt against xgboost", "set": data_set, "system": system}
                record |= {"trees": options.trees, "depth": options.depth, "threads": options.threads}
                if system == "xgboost":
                    record |= {"max_bin": options.max_bin, "cached_nodes": options.cached_nodes}
                else:
                    record |= LEAVES[data_set]
                emit(record | run_often(system, python, folder, options, settings | LEAVES[data_set]), save=save)
        stopped_at = {}
        for n_labels in options.growing:
            data = lt.datasets.make_synthetic(22_000, 50, n_labels, 5.0, dense=True)
            parts = np.split(np.arange(22_000), [20_000])
            save_set(folder, *(matrix[rows] for rows in parts for matrix in (data.X, data.Y)))
            for system, python in systems.items():
                record = {"question": "gbdt memory as labels grow", "n_labels": n_labels, "system": system}
                record |= {"trees": options.trees, "depth": options.depth, "threads": options.threads}
                record |= {"memory_gb": options.memory_gb}
                if system in stopped_at:
                    record["stopped"] = f"not tried: stopped at {stopped_at[system]} labels"
                else:
                    record |= run(system, python, folder, options, settings)
                    if "stopped" in record:
                        stopped_at[system] = n_labels
                emit(record, save=save)


if __name__ == "__main__":
    main()
