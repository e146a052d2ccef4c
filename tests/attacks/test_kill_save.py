"""A process killed while it saves leaves the old model or the new one; kill_save.py does the killing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "options",
    [("--n", "100"), ("--every-step",), ("--every-step", "--no-exchange"), ("--n", "30", "--no-exchange")],
    ids=" ".join,
)
def test_a_killed_save_leaves_the_old_model_or_the_new_one(options: tuple[str, ...]) -> None:
    # In memory where there is a place: a kill, unlike a power cut, does not care whether the disk has the bytes.
    memory = Path("/dev/shm")
    environment = {**os.environ, "TMPDIR": str(memory)} if os.access(memory, os.W_OK) else dict(os.environ)
    command = [sys.executable, "-m", "tests.attacks.kill_save", *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["old"] > 0
    if "--every-step" in options:
        assert counts["new"] > 0, "the last steps come after the new model is in place"
        assert counts["killed"] > 50
    else:
        assert counts["killed"] == int(options[1])
