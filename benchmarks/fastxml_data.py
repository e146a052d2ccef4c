"""The public sets that the FastXML benchmarks use: rows as in the file, dense where the features are."""

import os
from pathlib import Path

import numpy as np

import longtail as lt

SETS = ("eurlex", "bibtex", "delicious", "mediamill")


def folder() -> Path:
    """Give the folder of the shared sets: $LONGTAIL_DATA, or ../shared/data beside the repository."""
    return Path(os.environ.get("LONGTAIL_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def load(name: str, part: str):
    """Read X and Y of one part ("train" or "test")."""
    X, Y = lt.datasets.read_xmc(folder() / name / f"{name}_{part}.txt.gz")
    return (np.ascontiguousarray(X.toarray(), dtype=np.float32) if name == "mediamill" else X), Y


def describe(name: str, X, Y) -> dict[str, object]:
    """Size of a set, for the record of a run."""
    return {"dataset": name, "n_rows": X.shape[0], "n_features": X.shape[1], "n_labels": Y.shape[1]}
