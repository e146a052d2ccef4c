"""Workers and nodes die, tasks fail, hang and eat memory: nothing is lost, nothing hangs, errors name the task."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import longtail as lt
from longtail.execution import Run
from tests.cluster import tasks
from tests.cluster.conftest import LocalCluster

pytestmark = pytest.mark.cluster
SQUARES = [0, 1, 4, 9, 16, 25]


def run_on(cluster: LocalCluster, **settings: float) -> Run:
    return Run("Squarer", 1, executor=lt.RayExecutor(address=cluster.address, group_seconds=0, **settings))  # type: ignore[arg-type]


@contextlib.contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def wait_until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "the test waited in vain"
        time.sleep(0.02)


def test_a_worker_killed_in_a_task_costs_one_more_run(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.grow(2)

    def kill_one() -> None:
        wait_until(lambda: len(tasks.runs_of(tmp_path)) >= 2)
        os.kill(tasks.runs_of(tmp_path)[0][1], signal.SIGKILL)

    with meanwhile(kill_one):
        shards = run_on(cluster).map(tasks.make_plan(tasks.square, tmp_path, seconds=0.4))
    assert tasks.squares_of(shards) == SQUARES
    assert len(tasks.runs_of(tmp_path)) == len(SQUARES) + 1


def test_a_node_that_dies_costs_its_own_tasks_only(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.grow(3)

    def kill_one() -> None:
        wait_until(lambda: len({process for _, process in tasks.runs_of(tmp_path)}) >= 3)
        cluster.kill_a_node()

    with meanwhile(kill_one):
        shards = run_on(cluster).map(tasks.make_plan(tasks.square, tmp_path, n_tasks=12, seconds=1))
    assert tasks.squares_of(shards) == [i * i for i in range(12)]
    runs = Counter(task_id for task_id, _ in tasks.runs_of(tmp_path))
    assert 12 <= runs.total() <= 12 + 2, "only what ran there, or was about to, runs again"


def test_a_task_that_always_kills_its_worker_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    plan = tasks.make_plan(tasks.die_at_the_odd_one, tmp_path, odd_one=3)
    with pytest.raises(lt.TaskLost, match=r"Squarer: task 3 was lost 3 times, .*max_retries"):
        run_on(cluster, max_retries=2).map(plan)
    assert Counter(task_id for task_id, _ in tasks.runs_of(tmp_path))[3] == 3


def test_an_error_of_a_task_comes_as_itself_with_the_task_id(cluster: LocalCluster, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="this number is odd") as caught:
        run_on(cluster).map(tasks.make_plan(tasks.fail_at_the_odd_one, tmp_path, odd_one=3))
    assert type(caught.value) is ValueError
    assert caught.value.__notes__ == ["in task 3 of Squarer"]


def test_a_task_without_room_runs_again_alone(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "log").mkdir()
    cluster.grow(2)
    cluster.add_wide_node(2)
    plan = tasks.make_plan(
        tasks.need_a_whole_node,
        tmp_path / "log",
        seconds=0.2,
        odd_one=1,
        running=str(tmp_path / "running"),
        needed_cpus=2,
    )
    assert tasks.squares_of(run_on(cluster).map(plan)) == SQUARES
    assert Counter(task_id for task_id, _ in tasks.runs_of(tmp_path / "log")) == Counter([0, 1, 1, 2, 3, 4, 5])


def test_a_task_without_room_even_alone_is_named(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "log").mkdir()
    plan = tasks.make_plan(
        tasks.need_a_whole_node, tmp_path / "log", odd_one=1, running=str(tmp_path / "running"), needed_cpus=999
    )
    with pytest.raises(MemoryError, match=r"Squarer: task 1 ran out of memory, alone on its node, too.*more memory"):
        run_on(cluster).map(plan)
    assert [task_id for task_id, _ in tasks.runs_of(tmp_path / "log")].count(1) == 2


def test_a_task_that_hangs_is_named_and_stopped(cluster: LocalCluster, tmp_path: Path) -> None:
    plan = tasks.make_plan(tasks.hang_at_the_odd_one, tmp_path, odd_one=2)
    with pytest.raises(TimeoutError, match=r"Squarer: task 2 gave no answer within 2 s .*timeout_seconds"):
        run_on(cluster, timeout_seconds=2).map(plan)
    assert tasks.squares_of(run_on(cluster).map(tasks.make_plan(tasks.square, tmp_path))) == SQUARES, "CPUs are free"


def test_a_cluster_without_enough_cpus_is_an_error(cluster: LocalCluster, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match=r"Squarer: task 0 cannot run: for 1 s no node .* 64 CPUs"):
        run_on(cluster, n_cpus=64, node_timeout_seconds=1).map(tasks.make_plan(tasks.square, tmp_path))


def test_ctrl_c_cancels_what_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    def interrupt() -> None:
        wait_until(lambda: bool(tasks.runs_of(tmp_path)))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    began = time.monotonic()
    with meanwhile(interrupt), pytest.raises(KeyboardInterrupt):
        run_on(cluster).map(tasks.make_plan(tasks.square, tmp_path, seconds=60))
    assert time.monotonic() - began < 30
    assert tasks.squares_of(run_on(cluster).map(tasks.make_plan(tasks.square, tmp_path))) == SQUARES, "CPUs are free"


def test_short_tasks_are_handed_out_together_with_the_same_result(cluster: LocalCluster, tmp_path: Path) -> None:
    plan = tasks.make_plan(tasks.square, tmp_path, n_tasks=200)
    executor = lt.RayExecutor(address=cluster.address, group_seconds=10)
    assert tasks.squares_of(Run("Squarer", 1, executor=executor).map(plan)) == [i * i for i in range(200)]
    assert len(tasks.runs_of(tmp_path)) == 200


def test_a_task_with_two_cpus_runs_two_threads(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.add_wide_node(2)
    plan = tasks.make_plan(tasks.describe_process, tmp_path, n_tasks=8, seconds=0.05)
    executor = lt.RayExecutor(address=cluster.address, n_cpus=2)
    found = [shard["found"] for shard in Run("Squarer", 1, executor=executor).map(plan)]
    assert len({process for _, _, _, process, _ in found}) == 1
