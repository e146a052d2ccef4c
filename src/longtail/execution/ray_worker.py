"""Inside a Ray worker: fetch the shared arrays without a copy, run some tasks of a plan, return the shards."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longtail import _core, _os
from longtail._version import __version__
from longtail.execution.mapped_files import FilePart, open_file_part
from longtail.execution.on_threads import ThreadExecutor
from longtail.execution.plan import Array, Params, Plan, Shard, TaskFunction


@dataclass(frozen=True, kw_only=True)
class Job:
    """A plan as it is sent to workers: places instead of arrays."""

    owner: str
    task: TaskFunction
    params: Params
    n_tasks: int
    places: Mapping[str, Any]  # ObjectRef or FilePart
    n_cpus: int
    fetch_seconds: float
    build: str


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The answer to a batch of tasks: the shards, and the seconds they took."""

    shards: list[tuple[int, Shard]]
    seconds: float


class SharedArrays(Mapping[str, Array]):
    """The arrays of a plan on this node: read-only views into the object store or files, each fetched on first use.

    A node holds only the arrays that its tasks use.
    """

    def __init__(self, places: Mapping[str, Any], fetch_seconds: float) -> None:
        self._places = places
        self._fetch_seconds = fetch_seconds
        self._fetched: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        if name not in self._fetched:
            self._fetched[name] = self._fetch(self._places[name])
        return self._fetched[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:  # the default of Mapping would fetch the array
        return name in self._places

    def _fetch(self, place: Any) -> Array:
        if isinstance(place, FilePart):
            return open_file_part(place)
        import ray

        array: Array = ray.get(place, timeout=self._fetch_seconds)
        return array


def describe_build() -> str:
    """Return what the bytes of a result depend on: the version and the instruction set."""
    return f"longtail {__version__} for {_core.isa}"


def check_build(owner: str, build: str) -> None:
    """Refuse to work on a node whose results would differ."""
    if describe_build() != build:
        raise RuntimeError(
            f"{owner}: {_os.host_name()} has {describe_build()}, but the run began with {build}: the models "
            "would differ; install the same version everywhere and set LONGTAIL_ISA to a set that all nodes support"
        )


def run_tasks(job: Job, task_ids: Sequence[int]) -> Finished:
    """Run some tasks of a job on exactly the granted CPUs, one thread each."""
    check_build(job.owner, job.build)
    from threadpoolctl import threadpool_limits

    plan = Plan(
        owner=job.owner,
        unit="tasks",
        task=job.task,
        arrays=SharedArrays(job.places, job.fetch_seconds),
        params=job.params,
        n_tasks=job.n_tasks,
    )
    begin = time.perf_counter()
    # The thread that Ray controls only waits, so cancelling a task stops its native code at once.
    threads = ThreadExecutor(min(job.n_cpus, len(task_ids)))
    with threadpool_limits(1):  # BLAS threads would exceed the granted CPUs
        shards = list(threads.map(plan, plan.arrays, task_ids, _core.Control(), _do_nothing))
    return Finished(shards=shards, seconds=time.perf_counter() - begin)


def _do_nothing() -> None:
    pass


def first_line(error: BaseException) -> str:
    """Shorten an error to one line, to quote it in another message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
