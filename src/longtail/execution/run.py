"""One run of ``fit``: executor, checkpoint, progress and Ctrl-C in one place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from longtail import _core
from longtail._progress import Progress, ProgressBar
from longtail.execution.checkpoint import Checkpoint
from longtail.execution.executor import Closable, Executor, choose_executor
from longtail.execution.on_threads import TICK_SECONDS
from longtail.execution.plan import Plan, Shard

Result = TypeVar("Result")


class Stopped(RuntimeError):  # noqa: N818 -- not an error: the user's own callable asked for it
    """The progress callable returned False; nothing was fitted, finished shards stay in the checkpoint."""


class Run:
    """Executes what an estimator plans. A context manager, so that the progress bar is closed."""

    def __init__(
        self,
        owner: str,
        n_jobs: int,
        *,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> None:
        if not (progress is None or progress == "bar" or callable(progress)):
            raise TypeError(f"{owner}: progress must be None, 'bar' or a callable(done, total), got {progress!r}")
        self.owner = owner
        self.n_jobs = n_jobs
        self.executor = choose_executor(executor, n_jobs)
        self._is_own_executor = self.executor is not executor
        self.checkpoint_path = checkpoint
        self.control = _core.Control()
        self._progress = progress
        self._bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._is_own_executor and isinstance(self.executor, Closable):
            self.executor.close()

    def open_checkpoint(self, fingerprint: dict[str, str]) -> Checkpoint | None:
        """Open the checkpoint the user asked for, if any, for work with this fingerprint."""
        if self.checkpoint_path is None:
            return None
        return Checkpoint(self.checkpoint_path, self.owner, fingerprint)

    def map(self, plan: Plan) -> list[Shard]:
        """Run every task of the plan, or take it from the checkpoint; return the shards in task order."""
        checkpoint = self.open_checkpoint(plan.fingerprint()) if self.checkpoint_path is not None else None
        shards: dict[int, Shard] = {}
        if checkpoint is not None:
            for task_id in range(plan.n_tasks):
                if (shard := checkpoint.load(task_id)) is not None:
                    shards[task_id] = shard
        n_found = len(shards)
        todo = [task_id for task_id in range(plan.n_tasks) if task_id not in shards]
        total = plan.n_units if plan.n_units is not None else plan.n_tasks
        begin = self.control.done

        def tick() -> None:
            if plan.n_units is None:
                self.report(plan.unit, len(shards), total)
            else:
                # Kernels of other processes count there; from them only finished tasks are known.
                ended = total * len(shards) // max(plan.n_tasks, 1)
                found = total * n_found // max(plan.n_tasks, 1)
                self.report(plan.unit, min(max(found + self.control.done - begin, ended), total), total)

        if todo:
            shared = self.executor.share(plan.arrays)
            try:
                for task_id, shard in self.executor.map(plan, shared, todo, self.control, tick):
                    shards[task_id] = shard if checkpoint is None else checkpoint.store(task_id, shard)
            except _core.Cancelled:
                raise KeyboardInterrupt from None
        self.report(plan.unit, total, total)
        return [shards[task_id] for task_id in range(plan.n_tasks)]

    def stream(self, plan: Plan) -> Iterator[Shard]:
        """Run every task of the plan and yield the shards in task order, each as soon as its turn has come."""
        ended: dict[int, Shard] = {}
        n_given = 0

        def tick() -> None:
            self.report(plan.unit, n_given + len(ended), plan.n_tasks)

        if not plan.n_tasks:
            return
        shared = self.executor.share(plan.arrays)
        try:
            for task_id, shard in self.executor.map(plan, shared, range(plan.n_tasks), self.control, tick):
                ended[task_id] = shard
                while n_given in ended:
                    yield ended.pop(n_given)
                    n_given += 1
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        self.report(plan.unit, plan.n_tasks, plan.n_tasks)

    def call(self, function: Callable[[], Result], unit: str, total: int) -> Result:
        """Run one long native call in a thread while this one reports its progress and listens for Ctrl-C."""
        begin = self.control.done
        outcome: list[Result] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                outcome.append(function())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=work, name=f"longtail-{self.owner}")
        thread.start()
        try:
            while thread.is_alive():
                thread.join(TICK_SECONDS)
                self.report(unit, min(self.control.done - begin, total), total)
        except BaseException:
            self.control.cancel()
            thread.join()
            raise
        if failure:
            raise failure[0]
        return outcome[0]

    def report(self, unit: str, done: int, total: int) -> None:
        """Tell the user how far the run is; raise Stopped when the callable says so."""
        if self._progress is None:
            return
        if callable(self._progress):
            if self._progress(done, total) is False:
                self.control.cancel()
                saved = f"; finished tasks are in {self.checkpoint_path}" if self.checkpoint_path else ""
                raise Stopped(f"{self.owner}: stopped by the progress callable at {done} of {total} {unit}{saved}")
            return
        if self._bar is None:
            self._bar = ProgressBar(self.owner, unit)
        self._bar(done, total)
