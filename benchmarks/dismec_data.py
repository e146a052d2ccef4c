"""The public sets that the DiSMEC benchmarks use: unit rows, dense where the features are."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail.bench import worker

SETS = ("bibtex", "delicious", "mediamill", "eurlex", "wnwords")


def folder() -> Path:
    """Give the folder of the shared sets: $LONGTAIL_DATA, or ../shared/data beside the repository."""
    return Path(os.environ.get("LONGTAIL_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def load(name: str, part: str):
    """Read X and Y of one part ("train" or "test"); every row has length one."""
    X, Y = lt.datasets.read_xmc(folder() / name / f"{name}_{part}.txt.gz")
    X = lt.datasets.unit_rows(X)
    return (np.ascontiguousarray(X.toarray(), dtype=np.float32) if name == "mediamill" else X), Y


def describe(name: str, X, Y) -> dict[str, object]:
    """Size of a set, for the record of a run."""
    return {"dataset": name, "n_rows": X.shape[0], "n_features": X.shape[1], "n_labels": Y.shape[1]}


def run_peer(name: str, adapter: str, python: Path) -> dict[str, object]:
    """Train and test one peer on one thread in its own environment, with the worker of `longtail bench`."""
    with tempfile.TemporaryDirectory() as place:
        for part in ("train", "test"):
            X, Y = load(name, part)
            for letter, matrix in (("X", X), ("Y", Y)):
                sp.save_npz(Path(place) / f"{letter}.{part}.npz", sp.csr_matrix(matrix), compressed=False)
        task = {"adapter": adapter, "params": {}, "threads": 1, "cpus": [], "warm_ups": 1, "dense": False, "top_k": 5}
        task |= {"adapters": str(Path(__file__).with_name("peers") / "adapters.py"), "data": place, "answer": place}
        (Path(place) / "task.json").write_text(json.dumps(task))
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        command = [str(python), worker.__file__, str(Path(place) / "task.json")]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        record = json.loads((Path(place) / "result.json").read_text())
        found = lt.metrics.evaluate(np.load(Path(place) / "label_ids.npy"), Y)
    return {"system": adapter, "threads": 1} | record | {f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}


def synthetic(n_rows: int, n_features: int, n_labels: int, *, seed: int = 0):
    """Make unit text-like rows and rare labels whose rows share a few features: size without meaning."""
    random = np.random.default_rng(seed)
    per_row = 40
    # Zipf-like features: the inverse of a power of a uniform number.
    columns = (n_features * random.random((n_rows, per_row)) ** 3).astype(np.int64)
    topic = random.integers(0, n_labels, size=n_rows)
    columns[:, :8] = (topic[:, None] * 7919 + np.arange(8) * 104729) % n_features
    values = random.random((n_rows, per_row)).astype(np.float32) + 0.1
    rows = np.repeat(np.arange(n_rows), per_row)
    X = sp.coo_array((values.ravel(), (rows, columns.ravel())), shape=(n_rows, n_features)).tocsr()
    n_extra = 3 * n_rows
    label_rows = np.concatenate([np.arange(n_rows), random.integers(0, n_rows, n_extra)])
    labels = np.concatenate([topic, random.integers(0, n_labels, n_extra)])
    ones = np.ones(len(labels), dtype=np.int8)
    Y = sp.coo_array((ones, (label_rows, labels)), shape=(n_rows, n_labels)).tocsr()
    Y.data[:] = 1
    return lt.datasets.unit_rows(X.astype(np.float32)), Y
