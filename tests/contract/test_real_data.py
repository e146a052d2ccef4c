"""scikit-learn's own tools on real texts: every estimator gives finite and sensible results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MultiLabelBinarizer

import longtail as lt
from longtail._base import XMCClassifier
from tests.contract.estimators import ESTIMATORS

FOLDS = KFold(2)
ALL: dict[str, Callable[[], XMCClassifier]] = ESTIMATORS | {
    "Blend": lambda: lt.Blend(first=lt.DiSMEC(), second=lt.FastXML(n_trees=5), n_jobs=1)
}
# A setting that can learn nothing, and one that can.
HOPELESS: dict[str, tuple[str, Any, Any]] = {
    "DiSMEC": ("cost", 1e-6, 1.0),
    "GBDTSparse": ("n_trees", 1, 20),
    "LEML": ("l2", 1e5, 0.1),
    "LabelTree": ("cost", 1e-6, 1.0),
    "FastXML": ("n_trees", 1, 10),
    "PfastXML": ("n_trees", 1, 10),
    "PfastreXML": ("n_trees", 1, 10),
    "CPLST": ("l2", 1e6, 0.1),
    "CS": ("n_components", 1, 30),
    "MLCSSP": ("n_components", 1, 10),
    "WSABIE": ("n_epochs", 1, 20),
    "SLEEC": ("n_components", 1, 10),
    "LPSR": ("cost", 1e-6, 1.0),
    "MLRF": ("n_trees", 1, 8),
    "MLRFnDCG": ("n_trees", 1, 8),
    "PDSparse": ("l1", 100.0, 0.1),
    "Blend": ("first", lt.Popularity(), lt.DiSMEC()),
}


class Data(NamedTuple):
    """Texts of Debian packages, and those of their labels that have 25 rows or more."""

    texts: list[str]
    labels: list[list[str]]
    names: list[str]
    X: Any
    Y: Any


@pytest.fixture(scope="module")
def data() -> Data:
    sample = lt.datasets.load_sample()
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform(sample.train_labels[:400])
    frequent = np.flatnonzero(Y.sum(axis=0) >= 25)
    names = binarizer.classes_[frequent].tolist()
    labels = [[name for name in row if name in names] for row in sample.train_labels[:400]]
    texts = sample.train_texts[:400]
    X = lt.TextVectorizer(min_df=3).fit_transform(texts)
    return Data(texts, labels, names, X, Y[:, frequent])


@pytest.fixture(scope="module")
def floor(data: Data) -> float:
    """What a ranking that looks at no row reaches."""
    scores = cross_val_score(lt.Popularity(), data.X, data.Y, scoring=lt.scorers["ndcg@5"], cv=FOLDS)
    return float(scores.mean())


@pytest.mark.parametrize("name", ALL)
def test_cross_validation_and_learning_curves(name: str, data: Data, floor: float) -> None:
    scoring = {"f1": "f1_micro", "ours": lt.scorers["f1_micro"], "ndcg": lt.scorers["ndcg@5"], "auc": "roc_auc"}
    found = cross_validate(ALL[name](), data.X, data.Y, scoring=scoring, cv=FOLDS)
    mean = {measure: found[f"test_{measure}"].mean() for measure in scoring}
    assert mean["ours"] == pytest.approx(mean["f1"])
    _, _, curve = learning_curve(
        ALL[name](), data.X, data.Y, scoring=lt.scorers["ndcg@5"], cv=FOLDS, train_sizes=[0.15, 1.0]
    )
    few, many = curve.mean(axis=1)
    assert many == pytest.approx(mean["ndcg"])
    if name == "Popularity":
        assert (mean["f1"], mean["auc"], mean["ndcg"]) == (0.0, 0.5, floor)  # no label is in half of the rows
        return
    assert 0.3 < mean["f1"] < 0.8
    assert 0.55 < mean["auc"] < 0.95
    if name == "SLEEC":  # two learners with forty rows each: hardly more than neighbours
        assert many > floor - 3
        return
    assert floor + 4 < many < 90
    assert many > few + 1, "more rows teach more"


@pytest.mark.parametrize("name", HOPELESS)
def test_a_search_finds_the_setting_that_can_learn(name: str, data: Data) -> None:
    parameter, hopeless, sound = HOPELESS[name]
    search = GridSearchCV(ALL[name](), {parameter: [hopeless, sound]}, scoring=lt.scorers["ndcg@5"], cv=FOLDS)
    search.fit(data.X, data.Y)
    worse, better = search.cv_results_["mean_test_score"]
    assert better > worse + 1
    assert search.best_params_[parameter] is sound
    top = search.best_estimator_.predict(data.X, top_k=2)
    assert lt.metrics.precision_at_k(top, data.Y, 1) > 60


@pytest.mark.parametrize("name", [name for name in HOPELESS if name != "Blend"])
def test_halving_finds_it_too(name: str, data: Data) -> None:
    parameter, hopeless, sound = HOPELESS[name]
    y = np.where(data.Y[:, data.names.index("role::program")], "program", "other")  # scikit-learn's halving: 1-D only
    search = HalvingGridSearchCV(
        ALL[name](),
        {parameter: [hopeless, sound]},
        scoring="accuracy",
        cv=FOLDS,
        min_resources=200,
        factor=2,
        random_state=0,
    ).fit(data.X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    always = max(np.mean(y == "program"), np.mean(y == "other"))
    assert scores[-1] > always + (0.01 if name == "SLEEC" else 0.06)


@pytest.mark.parametrize("name", ALL)
def test_pipelines_of_columns_rank_and_decide(name: str, data: Data) -> None:
    table = pd.DataFrame({"text": data.texts, "length": [float(len(text)) for text in data.texts]})
    columns = ColumnTransformer(
        [
            ("words", lt.TextVectorizer(min_df=3), "text"),
            ("length", FunctionTransformer(lambda column: np.log1p(column) / 100), ["length"]),
        ]
    )
    pipeline = make_pipeline(columns, ALL[name]()).fit(table, data.Y)
    decided = pipeline.predict(table)
    assert decided.shape == data.Y.shape
    top = pipeline.predict(table, top_k=3)
    assert isinstance(top, lt.TopK)
    assert lt.metrics.precision_at_k(top, data.Y, 1) > (40 if name == "Popularity" else 65)
    rows = pipeline[:-1].transform(table)
    np.testing.assert_array_equal(top.label_ids, pipeline[-1].predict_top_k(rows, 3).label_ids)


@pytest.mark.parametrize("name", ALL)
def test_probabilities_of_scikit_learn_are_for_classes_only(name: str, data: Data) -> None:
    with pytest.raises(ValueError, match="1d array"):  # its own rule, for every multi-label model
        CalibratedClassifierCV(ALL[name](), cv=2).fit(data.X, data.Y)
    y = np.where(data.Y[:, data.names.index("role::program")], "program", "other")
    model = CalibratedClassifierCV(ALL[name](), cv=2).fit(data.X, y)
    proba = model.predict_proba(data.X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    if name != "Popularity":
        assert (model.predict(data.X) == y).mean() > 0.6


def test_predict_ranks_only_when_asked(data: Data) -> None:
    model = lt.DiSMEC(n_jobs=1).fit(data.X, data.Y, calibrate=True)
    np.testing.assert_array_equal(
        model.predict(data.X, top_k=2, utility="psp", max_loss=1.0).label_ids,
        model.predict_top_k(data.X, 2, utility="psp", max_loss=1.0).label_ids,
    )
    with pytest.raises(ValueError, match="DiSMEC: predict takes utility and max_loss only together with top_k"):
        model.predict(data.X, utility="psp")


def test_every_argument_can_be_routed(data: Data) -> None:
    with config_context(enable_metadata_routing=True):
        model = lt.DiSMEC(n_jobs=1).set_fit_request(calibrate=True).set_predict_request(top_k=True)
        pipeline = make_pipeline(lt.TextVectorizer(min_df=3), model).fit(data.texts, data.Y, calibrate=True)
        assert pipeline[-1].calibration_ is not None
        assert pipeline.predict(data.texts, top_k=2).label_ids.shape == (400, 2)
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).set_fit_request(label_names=True)
        scores = cross_val_score(
            tagger, data.texts, data.Y, params={"label_names": data.names}, scoring=lt.scorers["p@1"], cv=FOLDS
        )
        assert (scores > 70).all()
        with pytest.raises(TypeError, match="DiSMEC: fit does not take weight; it takes sample_weight"):
            lt.DiSMEC().set_fit_request(weight=True)


def test_a_tagger_with_scorers_for_names_and_matrices(data: Data) -> None:
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=3))
    by_names = cross_val_score(tagger, data.texts, data.labels, scoring=lt.scorers["f1_micro"], cv=FOLDS)
    assert ((by_names > 0.25) & (by_names < 0.8)).all()
    for Y in (data.Y, sp.csr_array(data.Y), pd.DataFrame(data.Y, columns=data.names)):
        params = {} if isinstance(Y, pd.DataFrame) else {"label_names": data.names}
        for given in ({}, params):
            folds = {"cv": FOLDS, "params": given}
            found = lt.model_selection if sp.issparse(Y) else None
            score = cross_val_score if found is None else found.cross_val_score
            np.testing.assert_allclose(score(tagger, data.texts, Y, scoring="f1_micro", **folds), by_names)
            ranked = score(tagger, data.texts, Y, scoring=lt.scorers["p@1"], **folds)
            assert (ranked > 70).all()
            np.testing.assert_allclose(score(tagger, data.texts, Y, **folds), ranked / 100)
    decided = cross_val_predict(tagger, data.texts, data.Y, cv=FOLDS)
    assert decided.shape == data.Y.shape


def test_a_tagger_of_a_matrix_answers_in_its_columns(data: Data, tmp_path: Any) -> None:
    Y = np.hstack([np.zeros((400, 1), dtype=int), data.Y])  # a column without a row
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(data.texts, Y, label_names=["never", *data.names])
    lt.save(tagger, tmp_path / "m")
    for model in (tagger, lt.load(tmp_path / "m")):
        found = model.predict(data.texts)
        assert found.shape == Y.shape
        names = [[tag.label for tag in tags] for tags in model.tag(data.texts, 1)]
        columns = ["never", *data.names]
        assert [[columns[column] for column in row.nonzero()[0]] for row in found.toarray()] == names
    weights = np.where(np.arange(400) < 200, 1.0, 0.0)
    assert tagger.score(data.texts, Y, sample_weight=weights) == tagger.score(data.texts[:200], Y[:200])
    tagger.rename_labels({data.names[0]: "other"})
    tagger.learn(["xyzzy"], [["new"]], held_back=0)
    assert tagger.predict(data.texts).shape == (400, Y.shape[1] + 1)
    named = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(data.texts, data.labels)
    with pytest.raises(ValueError, match="got a matrix whose columns have no names; give lists of names"):
        named.score(data.texts, data.Y)
