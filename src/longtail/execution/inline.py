"""Run tasks one after the other in the calling thread: for debugging."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from longtail import _core
from longtail.execution.executor import Group, GroupShape, Tick
from longtail.execution.groups import LocalGroup
from longtail.execution.plan import Arrays, Plan, Shard


class InlineExecutor:
    """Runs tasks one after the other in the calling thread, so that a debugger or profiler sees them."""

    def share(self, arrays: Arrays) -> Arrays:
        return arrays

    def map(
        self, plan: Plan, shared: Arrays, task_ids: Sequence[int], control: _core.Control, tick: Tick
    ) -> Iterator[tuple[int, Shard]]:
        for task_id in task_ids:
            tick()
            yield task_id, plan.task(shared, plan.params, task_id, control)

    def group_shape(self) -> GroupShape:
        return GroupShape()

    def start_group(
        self, owner: str, worker: Callable[..., Any], arguments: Sequence[Sequence[Any]], control: _core.Control
    ) -> Group:
        return LocalGroup(worker, arguments, control)
