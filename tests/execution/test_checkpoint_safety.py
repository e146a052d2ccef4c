"""A checkpoint has one owner at a time, its files are never rewritten, and models do not depend on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from tests.contract.estimators import ESTIMATORS
from tests.execution import fit_and_wait

ROOT = Path(__file__).parents[2]


def test_a_second_run_in_the_same_process_is_refused(tmp_path: Path) -> None:
    X, Y = fit_and_wait.make_data()
    started, go_on = threading.Event(), threading.Event()
    models: list[lt.DiSMEC] = []

    def wait(done: int, total: int) -> None:
        started.set()
        go_on.wait()

    def fit() -> None:
        models.append(lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run", progress=wait))

    first = threading.Thread(target=fit)
    first.start()
    try:
        assert started.wait(30)
        with pytest.raises(OSError, match=f"run is in use by process {os.getpid()}; wait until that run has ended or"):
            lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
    finally:
        go_on.set()
        first.join()
    again = lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(models[0].index_weights_, again.index_weights_)


@contextmanager
def waiting_process(checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of a fit; it goes on when its stdin is closed."""
    command = [sys.executable, "-m", "tests.execution.fit_and_wait", str(checkpoint)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
        if process.poll() is None:
            process.kill()


def test_a_run_in_another_process_is_refused_and_a_killed_one_gives_up_its_lock(tmp_path: Path) -> None:
    X, Y = fit_and_wait.make_data()
    with waiting_process(tmp_path / "run") as other:
        with pytest.raises(OSError, match=f"DiSMEC: checkpoint .*run is in use by process {other.pid}; "):
            lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
        other.send_signal(signal.SIGKILL)
        other.wait()
        resumed = lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.index_weights_, lt.DiSMEC(n_jobs=1).fit(X, Y).index_weights_)


def test_a_second_command_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    X, Y = fit_and_wait.make_data()
    lt.datasets.write_csr_directory(tmp_path / "data", X, Y)
    with waiting_process(tmp_path / "run") as other:
        command = ["train", "data", "-o", "model", "--checkpoint", "run"]
        done = subprocess.run(
            [sys.executable, "-m", "longtail", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("longtail: ")
    assert f"checkpoint run is in use by process {other.pid}; wait" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "model").exists()


def test_a_later_run_leaves_the_first_model_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = fit_and_wait.make_data()
    first = lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
    expected = first.predict_top_k(X)

    def fail(*_: Any) -> None:
        raise MemoryError("in the middle of the merge")

    with monkeypatch.context() as patch:
        patch.setattr("longtail._core.place_weights", fail)
        with pytest.raises(MemoryError):
            lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")
    for _ in range(2):
        found = first.predict_top_k(X)
        np.testing.assert_array_equal(found.label_ids, expected.label_ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
        lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")


def test_a_checkpoint_deleted_during_a_run_is_an_error(tmp_path: Path) -> None:
    X, Y = fit_and_wait.make_data()

    def delete(done: int, total: int) -> None:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(FileNotFoundError, match="run was deleted or replaced while this run was using it; start again"):
        lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run", progress=delete)


@pytest.mark.parametrize("part", [0, 1])  # one process start for many estimators
def test_a_model_survives_any_change_to_its_checkpoint(part: int, tmp_path: Path) -> None:
    names = list(ESTIMATORS)[part::2]
    command = [sys.executable, "-m", "tests.execution.truncate_checkpoint", str(tmp_path), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["estimator"] for answer in answers] == names
    for answer in answers:
        assert answer["n_truncated"] > 0, answer
        assert answer["same"], answer


def test_the_lock_names_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = fit_and_wait.make_data()
    with waiting_process(tmp_path / "run") as other:
        monkeypatch.setattr("longtail._os.host_name", lambda: "elsewhere")
        with pytest.raises(OSError, match=f"by process {other.pid} on {os.uname().nodename}; "):
            lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "run")


def test_a_file_system_without_locks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> bool:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("longtail._os.try_lock", refuse)
    monkeypatch.setattr("longtail._os.unlock", refuse)
    lt.Popularity().fit(*fit_and_wait.make_data(), checkpoint=tmp_path / "run")
    assert "cannot be locked (No locks available); make sure that only one run uses it at a time" in caplog.text
