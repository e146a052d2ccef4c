"""One run of ``fit``: executor, checkpoint, progress and Ctrl-C in one place."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from longtail import _core
from longtail._progress import Progress, ProgressBar
from longtail.execution.checkpoint import Checkpoint
from longtail.execution.executor import Closable, Executor, Group, GroupExecutor, GroupShape, choose_executor
from longtail.execution.groups import LocalGroup, MakeArguments, Workers
from longtail.execution.on_threads import TICK_SECONDS, start_threads
from longtail.execution.plan import Plan, Shard, Stepper, StepPlan
from longtail.execution.step_loop import StepLoop


class Stopped(RuntimeError):  # noqa: N818 -- not an error: the user's own callable asked for it
    """The progress callable returned False; nothing was fitted, finished shards stay in the checkpoint."""


class Run:
    """Executes the plans of an estimator. A context manager: it closes the progress bar, workers and its own executor.

    - `map`: independent tasks.
    - `steps`: steps that follow one another; `workers` gives them a group of stateful workers of the executor.

    Both resume from the checkpoint, report progress and stop on Ctrl-C.
    """

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
        self.checkpoint_path = checkpoint
        self.control = _core.Control()
        self._executor = choose_executor(executor, n_jobs)
        self._is_own_executor = self._executor is not executor
        self._workers: list[Workers] = []
        self._progress = progress
        self._bar: ProgressBar | None = None
        self._n_before = 0  # units of earlier plans of the same fit, so that progress never goes back

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        for workers in self._workers:
            workers.close()
        if self._is_own_executor and isinstance(self._executor, Closable):
            self._executor.close()
        if isinstance(error, _core.Cancelled):  # native code was stopped by Ctrl-C
            raise KeyboardInterrupt from None

    @property
    def executor(self) -> Executor:
        """Where this run executes: for an estimator that fits other estimators to pass on."""
        return self._executor

    # ---- independent tasks ------------------------------------------------------------------------------------

    def map(self, plan: Plan, *, within: str = "") -> list[Shard]:
        """Run every task of the plan, or load it from the checkpoint; return the shards in task order.

        A fit of several plans names a subdirectory of its checkpoint for each, `within`, and holds the checkpoint
        itself meanwhile (`hold`). Shards of a checkpoint are mapped files: copy what a model keeps.
        """
        with self._open_checkpoint(plan.fingerprint, within) as checkpoint:
            shards = self._map(plan, checkpoint)
        if within:
            self._n_before += plan.n_tasks if plan.n_units is None else plan.n_units
        return shards

    def hold(self, fingerprint: Callable[[], dict[str, str]]) -> contextlib.AbstractContextManager[Checkpoint | None]:
        """Claim the checkpoint, if there is one, for a fit of several plans with this fingerprint."""
        return self._open_checkpoint(fingerprint)

    def _map(self, plan: Plan, checkpoint: Checkpoint | None) -> list[Shard]:
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
                # Kernels in other processes count there: of their work, only finished tasks are known.
                ended = total * len(shards) // max(plan.n_tasks, 1)
                found = total * n_found // max(plan.n_tasks, 1)
                self.report(plan.unit, min(max(found + self.control.done - begin, ended), total), total)

        if todo:
            shared = self._executor.share(plan.arrays)
            for task_id, shard in self._executor.map(plan, shared, todo, self.control, tick):
                shards[task_id] = shard if checkpoint is None else checkpoint.store(task_id, shard)
        self.report(plan.unit, total, total)
        return [shards[task_id] for task_id in range(plan.n_tasks)]

    def stream(self, plan: Plan) -> Iterator[Shard]:
        """Run every task of the plan and yield the shards in task order, each as soon as possible."""
        ended: dict[int, Shard] = {}
        n_given = 0

        def tick() -> None:
            self.report(plan.unit, n_given + len(ended), plan.n_tasks)

        if not plan.n_tasks:
            return
        shared = self._executor.share(plan.arrays)
        for task_id, shard in self._executor.map(plan, shared, range(plan.n_tasks), self.control, tick):
            ended[task_id] = shard
            while n_given in ended:
                yield ended.pop(n_given)
                n_given += 1
        self.report(plan.unit, plan.n_tasks, plan.n_tasks)

    # ---- steps that follow one another ------------------------------------------------------------------------

    def steps(self, plan: StepPlan, stepper: Stepper) -> list[Shard]:
        """Restore the steps that are in the checkpoint, compute the others, and return the shards in order.

        With ``plan.keep_last`` only the last shard is returned. Shards of a checkpoint are mapped files: copy what a
        model keeps.
        """
        with self._open_checkpoint(plan.fingerprint) as checkpoint:
            loop = StepLoop(plan, stepper, checkpoint, self.control)
            self._work_beside(loop.run, lambda: self.report(plan.unit, loop.n_done, plan.n_steps))
        self.report(plan.unit, plan.n_steps, plan.n_steps)
        return loop.shards

    def workers(
        self,
        worker: Callable[..., Any],
        make_arguments: MakeArguments,
        restore: Callable[[Group], None] | None = None,
    ) -> Workers:
        """Return a group of stateful workers, started on first use and closed with the run.

        Parameters
        ----------
        worker : callable
            Makes a worker: ``worker(*arguments, control=control)``. Must be importable, for other processes.
        make_arguments : callable
            Gets the `GroupShape` of the executor and returns one argument list per worker.
        restore : callable, optional
            Brings a new group to the current state, after a worker was lost.
        """
        workers = Workers(self.owner, lambda: self._start_group(worker, make_arguments), self._group_shape, restore)
        self._workers.append(workers)
        return workers

    def _start_group(self, worker: Callable[..., Any], make_arguments: MakeArguments) -> Group:
        arguments = make_arguments(self._group_shape())
        if isinstance(self._executor, GroupExecutor):
            return self._executor.start_group(self.owner, worker, arguments, self.control)
        warnings.warn(
            f"{self.owner}: {type(self._executor).__name__} has no start_group, so the fit runs in this process; "
            "give the executor the methods of longtail.execution.GroupExecutor, or leave executor out",
            UserWarning,
            stacklevel=2,
        )
        return LocalGroup(worker, arguments, self.control)

    def _group_shape(self) -> GroupShape:
        if isinstance(self._executor, GroupExecutor):
            return self._executor.group_shape()
        return GroupShape(n_threads=self.n_jobs)

    # ---- shared parts -----------------------------------------------------------------------------------------

    def _open_checkpoint(
        self, fingerprint: Callable[[], dict[str, str]], within: str = ""
    ) -> contextlib.AbstractContextManager[Checkpoint | None]:
        if self.checkpoint_path is None:
            return contextlib.nullcontext()
        return Checkpoint(Path(self.checkpoint_path) / within, self.owner, fingerprint())

    def _work_beside(self, work: Callable[[], None], tick: Callable[[], None]) -> None:
        """Run `work` in a thread while this one calls `tick` and listens for Ctrl-C."""
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        threads = start_threads(1, guarded, f"longtail-{self.owner}")
        if not threads:
            guarded()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(TICK_SECONDS)
                    tick()
        except BaseException:
            self.control.cancel()
            for thread in threads:
                thread.join()
            raise
        if failures:
            raise failures[0]

    def report(self, unit: str, done: int, total: int) -> None:
        """Report progress; raise Stopped if the callable returns False."""
        if self._progress is None:
            return
        done, total = done + self._n_before, total + self._n_before
        if callable(self._progress):
            if self._progress(done, total) is False:
                self.control.cancel()
                saved = f"; finished tasks are in {self.checkpoint_path}" if self.checkpoint_path else ""
                raise Stopped(f"{self.owner}: stopped by the progress callable at {done} of {total} {unit}{saved}")
            return
        if self._bar is None:
            self._bar = ProgressBar(self.owner, unit)
        self._bar(done, total)
