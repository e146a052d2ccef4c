"""scikit-learn's own model-selection tools on every estimator: results must be finite and sensible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
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
from sklearn.preprocessing import MaxAbsScaler

import longtail as lt
from longtail._base import XMCClassifier
from tests.contract.estimators import ESTIMATORS

SPLIT = KFold(3)


@pytest.fixture(params=ESTIMATORS)
def estimator(request: pytest.FixtureRequest) -> XMCClassifier:
    return ESTIMATORS[request.param]()


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any]:
    made = lt.datasets.make_synthetic(n_rows=240, n_features=60, n_labels=6, labels_per_row=2)
    return made.X.toarray(), made.Y.toarray().astype(int)


def is_weak(estimator: XMCClassifier) -> bool:
    return isinstance(estimator, lt.Popularity)


def test_scorers_are_finite_and_better_than_chance(estimator: XMCClassifier, data: Any) -> None:
    scoring = ["f1_micro", "f1_samples", "accuracy", "roc_auc", "average_precision"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fold without a label of some row
        found = cross_validate(estimator, *data, scoring=scoring, cv=SPLIT)
    scores = {name: found[f"test_{name}"] for name in scoring}
    assert all(np.isfinite(values).all() for values in scores.values()), scores
    if not is_weak(estimator):
        assert all(scores[name].mean() > 0.55 for name in ("f1_micro", "roc_auc", "average_precision")), scores


def test_ranking_scorers_by_name(estimator: XMCClassifier, data: Any) -> None:
    scoring = {name: lt.scorers[name] for name in ("p@1", "ndcg@3", "recall@5", "psp@5", "psndcg@1")}
    found = cross_validate(estimator, *data, scoring=scoring, cv=SPLIT)
    scores = {name: found[f"test_{name}"] for name in scoring}
    assert all((values > (5 if is_weak(estimator) else 40)).all() for values in scores.values()), scores
    piped = cross_validate(make_pipeline(MaxAbsScaler(), estimator), *data, scoring=scoring, cv=SPLIT)
    assert all(np.isfinite(piped[f"test_{name}"]).all() for name in scoring), piped


def test_a_ranking_scorer_is_what_evaluate_says(data: Any) -> None:
    X, Y = data
    model = lt.DiSMEC(n_jobs=1).fit(X, Y)
    propensity = lt.propensity.from_counts(model.label_counts_, model.n_rows_)
    expected = lt.metrics.evaluate(model.predict_top_k(X, 5), Y, propensity=propensity)
    assert lt.scorers["PSP@3"](model, X, Y) == pytest.approx(expected["PSP@3"])
    with pytest.raises(KeyError, match="such as 'psp@5'"):
        lt.scorers["accuracy"]


def test_searches_choose_by_score(data: Any) -> None:
    grid = {"cost": [1e-4, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = GridSearchCV(lt.DiSMEC(n_jobs=1), grid, scoring="f1_micro", cv=SPLIT).fit(*data)
        # scikit-learn's halving takes 1-D y only, whatever the estimator.
        classes = data[1][:, 0]
        halved = HalvingGridSearchCV(lt.DiSMEC(n_jobs=1), grid, scoring=lt.scorers["p@1"], cv=SPLIT).fit(
            data[0], classes
        )
    assert found.best_params_ == {"cost": 1.0}
    assert np.isfinite(halved.best_score_)


def test_learning_curves_and_column_transformers(estimator: XMCClassifier, data: Any) -> None:
    X, Y = data
    _, train, test = learning_curve(clone(estimator), X, Y, scoring=lt.scorers["p@1"], cv=SPLIT, train_sizes=[0.5, 1.0])
    assert np.isfinite(train).all()
    assert np.isfinite(test).all()
    columns = ColumnTransformer([("scaled", MaxAbsScaler(), slice(0, 30)), ("plain", "passthrough", slice(30, 60))])
    assert make_pipeline(columns, clone(estimator)).fit(X, Y).predict(X).shape == Y.shape


def test_dense_scores_agree_with_rankings_and_have_a_limit(
    estimator: XMCClassifier, data: Any, monkeypatch: Any
) -> None:
    X, Y = data
    estimator.fit(X, Y)
    dense = estimator.decision_function(X)
    top = estimator.predict_top_k(X, 1, utility="score")
    np.testing.assert_array_equal(dense.max(axis=1), top.scores[:, 0])
    monkeypatch.setattr("longtail._dense_scores._MAX_DENSE_SCORES", 10)
    with pytest.raises(ValueError, match="use predict_top_k"):
        estimator.decision_function(X)


def test_classes_go_through_cross_val_predict(estimator: XMCClassifier, data: Any) -> None:
    X, Y = data
    y = np.array(["ant", "bee"])[Y[:, 0]]
    found = cross_val_predict(estimator, X, y, cv=SPLIT)
    assert set(found) <= {"ant", "bee"}
    scores = cross_val_predict(estimator, X, y, cv=SPLIT, method="decision_function")
    assert scores.shape == (len(y),)
    calibrated = CalibratedClassifierCV(clone(estimator), cv=2).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)


@pytest.mark.parametrize("linear", [lt.DiSMEC(n_jobs=1), lt.PDSparse(n_jobs=1)], ids=repr)
def test_coefficients_are_the_linear_model(linear: Any, data: Any) -> None:
    X, Y = data
    model = clone(linear).fit(X, Y)
    np.testing.assert_allclose(X @ model.coef_.T.toarray() + model.intercept_, model.decision_function(X), atol=1e-4)


def test_a_tagger_is_searched_over_its_parts() -> None:
    texts = ["red apple", "green pear", "red cherry", "green grape", "blue sky", "blue sea"] * 6
    labels = [["red"], ["green"], ["red"], ["green"], ["blue"], ["blue"]] * 6
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1))
    assert repr(clone(tagger)) == repr(tagger)
    found = GridSearchCV(tagger, {"estimator__cost": [0.1, 1.0], "vectorizer__max_ngram": [1, 2]}, cv=2)
    found.fit(texts, labels)
    assert found.best_score_ == 1.0
    assert found.predict(["a red thing"]) == [["red"]]
    scores = cross_val_score(tagger, texts, labels, scoring=lt.scorers["p@1"], cv=2)
    assert (scores == 100).all()
