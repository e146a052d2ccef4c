"""The public sets that the DiSMEC benchmarks use: unit rows, dense where the features are."""

import os
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import longtail as lt

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


def peer_files(name: str) -> tuple[Path, Path]:
    """Write a set as the npz pairs that run_peer.py reads; returns the paths of the two X files."""
    target = Path(tempfile.gettempdir()) / f"longtail-peers-{name}"
    target.mkdir(exist_ok=True)
    paths = []
    for part in ("train", "test"):
        path = target / f"X.{part}.npz"
        if not path.exists():
            X, Y = load(name, part)
            sp.save_npz(target / f"Y.{part}.npz", sp.csr_matrix(Y), compressed=False)
            sp.save_npz(path, sp.csr_matrix(X), compressed=False)
        paths.append(path)
    return paths[0], paths[1]


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
