"""Groups of stateful workers: in this process, and restarted when a worker is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from longtail import _core
from longtail.execution.executor import Group, GroupShape, TaskLost, WorkerLost

_log = logging.getLogger(__name__)
Result = TypeVar("Result")
# Make one argument list per worker; an executor may get fewer workers than its shape allows.
MakeArguments = Callable[[GroupShape], Sequence[Sequence[Any]]]


class LocalGroup:
    """Workers in this process, called one after the other; each may use several threads in native code."""

    def __init__(self, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control) -> None:
        self._control = control
        self._workers = [worker(*own, control=control) for own in arguments]

    def __len__(self) -> int:
        return len(self._workers)

    def __call__(self, method: str, *arguments: Any) -> list[Any]:
        try:
            return [self._call(worker, method, arguments) for worker in self._workers]
        except BaseException:
            self.close()
            raise

    def _call(self, worker: Any, method: str, arguments: Sequence[Any]) -> Any:
        if self._control.cancelled:
            raise _core.Cancelled("stopped")
        return getattr(worker, method)(*arguments)

    def close(self) -> None:
        self._workers = []


class Workers:
    """A group that is started on first use, and again when a worker is lost.

    Parameters
    ----------
    owner : str
        Named in messages.
    start : callable
        Starts a group.
    get_shape : callable
        Returns the `GroupShape`, for its ``max_retries``.
    restore : callable, optional
        Brings a new group to the state of the old one, such as by adding the trees grown so far.
    """

    def __init__(
        self,
        owner: str,
        start: Callable[[], Group],
        get_shape: Callable[[], GroupShape],
        restore: Callable[[Group], None] | None = None,
    ) -> None:
        self._owner = owner
        self._start, self._get_shape, self._restore = start, get_shape, restore
        self._group: Group | None = None

    def ask(self, action: Callable[[Group], Result], what: str) -> Result:
        """Return ``action(group)``; if a worker is lost, start a new group and try again. `what` is for messages."""
        n_lost = 0
        while True:
            try:
                return action(self._started())
            except WorkerLost as error:
                n_lost += 1
                _log.warning("%s: %s lost a worker: %s", self._owner, what, error)
                self.close()
                if n_lost > self._get_shape().max_retries:
                    raise TaskLost(
                        f"{self._owner}: {what} lost a worker {n_lost} times, the last time because {error}; check "
                        "the nodes' logs and memory, or raise max_retries of the executor"
                    ) from error
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the workers; the next `ask` starts new ones."""
        if self._group is not None:
            self._group.close()
            self._group = None

    def _started(self) -> Group:
        if self._group is None:
            self._group = self._start()
            if self._restore is not None:
                self._restore(self._group)
        return self._group
