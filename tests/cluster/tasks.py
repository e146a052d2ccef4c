"""Tasks that note every run in a folder and then do what the test wants: wait, fail, die."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from longtail import _core
from longtail.execution import Arrays, Params, Plan, Shard


def make_plan(
    task: Any, log: Path, *, n_tasks: int = 6, seconds: float = 0.0, odd_one: int = -1, **params: Any
) -> Plan:
    return Plan(
        owner="Squarer",
        unit="numbers",
        task=task,
        arrays={"numbers": np.arange(100_000, dtype=np.int64)},
        params={"log": str(log), "seconds": seconds, "odd_one": odd_one, **params},
        n_tasks=n_tasks,
    )


def square(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    note_run(params, task_id)
    wait(params, control)
    return {"square": arrays["numbers"][task_id : task_id + 1] ** 2}


def squares_of(shards: list[Shard]) -> list[int]:
    return [int(shard["square"][0]) for shard in shards]


def note_run(params: Params, task_id: int) -> None:
    Path(str(params["log"]), f"{task_id}-{os.getpid()}-{uuid.uuid4().hex}").touch()


def runs_of(log: Path) -> list[tuple[int, int]]:
    """Return (task_id, process id) of every run that began."""
    names = [path.name.split("-") for path in log.iterdir()]
    return sorted((int(task_id), int(process_id)) for task_id, process_id, _ in names)


def wait(params: Params, control: _core.Control) -> None:
    until = time.monotonic() + float(params["seconds"] or 0)
    while time.monotonic() < until:
        if control.cancelled:
            raise _core.Cancelled("stopped")
        time.sleep(0.01)


def fail_at_the_odd_one(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    if task_id == params["odd_one"]:
        raise ValueError("this number is odd")
    return square(arrays, params, task_id, control)


def die_at_the_odd_one(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    if task_id == params["odd_one"]:
        note_run(params, task_id)
        os.kill(os.getpid(), signal.SIGKILL)
    return square(arrays, params, task_id, control)


def hang_at_the_odd_one(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    if task_id == params["odd_one"]:
        note_run(params, task_id)
        while not control.cancelled:
            time.sleep(0.01)
        raise _core.Cancelled("stopped")
    return square(arrays, params, task_id, control)


def need_a_whole_node(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """The odd one finds room only when it has its node to itself."""
    if task_id == params["odd_one"]:
        import ray

        n_granted = ray.get_runtime_context().get_assigned_resources()["CPU"]
        n_running = len(list(Path(str(params["running"])).iterdir()))
        if n_granted < int(params["needed_cpus"] or 0) or n_running:
            note_run(params, task_id)
            raise MemoryError("std::bad_alloc")
        return square(arrays, params, task_id, control)
    mark = Path(str(params["running"]), str(task_id))
    mark.touch()
    try:
        return square(arrays, params, task_id, control)
    finally:
        mark.unlink()


def eat_memory(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """The odd one takes memory until someone stops it."""
    note_run(params, task_id)
    if task_id == params["odd_one"]:
        eaten = [np.ones(1 << 23) for _ in range(int(params["most_bytes"] or 0) >> 26)]  # 64 MB each
        raise AssertionError(f"{len(eaten) * 64} MB were there")
    return {"square": arrays["numbers"][task_id : task_id + 1] ** 2}


def describe_process(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Say what a task finds around it: threads of the BLAS, whether its data is a read-only view, its process."""
    from threadpoolctl import threadpool_info

    n_threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    numbers = arrays["numbers"]
    time.sleep(float(params["seconds"] or 0))
    found = [n_threads, numbers.flags.writeable, numbers.flags.owndata, os.getpid(), time.monotonic_ns()]
    return {"found": np.array(found, dtype=np.int64)}
