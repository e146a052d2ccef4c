"""A fit that was killed and resumed gives the same bytes as one left in peace; kill_and_resume.py does the killing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.estimators import ESTIMATORS

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> list[dict[str, Any]]:
    memory = Path("/dev/shm")
    environment = {**os.environ, "TMPDIR": str(memory)} if os.access(memory, os.W_OK) else dict(os.environ)
    command = [sys.executable, "-m", "tests.execution.kill_and_resume", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("part", [0, 1])  # one process start for many estimators
def test_a_fit_killed_at_random_and_resumed_gives_the_same_bytes(part: int) -> None:
    names = [name for name in ESTIMATORS if name != "Popularity"][part::2]
    answers = run(*names, "--n", "5")
    assert [counts["estimator"] for counts in answers] == names
    for counts in answers:
        assert counts["kills"] >= 5, counts
        assert counts["fits"] > 0, counts


def test_a_fit_of_many_tasks_killed_at_random_and_resumed_gives_the_same_bytes() -> None:
    [counts] = run("Popularity", "--n", "100")
    assert counts["kills"] >= 100
    assert counts["fits"] > 0
    assert counts["shards found"] > 0, "some kills came when part of the work was done"


def test_a_fit_killed_before_any_file_operation_and_resumed_gives_the_same_bytes() -> None:
    [counts] = run("Popularity", "--every-step")
    assert counts["kills"] > 30
