"""A fit that was killed and resumed gives the same bytes as one left in peace; kill_and_resume.py does the killing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.estimators import ESTIMATORS

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> dict[str, int]:
    memory = Path("/dev/shm")
    environment = {**os.environ, "TMPDIR": str(memory)} if os.access(memory, os.W_OK) else dict(os.environ)
    command = [sys.executable, "-m", "tests.execution.kill_and_resume", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_killed_at_random_and_resumed_gives_the_same_bytes(estimator: str) -> None:
    n_kills = 100 if estimator == "Popularity" else 5
    counts = run(estimator, "--n", str(n_kills))
    assert counts["kills"] >= n_kills
    assert counts["fits"] > 0
    if estimator == "Popularity":
        assert counts["shards found"] > 0, "some kills came when part of the work was done"


def test_a_fit_killed_before_any_file_operation_and_resumed_gives_the_same_bytes() -> None:
    counts = run("Popularity", "--every-step")
    assert counts["kills"] > 30
