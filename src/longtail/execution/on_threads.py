"""Run tasks on threads of this process; native code releases the GIL."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from longtail import _core
from longtail.execution.executor import Group, GroupShape, Tick
from longtail.execution.groups import LocalGroup
from longtail.execution.inline import InlineExecutor
from longtail.execution.plan import Arrays, Plan, Shard

_log = logging.getLogger(__name__)
TICK_SECONDS = 0.05


class ThreadExecutor:
    """Runs tasks on `n_jobs` threads. The calling thread only waits, so that it can handle Ctrl-C and progress.

    Where the system allows fewer threads (the limits of a container), tasks run on those there are.
    """

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def share(self, arrays: Arrays) -> Arrays:
        return arrays

    def map(
        self, plan: Plan, shared: Arrays, task_ids: Sequence[int], control: _core.Control, tick: Tick
    ) -> Iterator[tuple[int, Shard]]:
        todo: SimpleQueue[int | None] = SimpleQueue()
        ended: SimpleQueue[tuple[int, Shard | BaseException]] = SimpleQueue()

        def work() -> None:
            while (task_id := todo.get()) is not None:
                try:
                    ended.put((task_id, plan.task(shared, plan.params, task_id, control)))
                except BaseException as error:
                    ended.put((task_id, error))

        threads = start_threads(min(self.n_jobs, len(task_ids)), work, f"longtail-{plan.owner}")
        if not threads:
            yield from InlineExecutor().map(plan, shared, task_ids, control, tick)
            return
        waiting = iter(task_ids)
        n_handed_out = 0
        try:
            while True:
                # At most one task per thread at a time: finished shards never pile up behind a slow consumer.
                while n_handed_out < len(threads) and (task_id := next(waiting, None)) is not None:
                    todo.put(task_id)
                    n_handed_out += 1
                if not n_handed_out:
                    return
                tick()
                try:
                    task_id, result = ended.get(timeout=TICK_SECONDS)
                except Empty:
                    continue
                n_handed_out -= 1
                if isinstance(result, BaseException):
                    if isinstance(result, Exception):
                        result.add_note(f"in task {task_id} of {plan.owner}")
                    raise result
                yield task_id, result
        except BaseException:
            control.cancel()
            raise
        finally:
            for _ in threads:
                todo.put(None)
            for thread in threads:
                thread.join()

    def group_shape(self) -> GroupShape:
        return GroupShape(n_threads=self.n_jobs)

    def start_group(
        self, owner: str, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control
    ) -> Group:
        return LocalGroup(worker, arguments, control)


def start_threads(n_threads: int, work: Callable[[], None], name: str) -> list[threading.Thread]:
    """Start up to `n_threads` threads: fewer, or none, if the system refuses more."""
    threads: list[threading.Thread] = []
    for number in range(n_threads):
        thread = threading.Thread(target=work, name=f"{name}_{number}")
        try:
            thread.start()
        except RuntimeError as error:
            _log.warning("%s: %d of %d threads could be started (%s)", name, len(threads), n_threads, error)
            break
        threads.append(thread)
    return threads
