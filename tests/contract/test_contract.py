"""The contract of design.md §3, run on every estimator."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import longtail as lt
from longtail._base import XMCClassifier
from tests.contract.estimators import ESTIMATORS as LEARNING

# The contract does not say how well an estimator learns, and these two took a third of the time of this file.
ESTIMATORS = LEARNING | {
    "LEML": lambda: LEARNING["LEML"]().set_params(n_iterations=3),
    "SLEEC": lambda: LEARNING["SLEEC"]().set_params(n_iterations=5),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request: pytest.FixtureRequest) -> XMCClassifier:
    return ESTIMATORS[request.param]()


@pytest.fixture
def toy() -> tuple[sp.csr_array, sp.csr_array]:
    """Sixty rows, six labels: label j goes with feature j; label 5 has no positive; two rows have no label."""
    rng = np.random.default_rng(0)
    Y = np.zeros((60, 6), dtype=np.float32)
    X = rng.random((60, 9)).astype(np.float32) * 0.05
    for row in range(58):
        for label_id in {row % 5, row % 3}:
            Y[row, label_id] = 1
            X[row, label_id] += 1
    X[10] = 0  # a row without features
    X[X < 0.01] = 0
    return sp.csr_array(X), sp.csr_array(Y)


def sklearn_checks() -> Iterator[Any]:
    for name, make in ESTIMATORS.items():
        with warnings.catch_warnings():
            # Estimators keep scikit-learn's protocol without its base class, whose import would cost every load of a
            # model a second; scikit-learn remarks on that before it checks.
            warnings.filterwarnings("ignore", message=".*does not inherit from `sklearn.base.BaseEstimator`")
            checks = list(estimator_checks_generator(make(), mark=None))
        for checked, check in checks:
            title = getattr(check, "func", check).__name__
            if not title.startswith("check_sample_weight_equivalence"):  # to 7 digits; test_sample_weight.py has ours
                yield pytest.param(checked, check, id=f"{name}-{title}")


@pytest.mark.parametrize(("checked", "check"), list(sklearn_checks()))
def test_scikit_learn_finds_no_fault(checked: XMCClassifier, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # scikit-learn's own checks look at warnings themselves
        check(checked)


def test_top_k_is_sorted_padded_and_of_fixed_types(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    label_ids, scores = estimator.fit(X, Y).predict_top_k(X, top_k=8, utility="score")
    assert label_ids.shape == scores.shape == (60, 8)
    assert label_ids.dtype == np.int32
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    for row_ids, row_scores in zip(label_ids, scores, strict=True):
        found = row_ids >= 0
        assert found[: found.sum()].all(), "padding comes last"
        assert (row_scores[~found] == 0).all()
        assert len(set(row_ids[found])) == found.sum()
        pairs = list(zip(-row_scores[found], row_ids[found], strict=True))
        assert pairs == sorted(pairs), "best first, ties by lower label id"


def test_a_label_without_positives_is_never_predicted(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    assert not (estimator.fit(X, Y).predict_top_k(X, top_k=6).label_ids == 5).any()


def test_smaller_top_k_is_a_prefix_of_larger(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    estimator.fit(X, Y)
    three, five = estimator.predict_top_k(X, top_k=3), estimator.predict_top_k(X, top_k=5)
    np.testing.assert_array_equal(three.label_ids, five.label_ids[:, :3])
    np.testing.assert_array_equal(three.scores, five.scores[:, :3])


def test_one_row_at_a_time_gives_what_a_batch_gives(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    batch = estimator.fit(X, Y).predict_top_k(X, top_k=3)
    for row in range(0, 60, 7):
        one = estimator.predict_top_k(X[[row]], top_k=3)
        np.testing.assert_array_equal(one.label_ids[0], batch.label_ids[row])
        np.testing.assert_array_equal(one.scores[0], batch.scores[row])


def test_more_labels_than_there_are_is_padding(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    label_ids, scores = estimator.fit(X, Y).predict_top_k(X[:2], top_k=100_000)
    assert label_ids.shape == scores.shape == (2, 100_000)
    assert (label_ids[:, 6:] == -1).all()


def test_padding_that_would_fill_the_memory_is_refused(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    many = X[np.zeros(101, dtype=np.int64)]
    with pytest.raises(ValueError, match="top_k must be at most 6, the number of labels, for so many rows; got"):
        estimator.fit(X, Y).predict_top_k(many, top_k=1_000_000)


def test_huge_values_are_fitted_and_ranked_or_refused_but_never_crash(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    for scale in (1e3, 1e13):
        huge = X * np.float32(scale)
        try:
            scores = clone(estimator).fit(huge, Y).predict_top_k(huge).scores
        except ValueError as error:
            if "overflow" not in str(error) or "scale X down" not in str(error):
                raise
            continue
        assert np.isfinite(scores).all()


def test_no_rows_give_an_empty_answer(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    assert estimator.fit(X, Y).predict_top_k(X[:0], top_k=3).label_ids.shape == (0, 3)


def test_predict_answers_in_the_form_that_fit_got(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    assert sp.issparse(estimator.fit(X, Y).predict(X))
    dense = estimator.fit(X, Y.toarray().astype(np.int8)).predict(X)
    assert dense.shape == (60, 6)
    assert dense.dtype == np.int8
    names = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]
    assert set(estimator.fit(X, names).predict(X)) <= {"ant", "bee", "cat"}


def with_stored_zeros(Y: sp.csr_array) -> sp.csr_array:
    coo = sp.coo_array(Y)
    rows, columns = np.append(coo.row, [0, 59]), np.append(coo.col, [5, 5])
    return sp.csr_array((np.append(coo.data, [0.0, 0.0]), (rows, columns)), shape=Y.shape)


def test_containers_do_not_matter(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    expected = estimator.fit(X, Y).predict_top_k(X, top_k=3)
    for other_X, other_Y in [
        (sp.csc_array(X), sp.csc_array(Y)),
        (X.astype(np.float64), Y.astype(bool)),
        (sp.csr_matrix(X), sp.csr_matrix(Y)),
        (X, with_stored_zeros(Y)),
        (X, Y.toarray().astype(int)),
    ]:
        found = clone(estimator).fit(other_X, other_Y).predict_top_k(other_X, top_k=3)
        np.testing.assert_array_equal(found.label_ids, expected.label_ids)
        np.testing.assert_array_equal(found.scores, expected.scores)


def test_unsorted_and_repeated_entries_are_summed_and_the_input_is_left_alone(
    estimator: XMCClassifier, toy: Any
) -> None:
    X, Y = toy
    doubled = sp.csr_array(X.shape, dtype=np.float32)
    rows = [slice(*X.indptr[row : row + 2]) for row in range(60)]
    doubled.indices = np.concatenate([np.tile(X.indices[row][::-1], 2) for row in rows])
    doubled.data = np.concatenate([np.tile(X.data[row][::-1] / 2, 2) for row in rows])
    doubled.indptr = X.indptr * 2
    before = doubled.indices.copy()
    found = clone(estimator).fit(doubled, Y).predict_top_k(X, top_k=3)
    expected = estimator.fit(X, Y).predict_top_k(X, top_k=3)
    np.testing.assert_array_equal(found.label_ids, expected.label_ids)
    np.testing.assert_array_equal(doubled.indices, before)


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_matrices_with_wild_indices_are_refused_before_native_code_sees_them(
    estimator: XMCClassifier, toy: Any, part: str
) -> None:
    X, Y = toy
    estimator.fit(X, Y)
    for wild in (-1, 10**6):
        for index_type in (np.int32, np.int64):
            broken = X.copy()
            broken.indices, broken.indptr = broken.indices.astype(np.int32), broken.indptr.astype(index_type)
            broken.has_canonical_format = True
            getattr(broken, part)[5] = wild
            with pytest.raises(ValueError):
                estimator.predict_top_k(broken)
            with pytest.raises(ValueError):
                clone(estimator).fit(broken, Y)


def fitted_bytes(model: XMCClassifier) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(getattr(model, name)).tobytes() for name in model._fitted_arrays()}


def test_same_seed_same_bytes_for_any_number_of_threads(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    expected = fitted_bytes(clone(estimator).set_params(n_jobs=1).fit(X, Y))
    assert fitted_bytes(clone(estimator).set_params(n_jobs=4).fit(X, Y)) == expected
    assert fitted_bytes(clone(estimator).set_params(n_jobs=1).fit(X, Y, executor="inline")) == expected
    one, four = (clone(estimator).set_params(n_jobs=n_jobs).fit(X, Y).predict_top_k(X, top_k=4) for n_jobs in (1, 4))
    np.testing.assert_array_equal(one.label_ids, four.label_ids)
    np.testing.assert_array_equal(one.scores, four.scores)


def test_a_checkpointed_fit_gives_the_same_bytes_and_a_rerun_takes_them_from_disk(
    estimator: XMCClassifier, toy: Any, tmp_path: Path
) -> None:
    X, Y = toy
    expected = fitted_bytes(clone(estimator).fit(X, Y))
    for _ in range(2):
        assert fitted_bytes(clone(estimator).fit(X, Y, checkpoint=tmp_path / "run")) == expected
    with pytest.raises(ValueError, match="belongs to a run with other data"):
        clone(estimator).fit(X, Y[::-1], checkpoint=tmp_path / "run")


def test_a_saved_model_has_the_same_bytes_for_any_number_of_threads(
    estimator: XMCClassifier, toy: Any, tmp_path: Path
) -> None:
    for n_jobs in (1, 3):
        lt.save(clone(estimator).set_params(n_jobs=n_jobs).fit(*toy), tmp_path / str(n_jobs))
    one, three = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "1", tmp_path / "3")
    )
    assert one == three


def test_stored_zeros_change_nothing(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    rows = sp.csr_array(X)
    full = np.indices(rows.shape).reshape(2, -1)
    stored = sp.csr_array((rows.toarray().ravel(), (full[0], full[1])), shape=rows.shape)
    assert stored.nnz == rows.shape[0] * rows.shape[1] > rows.nnz, "zeros are stored"
    assert fitted_bytes(clone(estimator).fit(stored, Y)) == fitted_bytes(clone(estimator).fit(rows, Y))


def plain_params(model: XMCClassifier) -> dict[str, Any]:
    """Return all parameters, those of inner estimators too, with classes in place of the inner estimators."""
    return {name: type(value) if hasattr(value, "get_params") else value for name, value in model.get_params().items()}


def is_threads(parameter: str) -> bool:
    return parameter.rpartition("__")[2] == "n_jobs"


def test_a_saved_model_answers_the_same(estimator: XMCClassifier, toy: Any, tmp_path: Path) -> None:
    X, Y = toy
    expected = estimator.fit(X, Y).predict_top_k(X, top_k=4)
    lt.save(estimator, tmp_path / "model")
    loaded = lt.load(tmp_path / "model", verify=True)
    assert type(loaded) is type(estimator)
    expected_params = plain_params(estimator) | {name: None for name in plain_params(estimator) if is_threads(name)}
    assert plain_params(loaded) == expected_params, "threads are not a part of a model"
    assert "bias=1.0" not in repr(loaded), "defaults are left out"
    found = loaded.predict_top_k(X, top_k=4)
    np.testing.assert_array_equal(found.label_ids, expected.label_ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert fitted_bytes(loaded) == fitted_bytes(estimator)
    np.testing.assert_array_equal(loaded.predict(X).toarray(), estimator.predict(X).toarray())


def test_saved_classes_come_back(estimator: XMCClassifier, toy: Any, tmp_path: Path) -> None:
    X, _ = toy
    names = np.array(["ant", "bee", "cät"])[np.arange(60) % 3]
    lt.save(estimator.fit(X, names), tmp_path / "model")
    np.testing.assert_array_equal(lt.load(tmp_path / "model").predict(X), estimator.predict(X))


def test_progress_is_told_and_may_stop_the_run(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    seen: list[tuple[int, int]] = []
    clone(estimator).fit(X, Y, progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert seen[-1][0] == seen[-1][1] > 0
    assert all(a[0] <= b[0] for a, b in pairwise(seen)), "progress never goes back"
    with pytest.raises(lt.Stopped, match="stopped by the progress callable"):
        clone(estimator).fit(X, Y, progress=lambda done, total: False)


def test_works_in_a_pipeline_and_a_grid_search(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    pipeline = make_pipeline(MaxAbsScaler(), estimator)
    step = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{step}__random_state": [0, 1]}, cv=2).fit(X, Y)
    assert search.predict(X).shape == (60, 6)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_has_a_rule_and_a_wrong_type_is_named(name: str) -> None:
    make = ESTIMATORS[name]
    for parameter in make().get_params(deep=False):
        model = make().set_params(**{parameter: object()})
        with pytest.raises((TypeError, ValueError), match=f"{name}: {parameter} must be "):
            model.fit(np.eye(4), np.array([0, 1, 0, 1]))


def test_clear_errors_for_wrong_calls(estimator: XMCClassifier, toy: Any) -> None:
    X, Y = toy
    name = type(estimator).__name__
    with pytest.raises(NotFittedError):
        estimator.predict_top_k(X)
    with pytest.raises(ValueError, match=f"{name}: X and y must have the same number of rows"):
        estimator.fit(X, Y[:50])
    with pytest.raises(ValueError, match=f"{name}: y must hold only 0 and 1, got 2"):
        estimator.fit(X, Y * 2)
    with pytest.raises(ValueError, match=f"{name}: y must have a label in at least one row, got none in 60 rows"):
        estimator.fit(X, Y * 0)
    with pytest.raises(
        ValueError, match=f"{name}: y must be .*, got lists of different lengths; .*MultiLabelBinarizer"
    ):
        estimator.fit(X[:3], [[1, 2], [0], [1]])
    with pytest.raises(ValueError, match=f"{name}: Input X contains NaN; fill or drop"):
        estimator.fit(np.full((3, 2), np.nan), np.array([0, 1, 0]))
    with pytest.raises(ValueError, match=f"{name}: X must hold values within ±1e\\+14, got -1e\\+30; scale"):
        estimator.fit(np.full((3, 2), -1e30), np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="infinity or a value too large"):
        estimator.fit(np.full((3, 2), 1e300), np.array([0, 1, 0]))
    estimator.fit(X, Y)
    with pytest.raises(ValueError, match=f"X has 4 features, but {name} is expecting 9"):
        estimator.predict_top_k(X[:, :4])
    for wrong in (0, -1, 2.5, "3", None, True, 10**9, 2**70):
        with pytest.raises((ValueError, TypeError), match=rf"{name}: top_k must be an int in \[1, 1000000\]"):
            estimator.predict_top_k(X, top_k=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="executor must be"):
        estimator.fit(X, Y, executor="spark")
    with pytest.raises(TypeError, match="progress must be"):
        estimator.fit(X, Y, progress="fast")  # type: ignore[arg-type]


def test_ctrl_c_reaches_a_fit(estimator: XMCClassifier, toy: Any) -> None:
    """SIGINT while a fit waits for its tasks raises KeyboardInterrupt soon, and the estimator can be fitted again."""
    X, Y = toy
    main_thread = threading.get_ident()

    def interrupt_then_wait(done: int, total: int) -> None:
        signal.pthread_kill(main_thread, signal.SIGINT)
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        clone(estimator).fit(X, Y, progress=interrupt_then_wait)
    clone(estimator).fit(X, Y)
