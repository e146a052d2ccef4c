"""A prediction that runs while another thread changes the model answers with the old model or with the new one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from tests.contract.estimators import ESTIMATORS

TEXTS = ["red apple", "green pear", "red cherry", "green grape", "sour lemon", "sour lime"] * 4
COLOURS = [["red"], ["green"], ["red"], ["green"], ["sour"], ["sour"]] * 4
KINDS = [["apple"], ["pear"], ["cherry"], ["grape"], ["lemon", "citrus"], ["lime", "citrus"]] * 4
ASKED = TEXTS[:6]

Answer = Callable[[], object]


def _run(answer: Answer, changes: list[Callable[[], object]], n_rounds: int = 6) -> None:
    """Apply the changes in a circle while a thread asks; every answer must be one that a model at rest gave.

    The last change must lead back to the first model.
    """
    known = [answer()]
    for change in changes:
        change()
        known.append(answer())
    assert known[0] == known[-1]
    assert all(one != other for one, other in pairwise(known)), "a change that shows nothing"
    found: list[object] = []
    failures: list[BaseException] = []
    ready, done = threading.Event(), threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                found.append(answer())
                ready.set()
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        ready.wait(60)
        for _ in range(n_rounds):
            for change in changes:
                change()
    finally:
        done.set()
        thread.join()
    assert not failures
    assert all(item in known for item in found)


@pytest.fixture
def data() -> tuple[sp.csr_array, sp.csr_array]:
    random = np.random.default_rng(0)
    Y = np.zeros((60, 6), dtype=np.float32)
    Y[np.arange(60), np.arange(60) % 6] = 1
    X = np.hstack([Y, random.random((60, 6))]) * (random.random((60, 12)) < 0.9)
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y)


@pytest.mark.parametrize("name", ["DiSMEC", "LabelTree"])
def test_labels_of_an_estimator_come_and_go(name: str, data: tuple[sp.csr_array, sp.csr_array]) -> None:
    X, Y = data
    few = sp.csr_array(Y[:, :4])
    model: Any = ESTIMATORS[name]().fit(X, few)

    def answer() -> bytes:
        top = model.predict_top_k(X, top_k=6)
        return bytes(top.label_ids.tobytes() + top.scores.tobytes())

    changes = [lambda: model.add_labels(X, Y[:, 4:]), lambda: model.fit(X, few)]
    if name == "DiSMEC":
        changes.insert(1, lambda: model.remove_labels([1, 4]))
    _run(answer, changes)


def _tagger() -> lt.Tagger:
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(TEXTS, COLOURS)


def _fit_new(tagger: lt.Tagger) -> list[Callable[[], object]]:
    return [lambda: tagger.fit(TEXTS, KINDS), lambda: tagger.fit(TEXTS, COLOURS)]


def _come_and_go(tagger: lt.Tagger) -> list[Callable[[], object]]:
    return [
        lambda: tagger.add_labels(TEXTS, KINDS),
        lambda: tagger.remove_labels(["apple", "pear", "cherry", "grape", "lemon", "lime", "citrus"]),
    ]


def _rename(tagger: lt.Tagger) -> list[Callable[[], object]]:
    return [
        lambda: tagger.rename_labels({"red": "rot", "green": "red"}),
        lambda: tagger.rename_labels({"rot": "red", "red": "green"}),
    ]


def _learn(tagger: lt.Tagger) -> list[Callable[[], object]]:
    return [
        lambda: tagger.learn(["blue plum", "blue berry"], [["blue"], ["blue"]], held_back=0.0),
        lambda: tagger.fit(TEXTS, COLOURS),
    ]


@pytest.mark.parametrize("changes", [_fit_new, _come_and_go, _rename, _learn])
def test_a_tagger_answers_with_one_model(changes: Callable[[lt.Tagger], list[Callable[[], object]]]) -> None:
    tagger = _tagger()
    _run(lambda: tagger.tag([*ASKED, "blue plum"], top_k=20), changes(tagger))
