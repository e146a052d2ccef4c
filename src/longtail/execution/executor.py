"""The contract of executors: tasks, groups of stateful workers, and the choice of an executor by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from longtail import _core
from longtail.execution.plan import Arrays, Plan, Shard

Tick = Callable[[], None]


@runtime_checkable
class Executor(Protocol):
    """Runs the tasks of a plan somewhere: on threads, inline, on a cluster."""

    def share(self, arrays: Arrays) -> Any:
        """Bring the arrays to where tasks run, once, and return a handle to them."""

    def map(
        self, plan: Plan, shared: Any, task_ids: Sequence[int], control: _core.Control, tick: Tick
    ) -> Iterator[tuple[int, Shard]]:
        """Yield (task_id, shard) as tasks end, in any order; call `tick` several times per second while waiting.

        When the consumer closes the iterator or `tick` raises, running tasks are stopped through `control`.
        """


@dataclass(frozen=True, kw_only=True)
class GroupShape:
    """How many workers an executor runs side by side, the threads of each, and how often a lost group is restarted."""

    n_workers: int = 1
    n_threads: int = 1
    max_retries: int = 0


class Group(Protocol):
    """Stateful workers: every call is broadcast and fails if one of them does; after a failure the group is closed."""

    def __len__(self) -> int: ...

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker with the same arguments; return the answers in the order of the workers.

        Raises `WorkerLost` if a worker died, and ``Cancelled`` soon after the control was cancelled.
        """

    def close(self) -> None:
        """End the workers."""


@runtime_checkable
class GroupExecutor(Executor, Protocol):
    """An executor that also runs groups of stateful workers, for fits whose steps follow one another.

    An executor without these two methods runs tasks only; `Run.workers` then keeps the workers in this process
    and warns.
    """

    def group_shape(self) -> GroupShape:
        """Return how many workers to start. Asked before every start, because nodes come and go."""

    def start_group(
        self, owner: str, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control
    ) -> Group:
        """Start one worker per argument list, as ``worker(*arguments, control=...)``.

        Arguments and answers are numpy arrays, scipy matrices, numbers, strings, or tuples and dicts of these. In this
        process workers get `control` itself; elsewhere they get one of their own, and the caller watches `control`.
        """


@runtime_checkable
class Closable(Protocol):
    """An executor that keeps resources between runs."""

    def close(self) -> None:
        """Release them."""


class WorkerLost(ConnectionError):  # noqa: N818 -- says what happened, as KeyboardInterrupt does
    """A worker of a group or its node died; the state of the others is useless without it."""


class TaskLost(ConnectionError):  # noqa: N818 -- as WorkerLost
    """The worker or node of a task died too often; finished shards stay in the checkpoint."""


def choose_executor(executor: str | Executor | None, n_jobs: int) -> Executor:
    """Turn the `executor` argument of ``fit`` into an object."""
    from longtail.execution.inline import InlineExecutor
    from longtail.execution.on_threads import ThreadExecutor

    if executor is None or executor == "threads":
        return ThreadExecutor(n_jobs)
    if executor == "inline":
        return InlineExecutor()
    if executor in ("ray", "auto") or (isinstance(executor, str) and executor.startswith("ray://")):
        from longtail.execution.on_ray import RayExecutor

        return RayExecutor(address=None if executor == "ray" else executor, n_local_cpus=n_jobs)
    if isinstance(executor, str) or not isinstance(executor, Executor):
        raise ValueError(
            "executor must be 'threads', 'inline', 'ray', 'auto', 'ray://host:port' or an Executor object, "
            f"got {executor!r}"
        )
    return executor
