"""Run every kernel with one build of the native core: python -m tests.isa_answers FOLDER [MODELS].

Writes FOLDER/answers.npz: what was trained and predicted. Models are saved in FOLDER; those in MODELS, saved by another
build, are loaded and used for prediction, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import longtail as lt
from longtail import _core
from tests.contract.estimators import ESTIMATORS

_N_TRAIN = 500
# Of a Blend the members are compared: its own scores are log-odds, which amplify small differences.
COMPARED = {name: make for name, make in ESTIMATORS.items() if name != "Blend"}


def answers(folder: Path, models: Path) -> dict[str, NDArray[Any]]:
    made = lt.datasets.make_synthetic(n_rows=700, n_features=300, n_labels=40, labels_per_row=3)
    X = lt.datasets.unit_rows(made.X)
    found: dict[str, NDArray[Any]] = {"isa": np.array(_core.isa)}
    Y_test = made.Y[_N_TRAIN:]
    for kind, rows in (("sparse", X), ("dense", np.ascontiguousarray(X.toarray(), dtype=np.float32))):
        for name, make in COMPARED.items():
            model = make().fit(rows[:_N_TRAIN], made.Y[:_N_TRAIN])
            lt.save(model, folder / f"{name}-{kind}")
            quality = lt.metrics.evaluate(model.predict_top_k(rows[_N_TRAIN:], top_k=5), Y_test)
            found[f"{name}-{kind}-quality"] = np.array([quality["P@1"], quality["P@5"], quality["nDCG@5"]])
            top = lt.load(models / f"{name}-{kind}").predict_top_k(rows[_N_TRAIN:], top_k=5)
            found[f"{name}-{kind}-label_ids"], found[f"{name}-{kind}-scores"] = top.label_ids, top.scores
    label_ids = np.argsort(np.random.default_rng(0).random((50, 40)), axis=1).astype(np.int32)[:, :5]
    measured = lt.metrics.evaluate(label_ids, Y_test[:50], propensity=np.linspace(0.1, 1, 40))
    found["metrics"] = np.array(list(measured.values()), dtype=np.float64)
    sample = lt.datasets.load_sample()
    vectors = lt.TextVectorizer().fit(sample.train_texts[:300]).transform(sample.test_texts[:100])
    found |= {f"text-{part}": getattr(vectors, part) for part in ("indptr", "indices", "data")}
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    np.savez(place / "answers.npz", **answers(place, Path(sys.argv[-1])))
