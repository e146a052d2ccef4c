"""The search for parameters: reproducible, resumable, and better than chance where there is something to find."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail._base import XMCClassifier
from longtail._fitted import Fitted, State
from longtail._matrices import Matrix
from longtail._rules import Choice, Real
from longtail._topk import TopK
from longtail.execution import Run
from longtail.tuning import Between, OneOf, Range
from longtail.tuning.search import propose


@dataclass(kw_only=True, eq=False, repr=False)
class Dial(XMCClassifier):
    """Ranks rows well only when its dial is near 0.7 and its mode is "on"; refuses to be turned above 0.95."""

    dial: Annotated[float, Real(0, 1), Between(0.0, 1.0)] = 0.1
    mode: Annotated[str, Choice("on", "off", "broken"), OneOf("on", "off", "broken")] = "off"
    n_fits: ClassVar[int] = 0

    def _fit(self, X: Matrix, Y: sp.csr_array, run: Run, **_options: Any) -> State:
        Dial.n_fits += 1
        if self.dial > 0.95:
            raise ValueError("Dial: turned too far")
        return State()

    def _top_k(self, fitted: Fitted[State], X: Matrix, top_k: int) -> TopK:
        """The label of a row is its largest feature; a bad dial finds it in fewer rows."""
        rows = sp.csr_array(X).toarray()
        quality = (1 - abs(self.dial - 0.7)) * {"on": 1.0, "off": 0.6, "broken": 0.2}[self.mode]
        right = np.linspace(0, 1, len(rows)) < quality
        best = np.where(right, rows.argmax(axis=1), rows.argmin(axis=1))
        label_ids = np.full((len(rows), top_k), -1, np.int32)
        label_ids[:, 0] = best
        return TopK(label_ids, (label_ids >= 0).astype(np.float32))


@pytest.fixture
def data() -> tuple[Any, Any]:
    X = np.random.default_rng(0).random((500, 8)).astype(np.float32)
    return X, np.eye(8)[X.argmax(axis=1)]


def test_the_search_finds_the_dial(data: Any) -> None:
    found = lt.tune(Dial(), *data, n_trials=40, measure="P@1")
    assert found.best_params["mode"] == "on"
    assert found.best_params["dial"] == pytest.approx(0.7, abs=0.1)
    assert found.best_score == max(trial.score for trial in found.trials if trial.score is not None)
    assert found.estimator.get_params()["dial"] == found.best_params["dial"]
    assert found.trials[0].params == {"dial": 0.1, "mode": "off"}, "the first trial is the estimator as given"


def test_an_estimator_outside_the_ranges_is_not_tried(data: Any) -> None:
    found = lt.tune(Dial(dial=0.7, mode="on"), *data, ranges={"dial": Between(0.0, 0.3)}, n_trials=3, measure="P@1")
    assert all(0 <= trial.params["dial"] <= 0.3 for trial in found.trials)
    found = lt.tune(Dial(), *data, ranges={"mode": OneOf("on", "broken")}, n_trials=3, measure="P@1")
    assert all(trial.params["mode"] != "off" for trial in found.trials)


def test_learning_from_trials_beats_chance(data: Any) -> None:
    scores = {
        search: [
            lt.tune(Dial(), *data, n_trials=30, measure="P@1", search=search, random_state=seed).best_score
            for seed in range(6)
        ]
        for search in ("random", "tpe")
    }
    assert np.mean(scores["tpe"]) > np.mean(scores["random"])


def test_a_stopped_search_goes_on_where_it_was_and_ends_the_same(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"n_trials": 15, "measure": "P@1", "random_state": 3}
    expected = lt.tune(Dial(), *data, **settings)
    log = tmp_path / "trials.jsonl"
    lt.tune(Dial(), *data, log=log, **settings, progress=lambda done, total: done < 6)
    assert len(log.read_text().splitlines()) == 7
    with log.open("a") as file:
        file.write('{"params": {"dial": 0.3')  # a crash in the middle of a line
    Dial.n_fits = 0
    resumed = lt.tune(Dial(), *data, log=log, **settings)
    assert Dial.n_fits == 9
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in expected.trials]
    assert [trial.score for trial in resumed.trials] == [trial.score for trial in expected.trials]
    again = lt.tune(Dial(), *data, log=log, **settings)
    assert Dial.n_fits == 9, "nothing is left to do"
    assert again.best_params == expected.best_params


def test_a_log_of_another_search_is_refused(data: Any, tmp_path: Path) -> None:
    X, Y = data
    log = tmp_path / "trials.jsonl"
    lt.tune(Dial(), X, Y, n_trials=2, measure="P@1", log=log)
    with pytest.raises(ValueError, match="belongs to another search: its measure is 'P@1', not 'P@5'"):
        lt.tune(Dial(), X, Y, n_trials=2, log=log)
    with pytest.raises(ValueError, match="belongs to another search: its data is"):
        lt.tune(Dial(), X + 1, Y, n_trials=2, measure="P@1", log=log)
    log.write_text("hello\n")
    with pytest.raises(ValueError, match="is not a log of longtail tune"):
        lt.tune(Dial(), X, Y, n_trials=2, log=log)


def test_failed_trials_are_noted_and_passed_over(data: Any, tmp_path: Path) -> None:
    log = tmp_path / "trials.jsonl"
    found = lt.tune(Dial(), *data, n_trials=25, search="random", measure="P@1", log=log, random_state=1)
    failed = [trial for trial in found.trials if trial.score is None]
    assert failed
    assert all(trial.error == "Dial: turned too far" and trial.params["dial"] > 0.95 for trial in failed)
    assert any(json.loads(line).get("error") for line in log.read_text().splitlines())
    with pytest.raises(ValueError, match="no trial of Dial came to an end: Dial: turned too far"):
        lt.tune(Dial(dial=1.0), *data, ranges={"dial": Between(0.96, 1.0)}, n_trials=3)


def test_time_may_end_a_search(data: Any) -> None:
    with pytest.raises(ValueError, match="the time was over before the first"):
        lt.tune(Dial(), *data, timeout_seconds=0.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ranges": {"speed": Between(0, 1)}}, "tune: Dial has no parameter 'speed'"),
        ({"ranges": {"dial": Between(0.0, 2.0)}}, r"tune: Dial: dial must be a number in \[0, 1\]"),
        ({"ranges": {}}, "Dial declares no ranges"),
        ({"n_trials": 0}, "tune: n_trials must be an int >= 1"),
        ({"search": "grid"}, "search must be one of 'random', 'tpe'"),
        ({"measure": "AUC@1"}, "no metric 'AUC@1'"),
    ],
)
def test_wrong_calls_say_what_to_do(data: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, KeyError), match=message):
        lt.tune(Dial(), *data, **settings)


def test_ranges_cover_their_ends_and_know_their_values() -> None:
    shares = np.linspace(0, 1, 1001)[:-1].tolist()
    whole = Between(1, 4)
    assert np.bincount([int(whole.at(share)) for share in shares]).tolist() == [0, 250, 250, 250, 250]
    log = Between(0.01, 100.0, log=True)
    assert [log.at(share) for share in (0.0, 0.5)] == [0.01, 1.0]
    assert log.share_of(1.0) == pytest.approx(0.5)
    choice = OneOf("a", None, 3)
    assert {choice.at(share) for share in shares} == {"a", None, 3}
    assert all(choice.at(choice.share_of(value)) == value for value in choice.values)
    for found in (whole, log, Between(1, 1000, log=True)):
        assert all(found.at(found.share_of(found.at(share))) == found.at(share) for share in shares)
    with pytest.raises(ValueError, match="must go up from above 0"):
        Between(0, 1, log=True)


def test_the_same_seed_proposes_the_same() -> None:
    ranges: dict[str, Range] = {"a": Between(0.0, 1.0), "b": OneOf(1, 2)}
    tried = [({"a": i / 20, "b": 1 + i % 2}, -abs(i - 12)) for i in range(20)]
    first, second = (propose("tpe", ranges, tried, np.random.default_rng(5)) for _ in range(2))
    assert first == second
