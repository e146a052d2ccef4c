"""Workers with a memory on a Ray cluster, for fits whose steps follow one another: all are asked, all must answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longtail import _core
from longtail.execution.on_ray import RayExecutor, first_line
from longtail.execution.on_threads import TICK_SECONDS
from longtail.execution.ray_worker import check_build, describe_build

# Larger arguments are put into the object store once, instead of being sent to every worker.
_LARGE_BYTES = 1 << 16


class ActorLost(ConnectionError):  # noqa: N818 -- as TaskLost
    """A worker of a group or its node died: what the others know is of no use without it."""


class ActorHost:
    """Lives on the cluster and holds one worker."""

    def __init__(self, owner: str, build: str, make: Callable[..., Any], *arguments: Any) -> None:
        check_build(owner, build)
        self._worker = make(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._worker, method)(*arguments)


class ActorGroup:
    """A group of workers, made of one argument list each. Call it with a method's name to ask them all."""

    def __init__(
        self,
        executor: RayExecutor,
        owner: str,
        make: Callable[..., Any],
        arguments: Sequence[Sequence[Any]],
        control: _core.Control,
    ) -> None:
        self._ray = ray = executor.connect()
        self._owner = owner
        self._control = control
        self._timeout_seconds = executor.timeout_seconds
        host = ray.remote(num_cpus=executor.n_cpus, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(
            ActorHost
        )
        self._actors = [host.remote(owner, describe_build(), make, *own) for own in arguments]

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker with the same arguments; return the answers in the workers' order."""
        try:
            return self._ask(method, arguments)
        except BaseException:
            self.close()
            raise

    def _ask(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        large = (isinstance(value, np.ndarray) and value.nbytes > _LARGE_BYTES for value in arguments)
        sent = [self._ray.put(value) if put else value for value, put in zip(arguments, large, strict=True)]
        answers = [actor.call.remote(method, *sent) for actor in self._actors]
        until = time.monotonic() + self._timeout_seconds
        waiting = answers
        while waiting:
            _, waiting = self._ray.wait(waiting, num_returns=len(waiting), timeout=TICK_SECONDS)
            if self._control.cancelled:
                raise _core.Cancelled("stopped")
            if waiting and time.monotonic() > until:
                raise TimeoutError(
                    f"{self._owner}: block {answers.index(waiting[0])} of {len(answers)} gave no answer to {method} "
                    f"within {self._timeout_seconds:g} s; it hangs, or it has no CPUs; for longer steps raise "
                    "RayExecutor(timeout_seconds=...)"
                )
        errors = self._ray.exceptions
        try:
            return list(self._ray.get(answers, timeout=self._timeout_seconds))
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception) and not isinstance(error.cause, errors.RayError):
                raise error.cause from None
            raise ActorLost(first_line(error)) from error
        except errors.RayError as error:
            raise ActorLost(first_line(error)) from error

    def close(self) -> None:
        """Give the CPUs back."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
