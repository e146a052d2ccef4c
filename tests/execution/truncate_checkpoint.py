"""Fit with a checkpoint, truncate every file in it, and compare the model with itself. Prints one JSON line for each.

    python -m tests.execution.truncate_checkpoint FOLDER ESTIMATOR ...

Each estimator has a process of its own: a model that is mapped from a truncated file dies of SIGBUS.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

import longtail as lt
from longtail.datasets.synthetic import Synthetic
from tests.contract.estimators import ESTIMATORS
from tests.execution.kill_and_resume import in_child


def survives(name: str, made: Synthetic, checkpoint: Path) -> dict[str, object]:
    """Return how many files were truncated, and whether the model is still the same."""
    model = ESTIMATORS[name]().fit(made.X, made.Y, checkpoint=checkpoint)
    before = {name: value.copy() for name, value in model._fitted.public.items() if isinstance(value, np.ndarray)}
    top = model.predict_top_k(made.X)
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0o644)
        path.write_bytes(b"")
    same = all(np.array_equal(array, getattr(model, part)) for part, array in before.items())
    again = model.predict_top_k(made.X)
    same &= np.array_equal(top.label_ids, again.label_ids) and np.array_equal(top.scores, again.scores)
    return {"estimator": name, "n_truncated": len(files), "same": bool(same)}


def main() -> None:
    folder, *names = sys.argv[1:]
    # Files below 32 KiB are read and not mapped: make the arrays larger.
    made = lt.datasets.make_synthetic(n_rows=300, n_features=4000, n_labels=10_000, labels_per_row=4)
    lt.Popularity().fit(made.X, made.Y, executor="inline")  # imports what fits import, once for all
    for name in names:
        child = in_child(lambda name=name: print(json.dumps(survives(name, made, Path(folder, name))), flush=True))
        _, status = os.waitpid(child, 0)
        assert status == 0, f"{name} died with status {status}"


if __name__ == "__main__":
    main()
