"""Running plans: order, errors, stops, checkpoints."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail import _core
from longtail.execution import Arrays, InlineExecutor, Params, Plan, Run, Shard, Stopped, ThreadExecutor

calls: list[int] = []


def double(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    calls.append(task_id)
    time.sleep(0.002 * (task_id % 3))
    if params["fails_at"] == task_id:
        raise ValueError(f"task {task_id} is broken")
    return {"result": arrays["numbers"][task_id : task_id + 1] * 2}


def wait_until_stopped(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    while not control.cancelled:
        time.sleep(0.001)
    raise _core.Cancelled("stopped")


@pytest.fixture(autouse=True)
def _forget_calls() -> None:
    calls.clear()


def make_plan(task: Any = double, n_tasks: int = 20, fails_at: int = -1) -> Plan:
    return Plan(
        owner="Doubler",
        unit="numbers",
        task=task,
        arrays={"numbers": np.arange(n_tasks, dtype=np.int64)},
        params={"fails_at": fails_at},
        n_tasks=n_tasks,
    )


@pytest.mark.parametrize("executor", [InlineExecutor(), ThreadExecutor(1), ThreadExecutor(5)])
def test_shards_come_back_in_task_order(executor: Any) -> None:
    with Run("Doubler", 1, executor=executor) as run:
        shards = run.map(make_plan())
    assert [int(shard["result"][0]) for shard in shards] == [2 * i for i in range(20)]
    assert sorted(calls) == list(range(20))


def test_an_error_in_a_task_is_raised_and_stops_the_others() -> None:
    with Run("Doubler", 2) as run, pytest.raises(ValueError, match="task 3 is broken"):
        run.map(make_plan(n_tasks=1000, fails_at=3))
    assert len(calls) < 1000
    assert run.control.cancelled


def test_a_progress_callable_that_says_false_stops_running_tasks() -> None:
    run = Run("Doubler", 2, progress=lambda done, total: False)
    with run, pytest.raises(Stopped, match="Doubler: stopped by the progress callable at 0 of 20 numbers"):
        run.map(make_plan(wait_until_stopped))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("longtail-Doubler")]


@pytest.mark.parametrize("n_allowed", [0, 2])
def test_fewer_threads_than_wanted_give_the_same_shards(
    n_allowed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start
    n_started = 0

    def start_some(thread: threading.Thread) -> None:
        nonlocal n_started
        if n_started == n_allowed:
            raise RuntimeError("can't start new thread")
        n_started += 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    shards = Run("Doubler", 5).map(make_plan())
    assert [int(shard["result"][0]) for shard in shards] == [2 * i for i in range(20)]
    assert f"{n_allowed} of 5 threads could be started (can't start new thread)" in caplog.text


def test_finished_shards_are_not_computed_again(tmp_path: Path) -> None:
    # One thread: with two, a neighbour of the failing task may be stopped before its shard is stored.
    with Run("Doubler", 1, checkpoint=tmp_path) as run, pytest.raises(ValueError, match="broken"):
        run.map(make_plan(fails_at=19))
    first = sorted(calls)
    assert first == list(range(20))
    calls.clear()
    with pytest.raises(ValueError, match="belongs to a run with other parameters"):
        Run("Doubler", 2, checkpoint=tmp_path).map(make_plan())
    with Run("Doubler", 2, checkpoint=tmp_path) as run, pytest.raises(ValueError, match="broken"):
        run.map(make_plan(fails_at=19))
    assert calls == [19]


def test_a_damaged_shard_is_computed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = [shard["result"].copy() for shard in Run("Doubler", 2, checkpoint=tmp_path).map(make_plan())]
    damaged = next((tmp_path / "shard-00000007").glob("*.npy"))
    damaged.chmod(0o644)
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    calls.clear()
    found = Run("Doubler", 2, checkpoint=tmp_path).map(make_plan())
    assert calls == [7]
    assert "shard-00000007 is damaged and will be computed again" in caplog.text
    np.testing.assert_array_equal([shard["result"] for shard in found], expected)


def test_a_checkpoint_never_takes_over_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="is neither empty nor a checkpoint; choose another directory"):
        Run("Doubler", 2, checkpoint=tmp_path).map(make_plan())
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("content", ["{", "[1, 2]", "[" * 100_000])
def test_a_broken_plan_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(ValueError, match=r"plan\.json is not "):
        Run("Doubler", 2, checkpoint=tmp_path).map(make_plan())


def test_ctrl_c_beside_the_tasks_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), Run("Test", 1):
        raise _core.Cancelled("stopped before the end")
