"""Tests of the adapters and environments of other libraries in benchmarks/peers; none of them is installed."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
import scipy.sparse as sp

from longtail import bench
from longtail.bench import worker
from longtail.bench.systems import OURS
from tests.cli.test_commands import longtail

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
MATRIX = """
[data.small]
synthetic = { n_rows = 50, n_features = 20, n_labels = 5 }
[[runs]]
data = ["small"]
systems = ["parabel"]
"""


@pytest.mark.parametrize(("name", "reason"), [("KILL", "when memory runs out"), ("SEGV", "ended by SIGSEGV")])
def test_a_killed_peer_is_shown_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nkill -{name} $$\n")
    python.chmod(0o755)
    matrix, results = tmp_path / "matrix.toml", tmp_path / "results.jsonl"
    matrix.write_text(MATRIX)
    monkeypatch.setenv("PEERS_PYTHON", str(python))
    longtail("bench", matrix, "--results", results, "--peers", PEERS)
    assert reason in bench.read_results(results)[0]["failed"]


def test_omikuji_gets_a_zero_for_a_row_without_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "omikuji", ModuleType("omikuji"))
    X, Y = sp.csr_matrix([[0, 0], [0, 2.5]]), sp.csr_matrix([[0, 0], [1, 1]])
    system = worker.find_adapter("parabel", str(PEERS / "adapters.py"))(1, tmp_path, {})
    system.prepare(X, Y)
    assert (tmp_path / "omikuji.txt").read_text() == "2 2 2\n 0:0\n0,1 1:2.5\n"


def test_an_environment_that_cannot_be_made_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PEERS_FOLDER", str(tmp_path))
    peers = bench.load_peers(PEERS)
    find = peers["parabel"].interpreter
    assert isinstance(find, functools.partial)
    monkeypatch.setitem(find.func.__globals__["REQUIREMENTS"], "omikuji", (("./no-such-package",),))
    cells = bench.make_matrix(bench.Data("s", synthetic={"n_rows": 20}), ["parabel", "bonsai"], peers=peers)
    bench.run_matrix(cells, tmp_path / "r.jsonl")
    for record in bench.read_results(tmp_path / "r.jsonl"):
        assert record["failed"].startswith("omikuji cannot be installed: ")
    assert capsys.readouterr().err == "creating an environment with omikuji … "


def test_a_peer_without_its_library_is_shown_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERS_PYTHON", sys.executable)
    data = bench.Data("small", synthetic={"n_rows": 50, "n_features": 20, "n_labels": 5})
    bench.run_matrix(bench.make_matrix(data, ["parabel"], peers=bench.load_peers(PEERS)), tmp_path / "r.jsonl")
    (record,) = bench.read_results(tmp_path / "r.jsonl")
    assert "No module named 'omikuji'" in record["failed"]
    assert not record["ours"]


def test_a_matrix_may_set_parameters_of_a_peer(tmp_path: Path) -> None:
    table = '[systems.single]\npeer = "parabel"\nparams = { n_trees = 1 }\n'
    (tmp_path / "matrix.toml").write_text(MATRIX.replace('"parabel"', '"single"') + table)
    (cell,) = bench.read_matrix(tmp_path / "matrix.toml", bench.load_peers(PEERS))
    assert (cell.system.adapter, cell.system.params, cell.system.title) == ("parabel", {"n_trees": 1}, "single")


def test_everything_runs_once_before_anything_runs_twice() -> None:
    peers = bench.load_peers(PEERS)
    cells = bench.read_matrix(PEERS.parent / "matrix.toml", peers)
    repetitions = [cell.repetition for cell in cells]
    assert repetitions == sorted(repetitions)
    assert cells[0].data.name == "EURLex-4K"
    assert len({cell.key() for cell in cells}) == len(cells)
    named = {cell.system.name for cell in cells}
    assert named == set(OURS) | set(peers)
    page = (PEERS.parent.parent / "docs" / "bench.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in peers)


def test_a_bench_that_is_ended_ends_its_worker(tmp_path: Path) -> None:
    path, started, python = tmp_path / "matrix.toml", tmp_path / "started", tmp_path / "python"
    path.write_text(MATRIX)
    python.write_text(f"#!/bin/sh\necho $$ > {started}.part && mv {started}.part {started}\nexec sleep 600\n")
    python.chmod(0o755)
    command = [sys.executable, "-m", "longtail", "bench", str(path), "--peers", str(PEERS)]
    environment = os.environ | {"PEERS_PYTHON": str(python)}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 60
        while not started.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read().endswith(b"longtail: stopped; run the same command again to continue\n")
        assert process.wait(60) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
