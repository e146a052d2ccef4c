"""Tests of the measuring functions that the benchmarks share."""

import importlib.util
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.alone
_PATH = Path(__file__).resolve().parent.parent / "benchmarks" / "measure.py"


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("measure", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure"] = module  # a spawned process imports it by this name
    sys.path.insert(0, str(_PATH.parent))
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(_PATH.parent))
    del sys.modules["measure"]


def allocate_64_megabytes(setup_result=None):
    return np.ones(8 << 20).sum()


def allocate_and_free_256_megabytes():
    np.ones(32 << 20).sum()
    return "data"


def fail():
    raise SystemExit(3)


def test_measure_tells_wall_time_from_cpu_time(measure):
    slept = measure.measure(lambda: time.sleep(0.05), repeats=3)
    assert slept["repeats"] == 3
    assert 0.05 <= slept["wall_seconds_min"] <= slept["wall_seconds"] <= slept["wall_seconds_max"]
    assert slept["cpu_seconds"] < slept["wall_seconds_min"]


def test_measure_calls_warm_ups_before_the_timed_calls(measure):
    calls = []
    measure.measure(lambda: calls.append(1), repeats=2, warm_ups=1)
    assert len(calls) == 3
    with pytest.raises(ValueError, match="repeats must be an int >= 1, got 0"):
        measure.measure(lambda: None, repeats=0)


def test_peak_memory_sees_what_the_function_allocates(measure):
    memory = measure.peak_memory(allocate_64_megabytes)
    assert 64e6 < memory["peak_growth_bytes"] < 80e6
    assert memory["peak_bytes"] > memory["peak_growth_bytes"]


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux to forget an earlier peak")
def test_peak_memory_leaves_out_the_set_up(measure):
    memory = measure.peak_memory(allocate_64_megabytes, setup=allocate_and_free_256_megabytes)
    assert memory["peak_growth_bytes"] < 80e6


def test_peak_memory_reports_a_process_that_died(measure):
    with pytest.raises(RuntimeError, match="the process ended with exit code 3"):
        measure.peak_memory(fail)


def test_emit_prints_one_json_line_and_appends_it_to_the_results(measure, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "RESULTS", tmp_path / "results")
    measure.emit({"question": "test"}, save="test")
    measure.emit({"question": "test"}, save="test")
    measure.emit({"question": "test"})
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == 3
    assert {"cpu", "cores", "isa", "python", "commit"} <= set(printed[0]["machine"])
    assert len((tmp_path / "results" / "test.jsonl").read_text().splitlines()) == 2
