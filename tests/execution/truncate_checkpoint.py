"""Fit with a checkpoint, truncate every file in it, and compare the model with itself. Prints one JSON line.

python -m tests.execution.truncate_checkpoint ESTIMATOR CHECKPOINT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import longtail as lt
from tests.contract.estimators import ESTIMATORS


def main() -> None:
    name, checkpoint = sys.argv[1], Path(sys.argv[2])
    # Files below 32 KiB are read and not mapped: make the arrays larger.
    made = lt.datasets.make_synthetic(n_rows=600, n_features=4000, n_labels=20_000, labels_per_row=4)
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
    print(json.dumps({"n_truncated": len(files), "same": bool(same)}))


if __name__ == "__main__":
    main()
