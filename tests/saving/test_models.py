"""save, load, describe: what was saved comes back, and answers the same."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import longtail as lt
from longtail.saving import make_estimator, upgrades, version_of
from longtail.saving.registry import DEFAULT, HOMES, find_class
from tests.fitted_state import with_values
from tests.saving.toy_tree import ToyTree, register

X = sp.random_array((30, 8), density=0.4, rng=np.random.default_rng(0), format="csr").astype(np.float32)
Y = sp.csr_array((np.arange(30)[:, None] % np.array([[2, 3, 5]]) == 0).astype(np.float32))
TEXTS = ["small web server", "web browser", "mail server", "mail reader"]
LABELS = [["net", "serv\ner"], ["net"], ["net", "serv\ner"], ["\u2028«é» \U0001f3f7"]]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> ToyTree:
    register(monkeypatch)
    return ToyTree(n_jobs=1)


@pytest.fixture
def tagger() -> lt.Tagger:
    return lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1, max_ngram=2)).fit(TEXTS, LABELS)


def test_an_estimator_with_everything_comes_back(toy: ToyTree, tmp_path: Path) -> None:
    toy.set_params(rate=np.float64(0.75), depth=np.int64(3), mode="exact", is_deep=True, helper=lt.Popularity(n_jobs=2))
    lt.save(toy.fit(X, Y), tmp_path / "m")
    found = lt.load(tmp_path / "m", verify=True)
    assert isinstance(found, ToyTree)
    assert found.get_params(deep=False).keys() == toy.get_params(deep=False).keys()
    assert (found.depth, found.rate, found.mode, found.is_deep) == (3, 0.75, "exact", True)
    assert isinstance(found.helper, lt.Popularity)
    assert found.helper.n_jobs is None, "threads are not a part of a model"
    assert not hasattr(found.helper, "ranking_"), "a parameter is not fitted"
    assert (found.n_features_in_, found.n_labels_, found.n_rows_, found.gain_) == (8, 3, 30, 0.25)
    for name in ("children_", "weights_", "label_counts_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(toy, name), strict=True)
    np.testing.assert_array_equal(found.predict_top_k(X).label_ids, toy.predict_top_k(X).label_ids)
    assert type(found.predict(X)) is type(toy.predict(X))


def test_a_scalar_and_an_inner_model_may_be_none(toy: ToyTree, tmp_path: Path) -> None:
    toy.fit(X, Y)
    with_values(toy, inner_=None, gain_=None)
    lt.save(toy, tmp_path / "m")
    found = lt.load(tmp_path / "m")
    assert isinstance(found, ToyTree)
    assert found.inner_ is None
    assert found.gain_ is None
    assert _names(tmp_path / "m") == ["children_.npy", "label_counts_.npy", "manifest.json", "weights_.npy"]


def test_models_nest(toy: ToyTree, tmp_path: Path) -> None:
    toy.set_params(helper=ToyTree(depth=1, n_jobs=1))
    lt.save(toy.fit(X, Y), tmp_path / "m")
    found = lt.load(tmp_path / "m", verify=True)
    np.testing.assert_array_equal(found.inner_.inner_.ranking_, toy.inner_.inner_.ranking_)  # type: ignore[union-attr]
    assert (tmp_path / "m" / "inner_" / "inner_" / "ranking_.npy").is_file()


def test_a_tagger_comes_back(tagger: lt.Tagger, tmp_path: Path) -> None:
    lt.save(tagger, tmp_path / "m")
    found = lt.load(tmp_path / "m", verify=True)
    assert isinstance(found, lt.Tagger)
    assert found.tag(TEXTS) == tagger.tag(TEXTS)
    assert found.label_names_ == tagger.label_names_
    assert found.vectorizer.vocabulary_ == tagger.vectorizer.vocabulary_
    assert (found.vectorizer.transform(TEXTS) != tagger.vectorizer.transform(TEXTS)).nnz == 0


@pytest.mark.parametrize(
    "classes",
    [
        np.array([3, -5, 2**60]),
        np.array([3, 250], np.uint8),
        np.array([1, 2], ">i4"),
        np.array([False, True]),
        np.array([1.0, 2.0], np.float32),
        np.array([1, 2], np.float16),
        np.array(["ant", "bé\n", "cat"]),
        np.array(["ant", "bee", "cat"], object),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_come_back_as_they_were(classes: Any, tmp_path: Path) -> None:
    model = lt.Popularity().fit(X, classes[np.arange(30) % len(classes)])
    lt.save(model, tmp_path / "m")
    found = lt.load(tmp_path / "m")
    np.testing.assert_array_equal(found.classes_, model.classes_)  # type: ignore[union-attr]
    assert found.classes_.dtype == model.classes_.dtype.newbyteorder("=")  # type: ignore[union-attr]
    assert found.predict(X).dtype == found.classes_.dtype  # type: ignore[union-attr]


def test_classes_that_are_neither_numbers_nor_text_are_refused(tmp_path: Path) -> None:
    model = lt.Popularity().fit(X, np.array(["a", "b"], object)[np.arange(30) % 2])
    with_values(model, classes_=np.array([("a",), ("b", 1)], object))
    with pytest.raises(TypeError, match="Popularity: classes must be numbers or str to be saved, got dtype object"):
        lt.save(model, tmp_path / "m")
    assert _names(tmp_path) == []


@pytest.mark.parametrize("dtype", [np.int8, np.float64, bool])
def test_predictions_keep_the_dtype_of_y(dtype: Any, tmp_path: Path) -> None:
    lt.save(lt.Popularity().fit(X, Y.toarray().astype(dtype)), tmp_path / "m")
    assert lt.load(tmp_path / "m").predict(X).dtype == dtype  # type: ignore[union-attr]


def test_feature_names_come_back(tmp_path: Path) -> None:
    model = lt.Popularity().fit(X, Y)
    names = np.array([f"feature {i % 4}" for i in range(8)], object)
    fitted = model._whole()
    model._fitted = replace(fitted, facts=replace(fitted.facts, feature_names_in=names))
    lt.save(model, tmp_path / "m")
    np.testing.assert_array_equal(lt.load(tmp_path / "m").feature_names_in_, names)  # type: ignore[union-attr]


def test_a_loaded_model_can_be_cloned_copied_pickled_and_saved_again(toy: ToyTree, tmp_path: Path) -> None:
    lt.save(toy.fit(X, Y), tmp_path / "a")
    found = lt.load(tmp_path / "a")
    clone(found).fit(X, Y)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(other.weights_, toy.weights_)
    lt.save(found, tmp_path / "b")
    lt.save(found, tmp_path / "a", overwrite=True)
    contents = [
        {path.relative_to(tmp_path / n): path.read_bytes() for path in (tmp_path / n).rglob("*.*")} for n in "ab"
    ]
    assert contents[0] == contents[1]


def test_a_model_that_answers_differently_has_another_version(tmp_path: Path) -> None:
    data = lt.datasets.make_synthetic(n_rows=100, n_features=20, n_labels=5)
    model = lt.DiSMEC(n_jobs=1).fit(data.X[:60], data.Y[:60])
    tagger = lt.Tagger(model, None)
    lt.save(tagger.fit(data.X[:60], [["a"], ["b"]] * 30), tmp_path / "m")
    before = version_of(tmp_path / "m")
    lt.save(tagger.calibrate(data.X[60:], [["a"], ["b"]] * 20), tmp_path / "calibrated")
    lt.save(lt.load(tmp_path / "m"), tmp_path / "same")
    assert version_of(tmp_path / "same") == before
    assert version_of(tmp_path / "calibrated") != before


def test_save_refuses_to_overwrite_unless_asked(tmp_path: Path) -> None:
    lt.save(lt.Popularity().fit(X, Y), tmp_path / "m")
    with pytest.raises(FileExistsError, match="m exists; pass overwrite=True to replace it"):
        lt.save(lt.Popularity().fit(X[:9], Y[:9]), tmp_path / "m")
    assert lt.load(tmp_path / "m").n_rows_ == 30  # type: ignore[union-attr]
    lt.save(lt.Popularity().fit(X[:9], Y[:9]), tmp_path / "m", overwrite=True)
    assert lt.load(tmp_path / "m").n_rows_ == 9  # type: ignore[union-attr]
    assert _names(tmp_path) == ["m"]


def test_save_refuses_what_it_could_not_load(toy: ToyTree, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        lt.save(lt.Popularity(), tmp_path / "m")
    with pytest.raises(ValueError, match="Tagger: not fitted yet"):
        lt.save(lt.Tagger(), tmp_path / "m")
    for other in (make_pipeline(lt.Popularity()), lt.TextVectorizer(), "model", None):
        with pytest.raises(TypeError, match="save: model must be a longtail estimator or a Tagger, got "):
            lt.save(other, tmp_path / "m")  # type: ignore[arg-type]

    class Mine(lt.Popularity):
        pass

    with pytest.raises(TypeError, match=r"only longtail's own classes can be saved .* got .*Mine"):
        lt.save(Mine().fit(X, Y), tmp_path / "m")
    Mine.__name__ = "Popularity"
    with pytest.raises(TypeError, match="only longtail's own classes can be saved"):
        lt.save(Mine().fit(X, Y), tmp_path / "m")
    with_values(toy.fit(X, Y), weights_=np.array([np.nan] * 7, np.float32))
    with pytest.raises(ValueError, match="must hold finite numbers, got nan at 0"):
        lt.save(toy, tmp_path / "m")
    toy.fit(X, Y).helper = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match="ToyTree: parameter helper cannot be saved: it holds a object"):
        lt.save(toy, tmp_path / "m")
    tagger = lt.Tagger(vectorizer=lt.TextVectorizer(min_df=1)).fit(TEXTS, LABELS)
    tagger.label_names_[0] = "\ud800"
    with pytest.raises(ValueError, match="label_names_ must be valid Unicode"):
        lt.save(tagger, tmp_path / "m")
    assert _names(tmp_path) == []


def test_describe_tells_what_a_model_is(tagger: lt.Tagger, tmp_path: Path) -> None:
    lt.save(tagger, tmp_path / "m")
    found = lt.describe(tmp_path / "m")
    assert json.loads(json.dumps(found)) == found
    assert (found["class"], found["format"], found["longtail"]) == ("Tagger", upgrades.FORMAT, lt.__version__)
    assert found["names"] == {"label_names_": 3, "blocked": 0, "example_texts_": 4}
    assert found["size_bytes"] == sum(path.stat().st_size for path in (tmp_path / "m").rglob("*.*"))
    inner = found["models"]["estimator"]
    assert inner["class"] == "Popularity"
    assert inner["parameters"] == {"random_state": 0, "unit_rows": False}
    assert inner["fitted"]["n_labels_"] == 3
    assert inner["arrays"]["ranking_"]["dtype"] == "int32"
    assert inner["arrays"]["ranking_"]["shape"] == [3]
    n_features = len(tagger.vectorizer.vocabulary_)
    assert found["models"]["vectorizer"]["arrays"]["feature_ends_"]["shape"] == [n_features]


def test_describe_reads_no_array(toy: ToyTree, tmp_path: Path) -> None:
    lt.save(toy.fit(X, Y), tmp_path / "m")
    for file in (tmp_path / "m").rglob("*.npy"):
        file.write_bytes(b"")
    assert lt.describe(tmp_path / "m")["class"] == "ToyTree"


def test_an_older_format_is_upgraded_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lt.save(lt.Popularity().fit(X, Y), tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    manifest["settings"] = manifest.pop("parameters")
    (tmp_path / "m" / "manifest.json").write_text(json.dumps(manifest))
    now = upgrades.FORMAT
    steps = {
        now: lambda meta: {("parameters" if key == "settings" else key): value for key, value in meta.items()},
        now + 1: lambda meta: meta | {"parameters": meta["parameters"] | {"random_state": 7}},
    }
    monkeypatch.setattr(upgrades, "FORMAT", now + 2)
    monkeypatch.setattr(upgrades, "UPGRADES", steps)
    assert lt.load(tmp_path / "m").random_state == 7  # type: ignore[union-attr]
    assert lt.describe(tmp_path / "m")["format"] == now


def test_every_class_of_the_table_exists_and_the_default_is_one() -> None:
    for name in HOMES:
        assert find_class("test", name)[0].__name__ == name
    assert HOMES[DEFAULT].kind == "estimator"


def test_make_estimator_helps_with_names() -> None:
    assert type(make_estimator()).__name__ == DEFAULT
    assert make_estimator("Popularity", {"random_state": 3}).random_state == 3
    assert type(make_estimator("popularity")).__name__ == "Popularity"
    with pytest.raises(
        ValueError, match=r"estimator must be one of .*; got 'Populrity' \(did you mean 'Popularity'\?\)"
    ):
        make_estimator("Populrity")
    with pytest.raises(ValueError, match=r"estimator must be one of .*; got .Tagger."):
        make_estimator("Tagger")
    with pytest.raises(
        ValueError, match=r"Popularity has no parameter 'njobs' \(did you mean 'n_jobs'\?\); it has n_jobs"
    ):
        make_estimator("Popularity", {"njobs": 3})
    with pytest.raises(ValueError, match="Popularity: n_jobs must be "):
        make_estimator("Popularity", {"n_jobs": 0})


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
