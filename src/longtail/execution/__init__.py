"""Running the tasks of a fit: plan, executors, checkpoints."""

from longtail.execution.checkpoint import Checkpoint
from longtail.execution.executor import Executor, choose_executor
from longtail.execution.inline import InlineExecutor
from longtail.execution.on_ray import RayExecutor, TaskLost
from longtail.execution.on_threads import ThreadExecutor
from longtail.execution.plan import Array, Arrays, Params, Plan, Scalar, Shard, fingerprint
from longtail.execution.run import Run, Stopped

__all__ = [
    "Array",
    "Arrays",
    "Checkpoint",
    "Executor",
    "InlineExecutor",
    "Params",
    "Plan",
    "RayExecutor",
    "Run",
    "Scalar",
    "Shard",
    "Stopped",
    "TaskLost",
    "ThreadExecutor",
    "choose_executor",
    "fingerprint",
]
