"""Two trainers on one checkpoint, killed at random: no model is ever wrong; kill_checkpoint.py does the killing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("estimator", ["DiSMEC", "GBDTSparse", "LEML"])
def test_two_killed_trainers_never_save_a_wrong_model(estimator: str) -> None:
    memory = Path("/dev/shm")
    environment = {**os.environ, "TMPDIR": str(memory)} if os.access(memory, os.W_OK) else dict(os.environ)
    command = [sys.executable, "-m", "tests.attacks.kill_checkpoint", "--n", "10", "--estimator", estimator]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout)
    assert counts["killed"] >= 10
    assert counts.get("finished", 0) + counts.get("refused", 0) > 0
