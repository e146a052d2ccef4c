"""Ray's own memory monitor stops a task: it runs again alone, then the run ends with its name and a way out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import eat, tasks

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]


def test_a_task_that_fills_the_memory_is_run_alone_then_named(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="pip install 'longtail[ray]'")
    if eat.memory_bytes("MemAvailable") < eat.MOST_BYTES * 3 // 2:
        pytest.skip(f"needs {eat.MOST_BYTES * 3 >> 31} GiB of free memory")
    command = [sys.executable, "-m", "tests.cluster.eat", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    kind, message = json.loads(done.stdout.splitlines()[-1])
    assert kind == "MemoryError", message
    assert "Squarer: task 1 ran out of memory, alone on its node, too" in message
    assert "use nodes with more memory" in message
    # Once beside the other tasks, once alone; the monitor may stop one of the two before the task itself begins.
    assert [task_id for task_id, _ in tasks.runs_of(tmp_path)].count(1) in (1, 2)
