"""The parts of a model (vectorizer, calibration) are whole or not there, like models."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail.calibration import Calibration
from longtail.calibration import model as calibration_model
from longtail.tagging import TextVectorizer

SHORT = ["one two", "two three", "three one"]
LONG = [f"w{i} w{i + 1} w{i + 2} two" for i in range(300)]


def top_of(n_rows: int, n_labels: int) -> tuple[lt.TopK, np.ndarray[Any, Any]]:
    random = np.random.default_rng(n_labels)
    Y = (random.random((n_rows, n_labels)) < 0.3).astype(np.int64)
    Y[0] = 1
    label_ids = np.tile(np.arange(n_labels, dtype=np.int32), (n_rows, 1))
    return lt.TopK(label_ids, (Y + random.random(Y.shape)).astype(np.float32)), Y


def test_a_refused_refit_of_a_vectorizer_changes_nothing() -> None:
    vectorizer = TextVectorizer(min_df=1, stop_words=["two"]).fit(SHORT)
    before = vectorizer.transform(SHORT).toarray()
    vectorizer.set_params(stop_words=["one", "three"], min_df=50)
    with pytest.raises(ValueError, match="no feature is left"):
        vectorizer.fit(["one two", "four five"])
    assert vectorizer.stop_words_ == ["two"]
    assert vectorizer.vocabulary_ == ["one", "three"]
    np.testing.assert_array_equal(vectorizer.transform(SHORT).toarray(), before)


@pytest.mark.parametrize("step", ["place_pairs", "micro_f1_thresholds", "balance", "macro_f1_rules"])
def test_a_refit_of_a_calibration_that_fails_changes_nothing(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    top, Y = top_of(60, 4)
    calibration = Calibration(min_positives=5).fit(top, Y, Y.sum(axis=0), 200)
    before = {name: pickle.dumps(getattr(calibration, name)) for name in public_names(calibration)}
    proba = calibration.proba(*top)

    def fail(*_given: Any, **_named: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(calibration_model, step, fail)
    other, other_Y = top_of(80, 7)
    with pytest.raises(MemoryError):
        calibration.fit(other, other_Y, other_Y.sum(axis=0), 300)
    assert {name: pickle.dumps(getattr(calibration, name)) for name in public_names(calibration)} == before
    np.testing.assert_array_equal(calibration.proba(*top), proba)


def public_names(part: Any) -> list[str]:
    declared = type(part)._State.declared()
    return [*declared.arrays, *declared.scalars]


@pytest.mark.parametrize("part", [TextVectorizer(min_df=1), Calibration()], ids=["vectorizer", "calibration"])
def test_fitted_attributes_cannot_be_set(part: Any) -> None:
    name = public_names(part)[0]
    with pytest.raises(AttributeError, match=f"{name} is part of the fitted"):
        setattr(part, name, np.zeros(3))
    with pytest.raises(AttributeError, match="not fitted yet"):
        getattr(part, name)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
def test_copies_answer_alike(copied: Callable[[Any], Any]) -> None:
    vectorizer = TextVectorizer(min_df=1, stop_words=["two"]).fit(SHORT)
    expected = vectorizer.transform([*SHORT, "drei один"]).toarray()
    np.testing.assert_array_equal(copied(vectorizer).transform([*SHORT, "drei один"]).toarray(), expected)
    top, Y = top_of(60, 4)
    calibration = Calibration().fit(top, Y, Y.sum(axis=0), 200)
    expected = calibration.rank_by_power(top, 0.5, 3)[0]
    np.testing.assert_array_equal(copied(calibration).rank_by_power(top, 0.5, 3)[0], expected)


def test_a_thread_that_transforms_sees_one_vocabulary_or_the_other() -> None:
    vectorizer = TextVectorizer(min_df=1)
    text = ["two w7 w8 three"]
    answers = set()
    for texts in (LONG, SHORT):
        answers.add(vectorizer.fit(texts).transform(text).toarray().tobytes())
    with switching_often():
        found = seen_during(
            lambda: [vectorizer.fit(texts) for _ in range(30) for texts in (LONG, SHORT)],
            lambda: vectorizer.transform(text).toarray().tobytes(),
        )
    assert found <= answers


def test_a_thread_that_ranks_sees_one_calibration_or_the_other() -> None:
    calibration = Calibration(min_positives=5)
    held_out = [top_of(40, n_labels) for n_labels in (3, 9)]
    top = lt.TopK(*(part[:, :3].copy() for part in held_out[0][0]))

    def answer() -> bytes:
        return calibration.rank_by_power(top, 0.5, 2)[1].tobytes()

    fits = [lambda t=t, Y=Y: calibration.fit(t, Y, Y.sum(axis=0), 100) for t, Y in held_out]
    answers = set()
    for fit in fits:
        fit()
        answers.add(answer())
    with switching_often():
        found = seen_during(lambda: [fit() for _ in range(15) for fit in fits], answer)
    assert found <= answers


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def seen_during(work: Callable[[], Any], ask: Callable[[], bytes]) -> set[bytes]:
    """Ask again and again while another thread works; return all answers, or raise what a question raised."""
    found: set[bytes] = set()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        while thread.is_alive():
            found.add(ask())
    finally:
        thread.join()
    return found
