"""Short runs of the attacks with well-formed models; longer ones by hand, see fuzz_model.py and small_models.py."""

from __future__ import annotations

import subprocess
import sys

from tests.attacks.fuzz_model import fuzz


def test_changed_values_are_refused_or_harmless() -> None:
    counts = fuzz(400, seed=1)
    assert counts["refused"] > 100
    assert counts["used"] > 50, "mutations that are always refused test nothing"


def test_a_small_model_gets_little_memory_whatever_it_claims() -> None:
    command = [sys.executable, "-m", "tests.attacks.small_models"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
