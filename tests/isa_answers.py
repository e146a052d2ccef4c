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
from longtail.decisions import rank
from tests.contract.estimators import ESTIMATORS

_N_TRAIN = 500
COMPARED = {f"{name}-{kind}": make for name, make in ESTIMATORS.items() for kind in ("sparse", "dense")}
# Settings with kernels of their own.
COMPARED |= {
    "DiSMEC-int8-sparse": lambda: lt.DiSMEC(weight_type="int8", n_jobs=1),
    "DiSMEC-logistic-sparse": lambda: lt.DiSMEC(loss="logistic", n_jobs=1),
    "DiSMEC-newton-sparse": lambda: lt.DiSMEC(solver="newton", n_jobs=1),
    "DiSMEC-newton-dense": lambda: lt.DiSMEC(solver="newton", n_jobs=1),
    "LabelTree-int8-sparse": lambda: lt.LabelTree(weight_type="int8", max_leaf_size=4, fan_out=4, n_jobs=1),
    "LabelTree-exact-sparse": lambda: lt.LabelTree(leaves="exact", max_leaf_size=4, fan_out=4, n_jobs=1),
    "LabelTree-logistic-sparse": lambda: lt.LabelTree(loss="logistic", max_leaf_size=4, fan_out=4, n_jobs=1),
    "PfastreXML-mle-sparse": lambda: lt.PfastreXML(tail="mle", n_trees=5, n_jobs=1),
}
UTILITIES = ("balanced", "psp", "macro-f1", "macro-f1-by-row", "coverage")


def answers(folder: Path, models: Path) -> dict[str, NDArray[Any]]:
    made = lt.datasets.make_synthetic(n_rows=700, n_features=300, n_labels=40, labels_per_row=3)
    X = lt.datasets.unit_rows(made.X)
    found: dict[str, NDArray[Any]] = {"isa": np.array(_core.isa), "unit_rows": X.data}
    Y, Y_test = made.Y[:_N_TRAIN], made.Y[_N_TRAIN:]
    by_kind = {"sparse": X, "dense": np.ascontiguousarray(X.toarray(), dtype=np.float32)}
    for name, make in COMPARED.items():
        rows = by_kind[name.rpartition("-")[2]]
        model = make().fit(rows[:_N_TRAIN], Y)
        lt.save(model, folder / name)
        quality = lt.metrics.evaluate(model.predict_top_k(rows[_N_TRAIN:], top_k=5), Y_test)
        found[f"{name}-quality"] = np.array([quality["P@1"], quality["P@5"], quality["nDCG@5"]])
        top = lt.load(models / name).predict_top_k(rows[_N_TRAIN:], top_k=5)
        found[f"{name}-label_ids"], found[f"{name}-scores"] = top.label_ids, top.scores
    found |= decisions(made.Y)
    found |= parsed(X, made.Y, folder)
    label_ids = np.argsort(np.random.default_rng(0).random((50, 40)), axis=1).astype(np.int32)[:, :5]
    measured = lt.metrics.evaluate(label_ids, Y_test[:50], propensity=np.linspace(0.1, 1, 40))
    found["metrics"] = np.array(list(measured.values()), dtype=np.float64)
    sample = lt.datasets.load_sample()
    vectors = lt.TextVectorizer().fit(sample.train_texts[:300]).transform(sample.test_texts[:100])
    found |= {f"text-{part}": getattr(vectors, part) for part in ("indptr", "indices", "data")}
    return found


def decisions(Y: Any) -> dict[str, NDArray[Any]]:
    """Learn probabilities from a ranking that is the same for every build, and rank for utilities with them."""
    truth = Y.toarray()
    scores = (np.random.default_rng(0).normal(size=truth.shape) + 2 * truth).astype(np.float32)
    label_ids = np.argsort(-scores, axis=1).astype(np.int32)
    top = lt.TopK(label_ids, np.take_along_axis(scores, label_ids, axis=1))
    calibration = lt.Calibration().fit(top, Y, truth.sum(axis=0).astype(np.int64), len(truth))
    found = {"proba": calibration.proba(*top), "thresholds": calibration.thresholds_, "ece": np.array(calibration.ece_)}
    for utility in UTILITIES:
        chosen = rank(top, calibration, utility)
        found[f"{utility}-label_ids"], found[f"{utility}-scores"] = chosen.label_ids, chosen.scores
    return found


def parsed(X: Any, Y: Any, folder: Path) -> dict[str, NDArray[Any]]:
    """Write and read both text formats."""
    found = {}
    formats = lt.datasets
    for write, read in ((formats.write_xmc, formats.read_xmc), (formats.write_svmlight, formats.read_svmlight)):
        path = folder / f"{read.__name__}.txt"
        write(path, X, Y)
        for side, matrix in zip("XY", read(path, n_jobs=1), strict=True):
            found |= {f"{read.__name__}-{side}-{part}": getattr(matrix, part) for part in ("indptr", "indices", "data")}
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    np.savez(place / "answers.npz", **answers(place, Path(sys.argv[-1])))
