"""A small cluster of its own whose memory monitor stops a task that eats too much; prints how the run ended.

python -m tests.cluster.eat LOG
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import longtail as lt
from longtail.execution import Run
from tests.cluster import tasks

ROOM_BYTES = 1 << 30  # what tasks may take before the monitor steps in
MOST_BYTES = 2 << 30  # what the greedy one would take


def memory_bytes(field: str) -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def main() -> None:
    import ray

    total = memory_bytes("MemTotal")
    share = (total - memory_bytes("MemAvailable") + ROOM_BYTES) / total
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
        _node_ip_address="127.0.0.1",
        _system_config={"memory_usage_threshold": share, "memory_monitor_refresh_ms": 50},
    )
    plan = tasks.make_plan(tasks.eat_memory, Path(sys.argv[1]), odd_one=1, most_bytes=MOST_BYTES)
    try:
        Run("Squarer", 1, executor=lt.RayExecutor(group_seconds=0)).map(plan)
        print(json.dumps(["nothing", ""]))
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error)]))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
