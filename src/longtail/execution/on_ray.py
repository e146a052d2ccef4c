"""Run tasks on a Ray cluster: data once a node, lost tasks again, the same bytes as on threads. docs/scaling.md."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from longtail import _core
from longtail._rules import Int, Nothing, Real, Rule, check_value
from longtail.execution import ray_worker
from longtail.execution.executor import Tick
from longtail.execution.mapped_files import find_file_part
from longtail.execution.on_threads import TICK_SECONDS
from longtail.execution.plan import Arrays, Plan, Shard

_log = logging.getLogger(__name__)
_MAX_GROUP = 64
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 2.0


class TaskLost(ConnectionError):  # noqa: N818 -- says what happened, as KeyboardInterrupt does
    """A task's worker or node died, again and again; finished shards stay in the checkpoint."""


@dataclass(kw_only=True)
class RayExecutor:
    """Run the tasks of a fit on a Ray cluster.

    Arrays go once to every node and are read there without a copy. A task whose worker or node dies runs again; one
    that runs out of memory runs again alone on a node. The model is the same, byte for byte, as one trained here.
    Needs ``pip install 'longtail[ray]'`` here, and the same longtail on every node.

    Parameters
    ----------
    address : str or None, default None
        "auto" for the cluster that this machine is part of, "host:6379" or "ray://host:10001" for another. None takes
        the cluster that this process is connected to or that $RAY_ADDRESS names, else starts one on this machine.
    n_cpus : int, default 1
        CPUs of a Ray task, which then runs so many tasks of the plan at a time.
    max_retries : int, default 3
        How often a task that was lost with its worker or node runs again.
    timeout_seconds : float, default 3600
        The longest wait for an answer of a task; then the run ends with an error that names the task.
    node_timeout_seconds : float, default 300
        The longest wait for a node with `n_cpus` CPUs, at the start and when nodes have died.
    group_seconds : float, default 10
        Tasks of the plan that are shorter are handed out several at a time, about so many seconds of work.
    shared_storage : path or None, default None
        A directory that every node sees under the same path. Arrays mapped from files below it (a CSR directory of
        ``longtail convert``) are opened there instead of being sent.
    n_local_cpus : int or None, default None
        CPUs of a cluster that is started on this machine; None means ``n_jobs`` of the estimator.

    Examples
    --------
    >>> import longtail as lt
    >>> executor = lt.RayExecutor(address="auto", max_retries=5)  # connects when a fit begins
    """

    address: str | None = None
    n_cpus: int = 1
    max_retries: int = 3
    timeout_seconds: float = 3600.0
    node_timeout_seconds: float = 300.0
    group_seconds: float = 10.0
    shared_storage: str | os.PathLike[str] | None = None
    n_local_cpus: int | None = None
    _started: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        rules: dict[str, tuple[Rule, ...]] = {
            "n_cpus": (Int(1),),
            "max_retries": (Int(0),),
            "timeout_seconds": (Real(0, above=True),),
            "node_timeout_seconds": (Real(0, above=True),),
            "group_seconds": (Real(0),),
            "n_local_cpus": (Int(1), Nothing()),
        }
        for name, rule in rules.items():
            check_value("RayExecutor", name, getattr(self, name), rule)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Any:
        """Connect to the cluster, or start one; return the module ray."""
        ray = _import_ray()
        if ray.is_initialized():
            self._check_connection(ray)
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            n_cpus = max(self.n_local_cpus or 1, self.n_cpus)
            settings |= {"num_cpus": n_cpus, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            with _loopback_only() if address == "local" else contextlib.nullcontext():
                ray.init(address=address, **settings)
        except Exception as error:  # a node that does not come up is a bare Exception
            raise ConnectionError(
                f"no Ray cluster answers at {address!r} ({first_line(error)}); start one with `ray start --head`, "
                "leave the address out to run on this machine, or, if it wants a token, set RAY_AUTH_MODE=token "
                "and RAY_AUTH_TOKEN as on its head"
            ) from error
        self._started = True
        return ray

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here; connections made by others stay."""
        if self._started:
            self._started = False
            _import_ray().shutdown()

    def count_slots(self) -> int:
        """Count how many tasks of `n_cpus` the living nodes can run at a time."""
        return sum(int(node["Resources"].get("CPU", 0)) // self.n_cpus for node in live_nodes(self.connect()))

    def share(self, arrays: Arrays) -> dict[str, Any]:
        """Put every array into the object store once; one that lies on shared storage is only named."""
        ray = self.connect()
        root = None if self.shared_storage is None else Path(self.shared_storage).resolve()
        places: dict[str, Any] = {}
        for name, array in arrays.items():
            part = None if root is None else find_file_part(array, root)
            places[name] = ray.put(np.ascontiguousarray(array)) if part is None else part
        return places

    def map(
        self, plan: Plan, shared: dict[str, Any], task_ids: Sequence[int], control: _core.Control, tick: Tick
    ) -> Iterator[tuple[int, Shard]]:
        """Yield (task_id, shard) as tasks end; see `Executor`."""
        mapping = _Mapping(self.connect(), self, plan, shared, task_ids)
        try:
            while not mapping.is_done():
                mapping.hand_out()
                mapping.wait()
                tick()
                yield from mapping.collect()
        except BaseException:
            control.cancel()
            raise
        finally:
            mapping.cancel()

    def _check_connection(self, ray: Any) -> None:
        if self.address is None or self.address == "auto" or "://" in self.address:
            return
        connected = ray.get_runtime_context().gcs_address
        if connected != self.address:
            raise ValueError(
                f"RayExecutor: this process is connected to {connected}, not to {self.address}; "
                "call ray.shutdown() first"
            )


@dataclass(frozen=True)
class _Group:
    """Tasks that were handed out together."""

    task_ids: list[int]
    since: float
    alone: bool


class _Mapping:
    """One pass over the tasks of a plan: what waits, what runs, what was lost how often."""

    def __init__(
        self, ray: Any, settings: RayExecutor, plan: Plan, places: dict[str, Any], task_ids: Sequence[int]
    ) -> None:
        self._ray = ray
        self._settings = settings
        self._owner = plan.owner
        self._waiting = deque(task_ids)
        self._lonely: deque[int] = deque()  # to be run alone on a node, when everything else is done
        self._running: dict[Any, _Group] = {}
        self._ready: list[Any] = []
        self._n_lost: Counter[int] = Counter()
        self._n_finished = 0
        self._seconds = 0.0
        self._n_slots = 0
        self._slots_seen = self._looked = time.monotonic()
        # Worker and node deaths are ours to count: what runs out of memory is run again in another way.
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

    # ---- handing out ------------------------------------------------------------------------------------------

    def hand_out(self) -> None:
        """Keep every slot busy and a few groups queued, so that no worker waits for us."""
        self._look_at_nodes()
        limit = self._n_slots + self._n_slots // 4 + 1
        while self._waiting and len(self._running) < limit:
            n_tasks = min(self._group_size(), len(self._waiting))
            self._submit([self._waiting.popleft() for _ in range(n_tasks)], {"num_cpus": self._settings.n_cpus})
        if self._lonely and not self._waiting and not self._running:
            self._submit([self._lonely.popleft()], self._whole_node(), alone=True)

    def _submit(self, task_ids: list[int], options: dict[str, Any], *, alone: bool = False) -> None:
        ref = self._remote.options(name=f"{self._owner} {_named(task_ids)}", **options).remote(self._job, task_ids)
        self._running[ref] = _Group(task_ids, time.monotonic(), alone)

    def _group_size(self) -> int:
        """Group short tasks; fewer towards the end, so that all slots end together. Bytes do not depend on it."""
        if not self._n_finished:
            return 1
        n_cpus = self._settings.n_cpus
        mean_seconds = max(self._seconds / self._n_finished, 1e-6)
        wanted = int(self._settings.group_seconds / mean_seconds)
        fair = -(-len(self._waiting) // (2 * max(1, self._n_slots)))
        return max(1, min(max(wanted, n_cpus), fair, _MAX_GROUP))

    def _whole_node(self) -> dict[str, Any]:
        """Ask for all CPUs of the node with the most memory: nothing else runs beside."""
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
        """Wait a moment for an answer; raise TimeoutError when one is overdue."""
        if not self._running:
            return
        self._ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=TICK_SECONDS)
        if self._ready:
            return
        oldest = min(self._running.values(), key=lambda group: group.since)
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
        """Yield the shards of groups that have ended; send lost ones round again."""
        while self._ready:
            ref = self._ready.pop()
            group = self._running.pop(ref)
            finished = self._answer(ref, group)
            if finished is None:
                continue
            self._n_finished += len(group.task_ids)
            self._seconds += finished.seconds * min(self._settings.n_cpus, len(group.task_ids))
            for task_id, shard in finished.shards:
                # Views would keep the answer in the object store, which is for what is on its way.
                yield task_id, {name: np.array(array) for name, array in shard.items()}

    def _answer(self, ref: Any, group: _Group) -> ray_worker.Finished | None:
        """Fetch an answer; None when there is none and the tasks will run again."""
        errors = self._ray.exceptions
        try:
            finished: ray_worker.Finished = self._ray.get(ref, timeout=self._settings.timeout_seconds)
            return finished
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, MemoryError | errors.OutOfMemoryError):
                self._out_of_memory(group, cause)
            elif isinstance(cause, errors.RayError):  # the worker could not fetch the data
                self._lost(group, cause)
            elif isinstance(cause, Exception):
                raise cause from None
            else:
                raise
        except errors.OutOfMemoryError as error:
            self._out_of_memory(group, error)
        except errors.RayError as error:
            self._lost(group, error)
        return None

    def _lost(self, group: _Group, error: BaseException) -> None:
        """Run the tasks of a dead worker or node again; the last time alone, in case they took the memory."""
        self._count_slots()
        _log.warning("%s: lost %s: %s", self._owner, _named(group.task_ids), first_line(error))
        max_retries = self._settings.max_retries
        for task_id in group.task_ids:
            self._n_lost[task_id] += 1
            if self._n_lost[task_id] > max_retries:
                raise TaskLost(
                    f"{self._owner}: task {task_id} was lost {self._n_lost[task_id]} times, the last time because "
                    f"{first_line(error)}; look into the nodes' logs and memory, or raise RayExecutor(max_retries=...)"
                ) from error
            if max_retries > 1 and self._n_lost[task_id] == max_retries:
                self._lonely.append(task_id)
            else:
                self._waiting.appendleft(task_id)

    def _out_of_memory(self, group: _Group, error: BaseException) -> None:
        _log.warning("%s: %s ran out of memory; it will run alone", self._owner, _named(group.task_ids))
        if group.alone:
            raise MemoryError(
                f"{self._owner}: task {group.task_ids[0]} ran out of memory, alone on its node, too "
                f"({first_line(error)}); use nodes with more memory, a smaller object store "
                "(ray start --object-store-memory), or parameters that make smaller models"
            ) from error
        self._lonely.extend(group.task_ids)

    def cancel(self) -> None:
        """Stop what still runs: gently, then by force."""
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


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Have Ray listen on 127.0.0.1 only, as it does where it forms no clusters; elsewhere it listens on every address.

    It replaces 127.0.0.1 by an outer address unless this setting, which it reads once, says otherwise.
    """
    from ray._private import ray_constants

    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    before, was_set = getattr(ray_constants, "ENABLE_RAY_CLUSTER", True), os.environ.get(name)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[name] = "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        if was_set is None:
            del os.environ[name]
        else:
            os.environ[name] = was_set


def live_nodes(ray: Any) -> list[dict[str, Any]]:
    """List the nodes that can run something."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError("executor 'ray' needs Ray: pip install 'longtail[ray]'") from None
    return ray


def _named(task_ids: Sequence[int]) -> str:
    if len(task_ids) == 1:
        return f"task {task_ids[0]}"
    return f"tasks {', '.join(map(str, task_ids[:8]))}{', …' if len(task_ids) > 8 else ''}"


def first_line(error: BaseException) -> str:
    """Shorten an error to a line that fits into another one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
