"""A driver on the first of two nodes that have networks of their own; prints where tasks ran and what came out.

python -m tests.cluster.drive_network ADDRESS
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

import longtail as lt
from longtail import _core
from longtail.execution import Arrays, Params, Plan, Run, Shard
from tests.cluster import tasks

N_BYTES = 8 << 20


def find_network(arrays: Arrays, params: Params, task_id: int, control: _core.Control) -> Shard:
    """Read all of the shared array, and say in which network that was."""
    total = int(arrays["numbers"].sum())
    tasks.wait(params, control)
    return {"found": np.array([Path("/proc/self/ns/net").stat().st_ino, total], dtype=np.int64)}


def main() -> None:
    numbers = np.arange(N_BYTES // 8, dtype=np.int64)
    plan = Plan(
        owner="Finder",
        unit="tasks",
        task=find_network,
        arrays={"numbers": numbers},
        params={"seconds": 0.3},
        n_tasks=8,
    )
    with lt.RayExecutor(address=sys.argv[1], group_seconds=0, timeout_seconds=60) as executor:
        until = time.monotonic() + 60
        while executor.count_slots() < 2:
            assert time.monotonic() < until, "the second node does not come"
            time.sleep(0.1)
        found = [shard["found"].tolist() for shard in Run("Finder", 1, executor=executor).map(plan)]
        data = lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=100, labels_per_row=3)
        there = lt.FastXML(n_trees=6).fit(data.X, data.Y, executor=executor)
    here = lt.FastXML(n_trees=6).fit(data.X, data.Y)
    prints = [
        hashlib.sha256(b"".join(getattr(m, part).tobytes() for part in m._fitted_arrays())).hexdigest()
        for m in (here, there)
    ]
    right = all(total == int(numbers.sum()) for _, total in found)
    print(json.dumps({"networks": sorted({network for network, _ in found}), "right": right, "prints": prints}))


if __name__ == "__main__":
    main()
