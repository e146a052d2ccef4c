"""The tasks of one plan on a Ray cluster: submit, wait, collect, and run lost tasks again."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longtail.execution import ray_worker
from longtail.execution.executor import TaskLost
from longtail.execution.on_threads import TICK_SECONDS
from longtail.execution.plan import Plan, Shard
from longtail.execution.ray_worker import first_line

if TYPE_CHECKING:
    from longtail.execution.on_ray import RayExecutor

_log = logging.getLogger(__name__)
_MAX_BATCH = 64
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 2.0


@dataclass(frozen=True)
class _Batch:
    """Tasks that were submitted together."""

    task_ids: list[int]
    since: float
    alone: bool


class RayTasks:
    """One pass over the tasks of a plan: which are waiting, running, or were lost, and how often."""

    def __init__(
        self, ray: Any, settings: RayExecutor, plan: Plan, places: dict[str, Any], task_ids: Sequence[int]
    ) -> None:
        self._ray = ray
        self._settings = settings
        self._owner = plan.owner
        self._waiting = deque(task_ids)
        self._lonely: deque[int] = deque()  # run alone on a node, after everything else
        self._running: dict[Any, _Batch] = {}
        self._ready: list[Any] = []
        self._n_lost: Counter[int] = Counter()
        self._n_finished = 0
        self._seconds = 0.0
        self._n_slots = 0
        self._slots_seen = self._looked = time.monotonic()
        # Retries are counted here, not by Ray: a task that ran out of memory is run again differently.
        self._remote = ray.remote(max_retries=0)(ray_worker.run_tasks)
        job = ray_worker.Job(
            owner=plan.owner,
            task=plan.task,
            params=dict(plan.params),
            n_tasks=plan.n_tasks,
            places=places,
            n_cpus=settings.n_cpus,
            fetch_seconds=settings.timeout_seconds,
            build=ray_worker.describe_build(),
        )
        self._job = ray.put(job) if task_ids else None
        self._count_slots()

    def is_done(self) -> bool:
        return not (self._waiting or self._lonely or self._running or self._ready)

    # ---- submitting ------------------------------------------------------------------------------------------

    def submit_next(self) -> None:
        """Keep every slot busy and a few batches queued, so that no worker waits for the driver."""
        self._look_at_nodes()
        limit = self._n_slots + self._n_slots // 4 + 1
        while self._waiting and len(self._running) < limit:
            n_tasks = min(self._batch_size(), len(self._waiting))
            self._submit([self._waiting.popleft() for _ in range(n_tasks)], {"num_cpus": self._settings.n_cpus})
        if self._lonely and not self._waiting and not self._running:
            self._submit([self._lonely.popleft()], self._whole_node(), alone=True)

    def _submit(self, task_ids: list[int], options: dict[str, Any], *, alone: bool = False) -> None:
        ref = self._remote.options(name=f"{self._owner} {_named(task_ids)}", **options).remote(self._job, task_ids)
        self._running[ref] = _Batch(task_ids, time.monotonic(), alone)

    def _batch_size(self) -> int:
        """Combine short tasks; fewer towards the end, so that all slots end together. Results do not depend on it."""
        if not self._n_finished:
            return 1
        n_cpus = self._settings.n_cpus
        mean_seconds = max(self._seconds / self._n_finished, 1e-6)
        wanted = int(self._settings.group_seconds / mean_seconds)
        fair = -(-len(self._waiting) // (2 * max(1, self._n_slots)))
        return max(1, min(max(wanted, n_cpus), fair, _MAX_BATCH))

    def _whole_node(self) -> dict[str, Any]:
        """Ask for all CPUs of the node with the most memory, so that nothing else runs there."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        node = max(
            live_nodes(self._ray), key=lambda node: (node["Resources"].get("memory", 0), node["NodeID"]), default=None
        )
        if node is None:
            return {"num_cpus": self._settings.n_cpus}
        return {
            "num_cpus": node["Resources"]["CPU"],
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
        }

    # ---- waiting ----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait briefly for an answer; raise TimeoutError if one is overdue."""
        if not self._running:
            return
        self._ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=TICK_SECONDS)
        if self._ready:
            return
        oldest = min(self._running.values(), key=lambda batch: batch.since)
        if time.monotonic() - oldest.since > self._settings.timeout_seconds:
            raise TimeoutError(
                f"{self._owner}: {_named(oldest.task_ids)} gave no answer within "
                f"{self._settings.timeout_seconds:g} s ({self._n_slots} tasks can run at a time); a worker hangs, or "
                "the cluster is busy with other work; for longer tasks raise RayExecutor(timeout_seconds=...)"
            )

    def _look_at_nodes(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS and self._n_slots:
            return
        self._count_slots()
        if not self._n_slots and now - self._slots_seen > self._settings.node_timeout_seconds:
            waiting = next(iter(self._running.values())).task_ids if self._running else list(self._waiting)[:1]
            raise TimeoutError(
                f"{self._owner}: {_named(waiting)} cannot run: for {self._settings.node_timeout_seconds:g} s no node "
                f"of the cluster has had {self._settings.n_cpus} CPUs; add nodes or lower RayExecutor(n_cpus=...)"
            )

    def _count_slots(self) -> None:
        self._n_slots = self._settings.count_slots()
        self._looked = time.monotonic()
        if self._n_slots:
            self._slots_seen = self._looked

    # ---- answers ----------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[tuple[int, Shard]]:
        """Yield the shards of finished batches; resubmit lost ones."""
        while self._ready:
            ref = self._ready.pop()
            batch = self._running.pop(ref)
            finished = self._answer(ref, batch)
            if finished is None:
                continue
            self._n_finished += len(batch.task_ids)
            self._seconds += finished.seconds * min(self._settings.n_cpus, len(batch.task_ids))
            for task_id, shard in finished.shards:
                # Copy: a view would keep the whole answer in the object store.
                yield task_id, {name: np.array(array) for name, array in shard.items()}

    def _answer(self, ref: Any, batch: _Batch) -> ray_worker.Finished | None:
        """Fetch an answer; None if it was lost and the tasks will run again."""
        errors = self._ray.exceptions
        try:
            finished: ray_worker.Finished = self._ray.get(ref, timeout=self._settings.timeout_seconds)
            return finished
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, MemoryError | errors.OutOfMemoryError):
                self._out_of_memory(batch, cause)
            elif isinstance(cause, errors.RayError):  # the worker could not fetch the data
                self._lost(batch, cause)
            elif isinstance(cause, Exception):
                raise cause from None
            else:
                raise
        except errors.OutOfMemoryError as error:
            self._out_of_memory(batch, error)
        except errors.RayError as error:
            self._lost(batch, error)
        return None

    def _lost(self, batch: _Batch, error: BaseException) -> None:
        """Run the tasks of a dead worker or node again; the last time alone, in case they ran out of memory."""
        self._count_slots()
        _log.warning("%s: lost %s: %s", self._owner, _named(batch.task_ids), first_line(error))
        max_retries = self._settings.max_retries
        for task_id in batch.task_ids:
            self._n_lost[task_id] += 1
            if self._n_lost[task_id] > max_retries:
                raise TaskLost(
                    f"{self._owner}: task {task_id} was lost {self._n_lost[task_id]} times, the last time because "
                    f"{first_line(error)}; check the nodes' logs and memory, or raise RayExecutor(max_retries=...)"
                ) from error
            if max_retries > 1 and self._n_lost[task_id] == max_retries:
                self._lonely.append(task_id)
            else:
                self._waiting.appendleft(task_id)

    def _out_of_memory(self, batch: _Batch, error: BaseException) -> None:
        _log.warning("%s: %s ran out of memory; it will run alone", self._owner, _named(batch.task_ids))
        if batch.alone:
            raise MemoryError(
                f"{self._owner}: task {batch.task_ids[0]} ran out of memory, alone on its node, too "
                f"({first_line(error)}); use nodes with more memory, a smaller object store "
                "(ray start --object-store-memory), or parameters that make smaller models"
            ) from error
        self._lonely.extend(batch.task_ids)

    def cancel(self) -> None:
        """Stop running tasks: ask first, then kill."""
        left = list(self._running)
        if not left or not self._ray.is_initialized():
            return
        for force in (False, True):
            for ref in left:
                self._ray.cancel(ref, force=force)
            _, left = self._ray.wait(left, num_returns=len(left), timeout=_STOP_SECONDS)
            if not left:
                break
        self._running.clear()


def live_nodes(ray: Any) -> list[dict[str, Any]]:
    """Return the nodes that are alive and have CPUs."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]


def _named(task_ids: Sequence[int]) -> str:
    if len(task_ids) == 1:
        return f"task {task_ids[0]}"
    return f"tasks {', '.join(map(str, task_ids[:8]))}{', …' if len(task_ids) > 8 else ''}"
