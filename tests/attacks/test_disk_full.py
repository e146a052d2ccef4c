"""A short run with a full disk; a longer one by hand, see disk_full.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.execution.test_disk_full import can_mount


def test_a_full_disk_is_one_line_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("this machine does not allow mounting a tmpfs")
    command = [sys.executable, "-m", "tests.attacks.disk_full", "--step", "7", "predict", "save over a model"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for counts in json.loads(done.stdout)["runs"].values():
        assert counts["full"] >= 1
        assert counts["finished"] == 1
