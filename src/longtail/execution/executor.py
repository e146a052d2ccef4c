"""The executor protocol, and the choice of one by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        """Yield (task_id, shard) as tasks end, in any order; call `tick` several times a second while waiting.

        When the consumer closes the iterator or `tick` raises, running tasks are stopped through `control`.
        """


@runtime_checkable
class Closable(Protocol):
    """An executor that holds on to something between runs."""

    def close(self) -> None:
        """Let go of it."""


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
