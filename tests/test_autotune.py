"""The search under a time budget, on a clock that only training moves."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail.tuning import Between, OneOf, budget
from tests.cli.test_commands import longtail
from tests.test_tuning import Dial


class Clock:
    """Seconds that pass only when a model is trained: a hundredth per row."""

    now = 0.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


class TimedDial(Dial):
    def fit(self, X: Any, y: Any, **options: Any) -> Any:
        Clock.now += 0.01 * X.shape[0]
        if not options["progress"](0, 1):
            raise lt.Stopped("the time was over")
        return super().fit(X, y)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Clock, "now", 0.0)
    monkeypatch.setattr(budget, "time", Clock)
    X = np.random.default_rng(0).random((3000, 8)).astype(np.float32)
    return X, np.eye(8)[X.argmax(axis=1)]


@pytest.fixture
def cpu_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count CPU time, so that a busy machine does not change the answer."""
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=time.process_time))


def test_many_trials_on_few_rows_and_few_on_all(data: Any) -> None:
    found = lt.autotune(TimedDial(), *data, minutes=5, measure="P@1")
    rows = [trial.n_rows for trial in found.trials]
    assert rows[0] == 2400, "the defaults are tried on all rows first"
    n_small, n_middle, n_all = (rows.count(size) for size in (266, 800, 2400))
    assert n_small >= 3 * n_middle >= 9 * (n_all - 1) > 0
    assert Clock.now <= 5 * 60
    assert found.is_better
    assert found.best_score > found.default_score
    assert found.model.get_params()["dial"] == found.best_params["dial"]
    whole = [trial for trial in found.trials if trial.n_rows == 2400 and trial.score is not None]
    best = max(whole, key=lambda trial: trial.score or 0)
    assert found.best_params == best.params
    assert found.best_score == best.confirmed


def test_only_good_trials_go_on(data: Any) -> None:
    found = lt.autotune(TimedDial(), *data, minutes=5, measure="P@1")
    small = {json.dumps(t.params): t.score for t in found.trials if t.n_rows == 266 and t.score is not None}
    middle = [json.dumps(t.params) for t in found.trials if t.n_rows == 800]
    assert np.mean([small[key] for key in middle]) > np.mean(list(small.values()))


def test_defaults_that_cannot_be_beaten_are_returned(data: Any) -> None:
    good = lt.autotune(TimedDial(), *data, minutes=5, measure="P@1").model
    found = lt.autotune(good, *data, minutes=1, measure="P@1", ranges={"dial": Between(0.0, 0.1)})
    assert not found.is_better
    assert found.best_params == {}
    assert found.best_score == found.default_score
    assert repr(found.model) == repr(good)


def test_a_budget_that_is_too_small_says_so(data: Any) -> None:
    with pytest.raises(ValueError, match="the time was over; give more minutes"):
        lt.autotune(TimedDial(), *data, minutes=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minutes": 0}, "autotune: minutes must be"),
        ({"ranges": {"speed": OneOf(1, 2)}}, "Dial has no parameter 'speed'"),
        ({"ranges": {"dial": Between(0.0, 7.0)}}, "dial must be a number"),
        ({"measure": "AUC"}, "no metric 'AUC'"),
    ],
)
def test_wrong_calls_say_what_to_do(data: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lt.autotune(TimedDial(), *data, **settings)


def corpus() -> tuple[list[str], list[list[str]]]:
    """Texts whose topic is in a pair of words; single words say nothing."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for _ in range(500):
        first, second = rng.integers(2, size=2)
        texts.append(f"{'ab'[first]}{'ab'[first]} {'cd'[second]}{'cd'[second]} w{rng.integers(30)}")
        labels.append(["same" if first == second else "other"])
    return texts, labels


@pytest.mark.usefixtures("cpu_clock")
def test_text_and_estimator_parameters_are_searched_together() -> None:
    texts, labels = corpus()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1))
    ranges = {"vectorizer__max_ngram": OneOf(1, 2), "estimator__cost": Between(0.5, 2.0)}
    found = lt.autotune(tagger, texts, labels, minutes=0.03, measure="P@1", ranges=ranges)
    assert found.best_params["vectorizer__max_ngram"] == 2
    assert found.best_score == 100
    assert set(tagger.with_parts()._ranges) >= {"estimator__cost", "vectorizer__max_ngram", "vectorizer__min_df"}
    assert found.model.fit(texts, labels).predict(["aa cc w1"]) == [["same"]]


@pytest.mark.usefixtures("cpu_clock")
def test_the_command_prints_the_training_command(tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    rows = (json.dumps({"text": t, "labels": y}) for t, y in zip(*corpus(), strict=True))
    data.write_text("\n".join(rows) + "\n")
    arguments = ["tune", data, "--minutes", "0.03", "--measure", "P@1", "--n-jobs", "1"]
    arguments += ["-r", "vectorizer__max_ngram=1,2"]
    answer = longtail(*arguments)
    assert "vectorizer__max_ngram = 2" in answer.stdout
    assert "-t max_ngram=2" in answer.stderr
    result = json.loads(longtail(*arguments, "--json").stdout)
    assert result["is_better"]
    assert result["best_score"] > result["default_score"]
    refused = longtail("tune", data, "--minutes", "1", "--n-trials", "3", ok=False)
    assert (refused.code, refused.stderr.count("\n")) == (2, 1)


def test_loading_scikit_learn_is_not_part_of_the_minutes() -> None:
    code = """
import sys
from longtail.tuning import budget
assert "sklearn" not in sys.modules
budget.end_of(1)
assert "sklearn.utils.validation" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
