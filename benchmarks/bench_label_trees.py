"""Label trees against each other and against exact one-vs-all: seconds, memory, accuracy, time per row.

One JSON line per run, on one core. Every run is a process of its own, so that peak memory is that run's.

    python benchmarks/bench_label_trees.py                      # every set and system
    python benchmarks/bench_label_trees.py eurlex wnwords       # some sets
    LONGTAIL_BENCH_SYSTEMS="one tree,exact" python benchmarks/bench_label_trees.py eurlex

Sets: eurlex, wnwords, npmowner (of $LONGTAIL_DATA), and synthetic-N with N labels. Rows are scaled to length one; test
rows are the first 5,000. Peers (XR-Linear, Omikuji's Parabel) run if $LONGTAIL_PEERS is the Python of an environment
that has them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import longtail as lt
from longtail.bench.machine import describe_machine

SYSTEMS: dict[str, Any] = {
    "one tree": lambda: lt.LabelTree(unit_rows=True, n_jobs=1),
    "one tree, int8": lambda: lt.LabelTree(unit_rows=True, weight_type="int8", n_jobs=1),
    "parabel": lambda: lt.LabelTree.parabel(unit_rows=True, n_jobs=1),
    "bonsai": lambda: lt.LabelTree.bonsai(unit_rows=True, n_jobs=1),
    "exact": lambda: lt.LabelTree(leaves="exact", unit_rows=True, n_jobs=1),
    "DiSMEC": lambda: lt.DiSMEC(unit_rows=True, n_jobs=1),
}
SETS = ("eurlex", "wnwords", "npmowner", "synthetic-16000")
SLOW = {("npmowner", "DiSMEC"), ("npmowner", "bonsai"), ("npmowner", "parabel"), ("npmowner", "exact")}
N_TEST_ROWS = 5000


def read(name: str) -> tuple[Any, Any, Any, Any]:
    """Return training and test rows."""
    if name.startswith("synthetic-"):
        n_labels = int(name.removeprefix("synthetic-"))
        made = lt.datasets.make_synthetic(2 * n_labels, max(n_labels, 1000), n_labels, random_state=0)
        X, Y = made.X, made.Y
        n_test = min(N_TEST_ROWS, X.shape[0] // 10)
        return X[:-n_test], Y[:-n_test], X[-n_test:], Y[-n_test:]
    directory = Path(os.environ.get("LONGTAIL_DATA", "../shared/data")) / name
    parts = [lt.datasets.read_xmc(directory / f"{name}_{part}.txt.gz") for part in ("train", "test")]
    (X, Y), (X_test, Y_test) = parts
    return X, Y, X_test[:N_TEST_ROWS], Y_test[:N_TEST_ROWS]


def measure(set_name: str, system: str) -> dict[str, Any]:
    """Train and test one system on one set."""
    X, Y, X_test, Y_test = read(set_name)
    model = SYSTEMS[system]()
    begin = time.process_time()
    model.fit(X, Y)
    train_seconds = time.process_time() - begin
    begin = time.process_time()
    top = model.predict_top_k(X_test, top_k=5)
    predict_seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    scores = lt.metrics.evaluate(top, Y_test)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        lt.save(model, path)
        size = sum(file.stat().st_size for file in path.iterdir())
        begin = time.process_time()
        lt.load(path)
        load_seconds = time.process_time() - begin
    return {
        "set": set_name,
        "system": system,
        "n_rows": X.shape[0],
        "n_labels": Y.shape[1],
        "cpu_seconds": round(train_seconds, 2),
        "ms_per_row": round(1e3 * predict_seconds / X_test.shape[0], 4),
        "peak_mb": round(peak),
        "model_mb": round(size / 1e6, 1),
        "load_seconds": round(load_seconds, 3),
        "P": [round(float(scores[f"P@{k}"]), 2) for k in (1, 3, 5)],
    }


PEER_SCRIPT = """
import json, sys, time, resource
import numpy as np, scipy.sparse as sp
X, Y, X_test = (sp.load_npz(path) for path in sys.argv[2:5])
begin = time.process_time()
if sys.argv[1] == "XR-Linear":
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel
    chain = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
    model = XLinearModel.train(X, Y, C=chain, threads=1)
    seconds = time.process_time() - begin
    begin = time.process_time()
    found = model.predict(X_test, only_topk=5, threads=1)
    found = [found.indices[a:b][np.argsort(-found.data[a:b])] for a, b in zip(found.indptr[:-1], found.indptr[1:])]
else:
    raise SystemExit("unknown peer " + sys.argv[1])
predict = time.process_time() - begin
ids = np.full((X_test.shape[0], 5), -1)
for row, labels in enumerate(found):
    ids[row, : len(labels)] = labels[:5]
np.save(sys.argv[5], ids)
print(json.dumps({"cpu_seconds": round(seconds, 2), "ms_per_row": round(1e3 * predict / X_test.shape[0], 4),
                  "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}))
"""


def measure_peer(set_name: str, peer: str, python: str) -> dict[str, Any]:
    """Run a peer in its own environment on the same rows."""
    import scipy.sparse as sp

    X, Y, X_test, Y_test = read(set_name)
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / f"{name}.npz" for name in ("X", "Y", "X_test")]
        unit = lt.datasets.unit_rows
        for path, matrix in zip(paths, (unit(X), Y, unit(X_test)), strict=True):
            sp.save_npz(path, sp.csr_matrix(matrix.astype(np.float32)))
        found = Path(directory) / "ids.npy"
        command = [python, "-c", PEER_SCRIPT, peer, *map(str, paths), str(found)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        ids = np.load(found).astype(np.int32)
    scores = lt.metrics.evaluate(lt.TopK(ids, np.zeros(ids.shape, np.float32)), Y_test)
    result = json.loads(done.stdout.strip().splitlines()[-1])
    precision = [round(float(scores[f"P@{k}"]), 2) for k in (1, 3, 5)]
    return {"set": set_name, "system": peer, "n_rows": X.shape[0], "n_labels": Y.shape[1], **result, "P": precision}


def main(arguments: list[str]) -> None:
    """Run every combination in a process of its own, or one (--one SET SYSTEM)."""
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure(*arguments[1:]) | {"machine": describe_machine()}), flush=True)
        return
    wanted = [name.strip() for name in os.environ.get("LONGTAIL_BENCH_SYSTEMS", "").split(",") if name.strip()]
    for set_name in arguments or SETS:
        for system in wanted or SYSTEMS:
            if wanted or (set_name, system) not in SLOW:
                subprocess.run([sys.executable, __file__, "--one", set_name, system], check=True)
        if python := os.environ.get("LONGTAIL_PEERS"):
            print(json.dumps(measure_peer(set_name, "XR-Linear", python)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
