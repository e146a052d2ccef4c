"""Bring a data set into the files that every system reads: X.train.npz, Y.train.npz and the same for test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import datasets
from longtail.baselines import Popularity
from longtail.bench.matrix import Data
from longtail.datasets.formats import TEXT_ENDINGS
from longtail.propensity import PropensityModel
from longtail.tagging import Tagger, TextVectorizer


class Prepared:
    """A data set on disk, ready for any system, and what its metrics need."""

    def __init__(self, data: Data, files: Path, folder: Path) -> None:
        (X, Y), (X_test, Y_test) = _read(data, files)
        if data.max_rows:
            X, Y, X_test, Y_test = (matrix[: data.max_rows] for matrix in (X, Y, X_test, Y_test))
        if data.max_test_rows:
            X_test, Y_test = X_test[: data.max_test_rows], Y_test[: data.max_test_rows]
        _check(data, X, Y, X_test, Y_test)
        if data.sample_labels:
            label_ids = sample_labels(Y.shape[1], data.sample_labels)
            Y, Y_test = (sp.csr_array(labels[:, label_ids]) for labels in (Y, Y_test))
        if data.missing:
            Y = drop_labels(Y, **data.missing)
        if data.unit_rows:
            X, X_test = datasets.unit_rows(X), datasets.unit_rows(X_test)
        folder.mkdir(parents=True)
        datasets.write_npz(folder / "X.train.npz", X, Y)
        datasets.write_npz(folder / "X.test.npz", X_test, Y_test)
        self.folder = folder
        self.Y_test = Y_test
        self.label_counts: NDArray[np.int64] = np.bincount(Y.indices, minlength=Y.shape[1])
        self.sizes = {
            "n_rows": int(X.shape[0]),
            "n_test_rows": int(X_test.shape[0]),
            "n_features": int(X.shape[1]),
            "n_labels": int(Y.shape[1]),
        }


def sample_labels(n_labels: int, size: int) -> NDArray[np.int64]:
    """Choose labels at random, always the same ones; their order stays."""
    return np.sort(np.random.default_rng(0).permutation(n_labels)[:size])


def drop_labels(Y: Any, a: float = PropensityModel.a, b: float = PropensityModel.b, seed: int = 0) -> sp.csr_array:
    """Keep each label of each row with the propensity of the label: what is left of a complete truth."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    chances = PropensityModel(a, b).from_counts(counts, Y.shape[0])
    kept = np.random.default_rng(seed).random(Y.nnz) < chances[Y.indices]
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))[kept]
    return sp.csr_array((np.ones(int(kept.sum()), np.float32), (rows, Y.indices[kept])), shape=Y.shape)


def _read(data: Data, files: Path) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    if data.synthetic:
        made = datasets.make_synthetic(**data.synthetic)
        n_test = max(1, made.Y.shape[0] // 10)
        return (made.X[n_test:], made.Y[n_test:]), (made.X[:n_test], made.Y[:n_test])
    if data.sample:
        sample = datasets.load_sample()
        return _vectors((sample.train_texts, sample.train_labels), (sample.test_texts, sample.test_labels))
    train, test = files / data.train, files / data.test
    for path in (train, test):
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; set LONGTAIL_DATA or --data-folder to where {data.train} is"
            )
    if train.name.removesuffix(".gz").endswith(TEXT_ENDINGS):
        return _vectors(datasets.read_text(train), datasets.read_text(test))
    X, Y = datasets.read(train)
    return (X, Y), datasets.read(test, n_features=X.shape[1], n_labels=Y.shape[1])


def _check(data: Data, X: Any, Y: Any, X_test: Any, Y_test: Any) -> None:
    """Refuse what no system could be measured on, or only some, and then on something else than the others."""
    owner = f"bench: data {data.name!r}"
    if Y.nnz == 0 or X_test.shape[0] == 0:
        raise ValueError(f"{owner} needs labels to train on and rows to test on, got {Y.nnz} and {X_test.shape[0]}")
    for what, train, test in (("features", X, X_test), ("labels", Y, Y_test)):
        if train.shape[1] != test.shape[1]:
            raise ValueError(
                f"{owner}: train has {train.shape[1]} {what}, test has {test.shape[1]}; they must number the same ones"
            )


def _vectors(train: Any, test: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Turn texts and label names into matrices as a Tagger does; labels that only the test part has do not count."""
    vectorizer = TextVectorizer()
    tagger = Tagger(Popularity(), vectorizer).fit(*train)
    vectorizer.fit(train[0])
    (X, Y), (X_test, Y_test) = (
        (vectorizer.transform(texts), tagger.encode(labels)[0]) for texts, labels in (train, test)
    )
    return (X, Y), (X_test, Y_test)
