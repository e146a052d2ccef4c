"""A short run of the soak; soak_service.py runs for as many minutes as it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_abuse_kills_and_reloads_cause_documented_errors_only() -> None:
    command = [sys.executable, "-m", "tests.attacks.soak_service", "--minutes", "0.15", "--clients", "16"]
    command += ["--abusers", "1", "--kill-seconds", "3", "--reload-seconds", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["unexpected"] == {}
    assert report["answers"]["tag 200"] > 0
    assert report["done"]["killed workers"] > 0
    assert not any("Traceback" in line for line in report["log"]), report["log"]
