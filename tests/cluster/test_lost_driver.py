"""A driver that is killed and started again runs only what was not finished."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import tasks
from tests.cluster.conftest import LocalCluster

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]


def finished_tasks(checkpoint: Path) -> set[int]:
    return {int(path.name.removeprefix("shard-")) for path in checkpoint.glob("shard-????????")}


def test_a_killed_driver_goes_on_where_it_was(cluster: LocalCluster, tmp_path: Path) -> None:
    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    log.mkdir()
    command = [sys.executable, "-m", "tests.cluster.drive", cluster.address, str(log), str(checkpoint)]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(finished_tasks(checkpoint)) < 3:
        assert first.poll() is None, "the driver ended by itself"
        assert time.monotonic() < until, "no task was finished"
        time.sleep(0.02)
    first.kill()
    first.wait()
    finished = finished_tasks(checkpoint)
    assert len(finished) < 10
    time.sleep(1)  # Ray stops the tasks of a driver that is gone
    runs_before = tasks.runs_of(log)
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout.splitlines()[-1]) == [i * i for i in range(10)]
    again = [task_id for task_id, _ in tasks.runs_of(log)]
    for task_id, _ in runs_before:
        again.remove(task_id)
    assert sorted(again) == sorted(set(range(10)) - finished), "finished tasks did not run again, the others once"
