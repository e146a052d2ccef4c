"""Stateful actors on a Ray cluster: every call is broadcast and fails if one of them does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longtail import _core
from longtail.execution.executor import WorkerLost
from longtail.execution.on_threads import TICK_SECONDS
from longtail.execution.ray_worker import check_build, describe_build, first_line

# Larger arrays are put into the object store once, instead of being sent to every worker.
_LARGE_BYTES = 1 << 16


class ActorHost:
    """Lives on the cluster and holds one worker."""

    def start(self, owner: str, build: str, worker: Callable[..., Any], *arguments: Any) -> None:
        """Make the worker. Not in ``__init__``: Ray would report an error there as a dead actor."""
        check_build(owner, build)
        self._worker = worker(*arguments, control=_core.Control())

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._worker, method)(*arguments)


class RayGroup:
    """One actor per argument list."""

    def __init__(
        self,
        ray: Any,
        owner: str,
        worker: Callable[..., Any],
        arguments: Sequence[Sequence[Any]],
        control: _core.Control,
        *,
        n_cpus: int,
        timeout_seconds: float,
    ) -> None:
        self._ray = ray
        self._owner = owner
        self._control = control
        self._timeout_seconds = timeout_seconds
        host = ray.remote(num_cpus=n_cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(ActorHost)
        self._actors = [host.remote() for _ in arguments]
        try:
            prepared = (owner, describe_build(), worker)
            sent = zip(self._actors, self._put_large(arguments), strict=True)
            self._answers("start", [actor.start.remote(*prepared, *own) for actor, own in sent])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._actors)

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        try:
            (sent,) = self._put_large([arguments])
            return self._answers(method, [actor.call.remote(method, *sent) for actor in self._actors])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the actors and free their CPUs."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []

    def _put_large(self, arguments: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Put each large array into the object store once, however many workers get it."""
        refs: dict[int, Any] = {}
        for value in (value for own in arguments for value in own):
            if isinstance(value, np.ndarray) and value.nbytes > _LARGE_BYTES and id(value) not in refs:
                refs[id(value)] = self._ray.put(value)
        return [[refs.get(id(value), value) for value in own] for own in arguments]

    def _answers(self, method: str, answers: list[Any]) -> list[Any]:
        """Wait for all answers and return them; raise the error of a worker as it is."""
        self._wait(method, answers)
        errors = self._ray.exceptions
        try:
            return list(self._ray.get(answers, timeout=self._timeout_seconds))
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception) and not isinstance(error.cause, errors.RayError):
                raise error.cause from None
            raise WorkerLost(first_line(error)) from error
        except errors.RayError as error:
            raise WorkerLost(first_line(error)) from error

    def _wait(self, method: str, answers: list[Any]) -> None:
        """Wait for all answers; raise when the run is cancelled or one is overdue."""
        until = time.monotonic() + self._timeout_seconds
        waiting = answers
        while waiting:
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=TICK_SECONDS)
            if self._control.cancelled:
                raise _core.Cancelled("stopped")
            if waiting and time.monotonic() > until:
                raise TimeoutError(
                    f"{self._owner}: worker {answers.index(waiting[0])} of {len(answers)} gave no answer to {method} "
                    f"within {self._timeout_seconds:g} s; it hangs, or it has no CPUs; for longer steps raise "
                    "RayExecutor(timeout_seconds=...)"
                )
