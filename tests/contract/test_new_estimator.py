"""What docs/contributing.md promises: a new estimator is its own class and one line of registration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import longtail as lt
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Matrix
from longtail._rules import Real
from longtail._topk import TopK
from longtail.cli.app import main
from longtail.execution import Run
from longtail.saving.registry import HOMES, Home


@dataclass(frozen=True, eq=False)
class Centroids(State):
    means: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=2, finite=True)]

    def check(self, owner: str, facts: Facts) -> None:
        if self.means.shape != (facts.n_features_in, facts.n_labels):
            raise ValueError(f"{owner}: means_ must have one row per feature and one column per label")


@dataclass(kw_only=True, eq=False, repr=False)
class NearestMean(XMCClassifier):
    """Score a label by the product of the row and the label's mean row (a toy: it keeps a dense matrix)."""

    smoothing: Annotated[float, Real(0)] = 1.0

    _State: ClassVar = Centroids

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> Centroids:
        sums = (sp.csr_array(X).T @ Y).toarray()
        return Centroids((sums / (Y.sum(axis=0) + self.smoothing)).astype(np.float32))

    def _top_k(self, fitted: Fitted[Centroids], X: Matrix, top_k: int) -> TopK:
        scores = np.asarray(X @ fitted.state.means, dtype=np.float32)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k].astype(np.int32)
        return TopK(best, np.take_along_axis(scores, best, axis=1))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOMES, "NearestMean", Home(__name__, "estimator"))


def test_a_new_estimator_is_saved_searched_and_used_for_texts(tmp_path: Path) -> None:
    data = lt.datasets.make_synthetic(n_rows=200, n_features=50, n_labels=10, labels_per_row=2)
    model = NearestMean().fit(data.X, data.Y)
    lt.save(model, tmp_path / "model")
    found = lt.load(tmp_path / "model").predict_top_k(data.X)
    np.testing.assert_array_equal(found.label_ids, model.predict_top_k(data.X).label_ids)
    np.testing.assert_array_equal(model.means_, model._whole().state.means)
    search = GridSearchCV(clone(model), {"smoothing": [0.5, 2.0]}, cv=2).fit(data.X.toarray(), data.Y.toarray())
    assert search.best_params_["smoothing"] in (0.5, 2.0)
    with pytest.raises(ValueError, match="smoothing must be a number >= 0"):
        NearestMean(smoothing=-1).fit(data.X, data.Y)
    tagger = lt.Tagger(NearestMean(), lt.TextVectorizer(min_df=1)).fit(["red apple", "green pear"], [["a"], ["p"]])
    assert tagger.tag(["apple"], top_k=1)[0][0].label == "a"


def test_commands_know_it_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lt.datasets.make_synthetic(n_rows=100, n_features=30, n_labels=5, labels_per_row=1)
    lt.datasets.write_xmc(tmp_path / "train.txt", data.X, data.Y)
    main(["train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "m"), "-e", "NearestMean", "-p", "smoothing=2"])
    capsys.readouterr()
    main(["info", str(tmp_path / "m"), "--json"])
    assert json.loads(capsys.readouterr().out)["parameters"]["smoothing"] == 2
