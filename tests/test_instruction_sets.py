"""Every build of the native core answers alike, and the choice between them is the user's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from longtail import _core
from longtail._cpu import best_isa

ISAS = ("baseline", "avx2", "avx512")
PROGRAM = """
import json, numpy as np, longtail as lt
from longtail import _core
label_ids = np.argsort(np.random.default_rng(0).random((50, 20)), axis=1).astype(np.int32)[:, :5]
Y = np.random.default_rng(1).random((50, 20)) < 0.2
result = lt.metrics.evaluate(label_ids, Y, propensity=np.linspace(0.1, 1, 20)).to_dict()
print(json.dumps({"isa": _core.isa, "result": result}))
"""


def run(isa: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LONGTAIL_ISA": isa}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.parametrize("isa", ISAS[: ISAS.index(best_isa()) + 1])
def test_every_build_that_this_cpu_runs_gives_the_same_measures(isa: str) -> None:
    if importlib.util.find_spec(f"longtail._core_{isa}") is None:
        pytest.skip(f"the {isa} build was left out (make build ISAS=OFF)")
    asked = json.loads(run(isa).stdout)
    default = json.loads(run(_core.isa).stdout)
    assert asked["isa"] == isa
    assert numbers(asked["result"]) == pytest.approx(numbers(default["result"]), rel=1e-5)


def test_an_unknown_instruction_set_is_refused_by_name() -> None:
    done = run("avx9000")
    assert done.returncode != 0
    assert "LONGTAIL_ISA must be one that this CPU runs" in done.stderr
    assert "'avx9000'" in done.stderr
