"""Late requests are stopped, not only answered."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail import _core
from longtail._cancel import current_control, stoppable
from longtail.serve import Limits, create_app
from tests.contract.estimators import ESTIMATORS
from tests.models.make import make_labels, make_rows


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"Popularity"}))  # which only copies one ranking
def test_a_cancelled_prediction_stops(name: str) -> None:
    rows = make_rows()
    model = ESTIMATORS[name]().fit(rows, make_labels())
    control = _core.Control()
    with stoppable(control):
        before = model.predict_top_k(rows)
        control.cancel()
        with pytest.raises(_core.Cancelled):
            model.predict_top_k(rows)
    np.testing.assert_array_equal(model.predict_top_k(rows).label_ids, before.label_ids)


def test_a_running_prediction_stops_soon() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((400, 300), dtype=np.float32)
    model = lt.DiSMEC(n_jobs=1, prune_below=0.0, max_iterations=1).fit(X[:50], np.eye(50, 40))
    control = _core.Control()
    outcome: list[str] = []

    def work() -> None:
        try:
            for _ in range(100_000):
                model.predict_top_k(X)
            outcome.append("finished")
        except _core.Cancelled:
            outcome.append("stopped")

    with stoppable(control):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    time.sleep(0.1)
    control.cancel()
    thread.join(timeout=10)
    assert outcome == ["stopped"]


def test_texts_stop_being_tagged() -> None:
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(["web server"], [["net"]])
    control = _core.Control()
    control.cancel()
    with stoppable(control), pytest.raises(_core.Cancelled):
        tagger.tag(["web"])


class SlowTagger(lt.Tagger):
    """Works until it is cancelled."""

    is_slow = False
    outcome = ""

    def tag(self, *inputs: Any, **ranking: Any) -> Any:
        if SlowTagger.is_slow:
            begin, control = time.monotonic(), current_control()
            while not control.cancelled and time.monotonic() < begin + 20:
                time.sleep(0.01)
            SlowTagger.outcome = "cancelled" if control.cancelled else "finished"
        return super().tag(*inputs, **ranking)


def test_a_late_request_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = SlowTagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(["web server"], [["net"]])
    with TestClient(create_app(tagger, limits=Limits(work_timeout_seconds=0.2))) as client:
        monkeypatch.setattr(SlowTagger, "is_slow", True)
        answer = client.post("/api/tag", json={"text": "web"})
        assert answer.status_code == 503
        assert "not finished within 0.2 seconds" in answer.json()["error"]
        for _ in range(500):
            if SlowTagger.outcome:
                break
            time.sleep(0.01)
        assert SlowTagger.outcome == "cancelled"
        monkeypatch.setattr(SlowTagger, "is_slow", False)
        assert client.post("/api/tag", json={"text": "web"}).json()["labels"][0]["label"] == "net"
