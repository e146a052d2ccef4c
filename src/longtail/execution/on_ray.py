"""Run a fit on a Ray cluster: data once per node, lost tasks run again, same bytes as on threads. docs/scaling.md."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from longtail import _core
from longtail._rules import Int, Nothing, Real, Rule, check_value
from longtail.execution.executor import Group, GroupShape, Tick
from longtail.execution.mapped_files import find_file_part
from longtail.execution.plan import Arrays, Plan, Shard
from longtail.execution.ray_group import RayGroup
from longtail.execution.ray_tasks import RayTasks, live_nodes
from longtail.execution.ray_worker import first_line


@dataclass(kw_only=True)
class RayExecutor:
    """Run the tasks of a fit on a Ray cluster.

    Arrays go to every node once and are read there without a copy. A task whose worker or node dies runs again; a
    task that runs out of memory runs again alone on a node. The model has the same bytes as one trained locally.
    Needs ``pip install 'longtail[ray]'`` here, and the same version of longtail on every node.

    Parameters
    ----------
    address : str or None, default None
        "auto" for the cluster that this machine is part of, "host:6379" or "ray://host:10001" for another. None takes
        the cluster that this process is connected to or that $RAY_ADDRESS names, else starts one on this machine.
    n_cpus : int, default 1
        CPUs per Ray task, which runs this many tasks of the plan at a time; threads per worker of a group.
    max_retries : int, default 3
        How often a task runs again after its worker or node died.
    timeout_seconds : float, default 3600
        Longest wait for the answer of a task; after that the run fails with an error that names the task.
    node_timeout_seconds : float, default 300
        Longest wait for a node with `n_cpus` CPUs, at the start and after nodes have died.
    group_seconds : float, default 10
        Short tasks of the plan are sent several at a time, about this many seconds of work.
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
        """Put every array into the object store once; send only the path of an array on shared storage."""
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
        tasks = RayTasks(self.connect(), self, plan, shared, task_ids)
        try:
            while not tasks.is_done():
                tasks.submit_next()
                tasks.wait()
                tick()
                yield from tasks.collect()
        except BaseException:
            control.cancel()
            raise
        finally:
            tasks.cancel()

    def group_shape(self) -> GroupShape:
        """Return one worker per slot; see `GroupExecutor`."""
        return GroupShape(n_workers=max(1, self.count_slots()), n_threads=self.n_cpus, max_retries=self.max_retries)

    def start_group(
        self, owner: str, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control
    ) -> Group:
        """Start one actor per argument list; see `GroupExecutor`."""
        return RayGroup(
            self.connect(),
            owner,
            worker,
            arguments,
            control,
            n_cpus=self.n_cpus,
            timeout_seconds=self.timeout_seconds,
        )

    def _check_connection(self, ray: Any) -> None:
        if self.address is None or self.address == "auto" or "://" in self.address:
            return
        connected = ray.get_runtime_context().gcs_address
        if connected != self.address:
            raise ValueError(
                f"RayExecutor: this process is connected to {connected}, not to {self.address}; "
                "call ray.shutdown() first"
            )


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Make Ray listen on 127.0.0.1 only; by default it listens on every address.

    Ray replaces 127.0.0.1 by an external address unless this setting, which it reads once, says otherwise.
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


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError("executor 'ray' needs Ray: pip install 'longtail[ray]'") from None
    return ray
