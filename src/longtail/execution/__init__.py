"""Running a fit: tasks, steps and groups of workers on executors, with checkpoints, progress and cancellation."""

from longtail.execution.checkpoint import Checkpoint, CheckpointInUse
from longtail.execution.executor import (
    Executor,
    Group,
    GroupExecutor,
    GroupShape,
    TaskLost,
    WorkerLost,
    choose_executor,
)
from longtail.execution.groups import LocalGroup, Workers
from longtail.execution.inline import InlineExecutor
from longtail.execution.on_ray import RayExecutor
from longtail.execution.on_threads import ThreadExecutor
from longtail.execution.plan import Array, Arrays, Params, Plan, Scalar, Shard, Stepper, StepPlan
from longtail.execution.run import Run, Stopped
from longtail.execution.scratch import empty_array

__all__ = [
    "Array",
    "Arrays",
    "Checkpoint",
    "CheckpointInUse",
    "Executor",
    "Group",
    "GroupExecutor",
    "GroupShape",
    "InlineExecutor",
    "LocalGroup",
    "Params",
    "Plan",
    "RayExecutor",
    "Run",
    "Scalar",
    "Shard",
    "StepPlan",
    "Stepper",
    "Stopped",
    "TaskLost",
    "ThreadExecutor",
    "WorkerLost",
    "Workers",
    "choose_executor",
    "empty_array",
]
