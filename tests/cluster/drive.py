"""A driver to be killed: runs a plan on a cluster with a checkpoint and prints what came out.

python -m tests.cluster.drive ADDRESS LOG CHECKPOINT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import longtail as lt
from longtail.execution import Run
from tests.cluster import tasks


def main() -> None:
    address, log, checkpoint = sys.argv[1:]
    executor = lt.RayExecutor(address=address, group_seconds=0)
    with Run("Squarer", 1, executor=executor, checkpoint=checkpoint) as run, executor:
        shards = run.map(tasks.make_plan(tasks.square, Path(log), n_tasks=10, seconds=0.3))
    print(json.dumps(tasks.squares_of(shards)))


if __name__ == "__main__":
    main()
