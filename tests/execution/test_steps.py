"""Steps that follow one another: resumed, reported, stopped; groups of workers on any executor."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail import _core
from longtail.execution import (
    Arrays,
    Group,
    GroupShape,
    LocalGroup,
    Plan,
    Run,
    Shard,
    StepPlan,
    Stopped,
    TaskLost,
    WorkerLost,
)


class Summer:
    """Step i adds i to a sum; a step's shard holds the sum so far."""

    def __init__(self, stop_at: int = 99, fails_at: int = -1) -> None:
        self.total, self.stop_at, self.fails_at = 0, stop_at, fails_at
        self.calls: list[str] = []

    def advance(self, step_id: int) -> Shard:
        if step_id == self.fails_at:
            raise ValueError(f"step {step_id} is broken")
        self.calls.append(f"advance {step_id}")
        self.total += step_id
        return {"total": np.array([self.total])}

    def restore(self, step_id: int, shard: Shard) -> None:
        self.calls.append(f"restore {step_id}")
        self.total = int(shard["total"][0])

    def is_done(self) -> bool:
        return self.total >= self.stop_at


def make_plan(n_steps: int = 6, *, keep_last: bool = False) -> StepPlan:
    return StepPlan(owner="Summer", unit="sums", arrays={}, params={}, n_steps=n_steps, keep_last=keep_last)


def totals(shards: list[Shard]) -> list[int]:
    return [int(shard["total"][0]) for shard in shards]


def test_steps_run_in_order_and_stop_early() -> None:
    assert totals(Run("Summer", 1).steps(make_plan(), Summer())) == [0, 1, 3, 6, 10, 15]
    assert totals(Run("Summer", 1).steps(make_plan(), Summer(stop_at=3))) == [0, 1, 3]


def test_progress_counts_steps() -> None:
    seen: list[tuple[int, int]] = []
    Run("Summer", 1, progress=lambda done, total: seen.append((done, total))).steps(make_plan(), Summer())
    assert seen == sorted(seen)
    assert seen[-1] == (6, 6)


def test_a_stopped_run_restores_its_steps(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="step 4 is broken"):
        Run("Summer", 1, checkpoint=tmp_path).steps(make_plan(), Summer(fails_at=4))
    resumed = Summer()
    assert totals(Run("Summer", 1, checkpoint=tmp_path).steps(make_plan(), resumed)) == [0, 1, 3, 6, 10, 15]
    assert resumed.calls == ["restore 0", "restore 1", "restore 2", "restore 3", "advance 4", "advance 5"]
    with pytest.raises(ValueError, match="belongs to a run with other steps"):
        Run("Summer", 1, checkpoint=tmp_path).steps(make_plan(7), Summer())


def test_a_checkpoint_may_keep_the_last_step_only(tmp_path: Path) -> None:
    plan = make_plan(keep_last=True)
    with pytest.raises(ValueError, match="step 4 is broken"):
        Run("Summer", 1, checkpoint=tmp_path).steps(plan, Summer(fails_at=4))
    assert [path.name for path in tmp_path.glob("shard-*")] == ["shard-00000003"]
    resumed = Summer()
    assert totals(Run("Summer", 1, checkpoint=tmp_path).steps(plan, resumed)) == [15]
    assert resumed.calls == ["restore 3", "advance 4", "advance 5"]
    again = Summer()
    assert totals(Run("Summer", 1, checkpoint=tmp_path).steps(plan, again)) == [15]
    assert again.calls == ["restore 5"]


def test_a_kill_between_writing_a_step_and_deleting_the_last_one(tmp_path: Path) -> None:
    plan = make_plan(keep_last=True)
    with pytest.raises(ValueError, match="step 3 is broken"):
        Run("Summer", 1, checkpoint=tmp_path).steps(plan, Summer(fails_at=3))
    shutil.copytree(tmp_path / "shard-00000002", tmp_path / "shard-00000003")
    for path in (tmp_path / "shard-00000003").glob("*.npy"):
        path.chmod(0o644)
        path.write_bytes(b"damaged")
    resumed = Summer()
    assert totals(Run("Summer", 1, checkpoint=tmp_path).steps(plan, resumed)) == [15]
    assert resumed.calls[0] == "restore 2", "the newest intact step"
    assert [path.name for path in tmp_path.glob("shard-*")] == ["shard-00000005"]


class Waiter(Summer):
    """Waits in step 1 as native code does: until the control says stop."""

    def __init__(self, control: _core.Control, began: Callable[[], None]) -> None:
        super().__init__()
        self._control, self._began = control, began

    def advance(self, step_id: int) -> Shard:
        if step_id == 1:
            self._began()
            while not self._control.cancelled:
                time.sleep(0.001)
            raise _core.Cancelled("stopped")
        return super().advance(step_id)


def test_a_progress_callable_stops_a_running_step() -> None:
    run = Run("Summer", 1, progress=lambda done, total: done < 1)
    with run, pytest.raises(Stopped, match="Summer: stopped by the progress callable at 1 of 6 sums"):
        run.steps(make_plan(), Waiter(run.control, lambda: None))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("longtail-Summer")]


def test_ctrl_c_stops_a_running_step(tmp_path: Path) -> None:
    run = Run("Summer", 1, checkpoint=tmp_path)
    interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
    with pytest.raises(KeyboardInterrupt), run:
        run.steps(make_plan(), Waiter(run.control, interrupt))
    assert totals(Run("Summer", 1, checkpoint=tmp_path).steps(make_plan(), Summer())) == [0, 1, 3, 6, 10, 15]


# ---- groups of workers ----------------------------------------------------------------------------------------------


class Counter:
    """A worker with a state: a count."""

    def __init__(self, name: str, *, control: _core.Control) -> None:
        self.name, self.count = name, 0
        assert isinstance(control, _core.Control)

    def add(self, n: int) -> str:
        self.count += n
        return f"{self.name}{self.count}"

    def fail(self) -> None:
        raise ValueError(f"{self.name} is broken")


class LosingGroup(LocalGroup):
    """A group whose workers die when told to."""

    lose = False

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        if LosingGroup.lose:
            LosingGroup.lose = False
            raise WorkerLost("the node has no power")
        return super().__call__(method, *arguments)


class TaskExecutor:
    """A custom executor as users wrote it before groups existed: tasks only."""

    def share(self, arrays: Arrays) -> Arrays:
        return arrays

    def map(
        self, plan: Plan, shared: Any, task_ids: Sequence[int], control: _core.Control, tick: Callable[[], None]
    ) -> Iterator[tuple[int, Shard]]:
        for task_id in task_ids:
            tick()
            yield task_id, plan.task(shared, plan.params, task_id, control)


class GroupingExecutor(TaskExecutor):
    """A custom executor with groups of `n_workers`."""

    def __init__(self, n_workers: int = 2, max_retries: int = 1) -> None:
        self.shape = GroupShape(n_workers=n_workers, max_retries=max_retries)
        self.started: list[int] = []

    def group_shape(self) -> GroupShape:
        return self.shape

    def start_group(
        self, owner: str, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control
    ) -> Group:
        self.started.append(len(arguments))
        return LosingGroup(worker, arguments, control)


def names(shape: GroupShape) -> list[list[Any]]:
    return [[chr(ord("a") + i)] for i in range(shape.n_workers)]


def test_calls_are_broadcast_and_answers_come_in_order() -> None:
    with Run("Summer", 1, executor=GroupingExecutor(3)) as run:
        workers = run.workers(Counter, names)
        assert workers.ask(lambda group: group("add", 2), "counting") == ["a2", "b2", "c2"]
        assert workers.ask(lambda group: group("add", 1), "counting") == ["a3", "b3", "c3"]


@pytest.mark.parametrize("executor", ["threads", "inline", GroupingExecutor(2)])
def test_a_call_fails_if_one_worker_does_and_the_group_is_closed(executor: Any) -> None:
    with Run("Summer", 1, executor=executor) as run:
        workers = run.workers(Counter, names)
        workers.ask(lambda group: group("add", 2), "counting")
        with pytest.raises(ValueError, match="a is broken"):
            workers.ask(lambda group: group("fail"), "failing")
        assert workers.ask(lambda group: group("add", 1), "counting")[0] == "a1", "a new group"


def test_a_lost_worker_costs_a_restart() -> None:
    executor = GroupingExecutor(2)
    with Run("Summer", 1, executor=executor) as run:
        count = 0
        workers = run.workers(Counter, names, lambda group: group("add", count))
        for expected in (["a1", "b1"], ["a2", "b2"]):
            LosingGroup.lose = count == 1
            assert workers.ask(lambda group: group("add", 1), "counting") == expected
            count += 1
    assert executor.started == [2, 2]


def test_a_worker_lost_too_often_is_named() -> None:
    def lose(group: Group) -> None:
        raise WorkerLost("the node has no power")

    with Run("Summer", 1, executor=GroupingExecutor(2, max_retries=2)) as run:
        workers = run.workers(Counter, names)
        with pytest.raises(TaskLost, match=r"Summer: tree 7 lost a worker 3 times, .* no power; .* max_retries"):
            workers.ask(lose, "tree 7")


def test_a_cancelled_run_stops_its_group() -> None:
    with Run("Summer", 1) as run:
        workers = run.workers(Counter, names)
        workers.ask(lambda group: group("add", 1), "counting")
        run.control.cancel()
        with pytest.raises(_core.Cancelled):
            workers.ask(lambda group: group("add", 1), "counting")


# ---- estimators -----------------------------------------------------------------------------------------------------

MODELS = {
    "GBDTSparse": lambda: lt.GBDTSparse(n_trees=4, min_leaf_size=2, max_depth=3, n_components=6, n_jobs=1),
    "GBDTSparse, early stop": lambda: lt.GBDTSparse(
        n_trees=6, min_leaf_size=2, max_depth=3, projection="none", patience=2, n_jobs=1
    ),
    "LEML": lambda: lt.LEML(n_components=4, n_iterations=3, n_jobs=1),
}


def model_bytes(model: Any) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in model._fitted.public.items() if isinstance(value, np.ndarray)}


@pytest.fixture(scope="module")
def data() -> Any:
    made = lt.datasets.make_synthetic(n_rows=150, n_features=40, n_labels=30, labels_per_row=2)
    return made.X, made.Y


@pytest.mark.parametrize("name", MODELS)
def test_an_executor_with_groups_is_used_and_gives_the_same_bytes(name: str, data: Any) -> None:
    expected = model_bytes(MODELS[name]().fit(*data))
    for n_workers in (1, 3):
        executor = GroupingExecutor(n_workers)
        assert model_bytes(MODELS[name]().fit(*data, executor=executor)) == expected
        assert executor.started, "the executor was ignored"
    assert model_bytes(MODELS[name]().fit(*data, executor="inline")) == expected


@pytest.mark.parametrize("name", MODELS)
def test_an_executor_of_tasks_only_is_not_ignored_silently(name: str, data: Any) -> None:
    with pytest.warns(UserWarning, match="TaskExecutor has no start_group, so the fit runs in this process; give"):
        found = MODELS[name]().fit(*data, executor=TaskExecutor())
    assert model_bytes(found) == model_bytes(MODELS[name]().fit(*data))


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_worker_lost_in_the_middle_gives_the_same_bytes(name: str, n_workers: int, data: Any) -> None:
    executor = GroupingExecutor(n_workers)

    def lose(done: int, total: int) -> None:
        if done == 2:
            LosingGroup.lose = len(executor.started) < 3

    found = MODELS[name]().fit(*data, executor=executor, progress=lose)
    LosingGroup.lose = False
    assert model_bytes(found) == model_bytes(MODELS[name]().fit(*data))


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_stopped_half_way_resumes_to_the_same_bytes(name: str, data: Any, tmp_path: Path) -> None:
    with pytest.raises(lt.Stopped):
        MODELS[name]().fit(*data, checkpoint=tmp_path / "run", progress=lambda done, total: done < 2)
    assert list((tmp_path / "run").glob("shard-*"))
    for executor in (None, GroupingExecutor(3)):
        resumed = MODELS[name]().fit(*data, checkpoint=tmp_path / "run", executor=executor)
        assert model_bytes(resumed) == model_bytes(MODELS[name]().fit(*data))
