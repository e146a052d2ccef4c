"""Cross-validation with sparse labels, against scikit-learn's own on the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import model_selection as theirs
from sklearn.preprocessing import MaxAbsScaler

import longtail as lt
from longtail import model_selection as ours
from tests.contract.estimators import ESTIMATORS


@pytest.fixture(scope="module")
def data() -> Any:
    return lt.datasets.make_synthetic(n_rows=240, n_features=60, n_labels=8, labels_per_row=2)


@pytest.mark.parametrize(
    "scoring", ["f1_micro", lt.scorers["psp@3"], lt.scorers["macro-f1@3"], None], ids=["f1", "psp", "macro", "score"]
)
def test_sparse_labels_give_what_scikit_learn_gives_for_dense_ones(data: Any, scoring: Any) -> None:
    folds = theirs.KFold(3)
    found = ours.cross_val_score(lt.DiSMEC(n_jobs=1), data.X, data.Y, scoring=scoring, cv=folds)
    dense = theirs.cross_val_score(lt.DiSMEC(n_jobs=1), data.X, data.Y.toarray(), scoring=scoring, cv=folds)
    np.testing.assert_allclose(found, dense)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_cross_validated_with_sparse_labels(name: str, data: Any) -> None:
    found = ours.cross_validate(
        ESTIMATORS[name](),
        data.X,
        data.Y,
        cv=2,
        scoring={"P": lt.scorers["p@1"], "F": "f1_micro"},
        return_train_score=True,
        return_estimator=True,
        return_indices=True,
    )
    assert set(found) >= {"fit_time", "score_time", "test_P", "test_F", "train_P", "train_F", "estimator", "indices"}
    assert all(np.isfinite(found[key]).all() for key in ("test_P", "test_F", "train_P", "train_F"))
    assert all(model.n_labels_ == 8 for model in found["estimator"])
    rows = np.concatenate(found["indices"]["test"])
    assert sorted(rows.tolist()) == list(range(240))


def test_folds_hold_every_label_that_has_enough_rows(data: Any) -> None:
    counts = [data.Y[test].sum(axis=0) for _, test in ours.StratifiedFolds(4).split(data.X, data.Y)]
    total = data.Y.sum(axis=0)
    assert all((np.abs(count - total / 4) <= np.maximum(1, 0.2 * total)).all() for count in counts)
    again = [test for _, test in ours.StratifiedFolds(4).split(data.X, data.Y.toarray())]
    for (_, first), second in zip(ours.StratifiedFolds(4).split(data.X, data.Y), again, strict=True):
        np.testing.assert_array_equal(first, second)


def test_shuffles_hold_every_label_and_differ(data: Any) -> None:
    shuffles = ours.StratifiedShuffles(3, test_share=0.25, random_state=1)
    splits = list(shuffles.split(data.X, data.Y))
    assert shuffles.get_n_splits() == len(splits) == 3
    total = data.Y.sum(axis=0)
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(240))
        assert (np.abs(data.Y[test].sum(axis=0) - total / 4) <= np.maximum(1, 0.2 * total)).all()
    assert len({tuple(test) for _, test in splits}) == 3
    for (_, first), (_, second) in zip(splits, shuffles.split(None, data.Y.toarray()), strict=True):
        np.testing.assert_array_equal(first, second)
    found = ours.cross_val_score(lt.Popularity(), data.X, data.Y, scoring=lt.scorers["p@1"], cv=shuffles)
    assert np.isfinite(found).all()
    with pytest.raises(ValueError, match="StratifiedShuffles: n_splits must be"):
        list(ours.StratifiedShuffles(0).split(None, data.Y))


def test_scikit_learns_search_takes_the_folds_and_sparse_labels(data: Any) -> None:
    search = theirs.GridSearchCV(
        lt.DiSMEC(n_jobs=1), {"cost": [1e-4, 1.0]}, scoring=lt.scorers["p@1"], cv=ours.StratifiedFolds(2)
    )
    assert search.fit(data.X, data.Y).best_params_ == {"cost": 1.0}
    np.testing.assert_array_equal(search.predict(data.X).toarray(), search.best_estimator_.predict(data.X).toarray())


def test_a_tagger_is_validated_with_lists_of_names() -> None:
    texts = ["red apple", "green pear", "red cherry", "green grape", "blue sky", "blue sea"] * 6
    labels = [["red"], ["green"], ["red"], ["green"], ["blue"], ["blue"]] * 6
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1))
    assert (ours.cross_val_score(tagger, texts, labels, cv=3, scoring=lt.scorers["p@1"]) == 100).all()


def test_classes_and_pipelines_go_through(data: Any) -> None:
    from sklearn.pipeline import make_pipeline

    classes = np.array(["a", "b"])[data.Y[:, [0]].toarray().ravel().astype(int)]
    assert ours.cross_val_score(lt.DiSMEC(n_jobs=1), data.X, classes, cv=3).shape == (3,)
    piped = make_pipeline(MaxAbsScaler(), lt.DiSMEC(n_jobs=1))
    assert (ours.cross_val_score(piped, data.X, data.Y, cv=2, scoring=lt.scorers["p@1"]) > 40).all()


def test_bad_arguments_are_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="cross_validate: cv must be"):
        ours.cross_validate(lt.Popularity(), data.X, data.Y, cv=1)
    with pytest.raises(ValueError, match="use cross_validate"):
        ours.cross_val_score(lt.Popularity(), data.X, data.Y, scoring={"a": lt.scorers["p@1"]})
    with pytest.raises(ValueError, match="StratifiedKFold for 1-D classes"):
        list(ours.StratifiedFolds(2).split(None, np.array([0, 1, 0])))
    assert sp.issparse(data.Y)
