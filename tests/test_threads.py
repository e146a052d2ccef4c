"""How many threads a process takes: affinity, container quota and OMP_NUM_THREADS."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail import _threads


@pytest.fixture(autouse=True)
def _eight_cpus_and_no_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(_threads, "_CGROUP", tmp_path)


def test_affinity_is_the_first_limit() -> None:
    assert _threads.available_cpus() == 8


@pytest.mark.parametrize(("quota", "expected"), [("300000 100000", 3), ("250000 100000", 3), ("1000 100000", 1)])
def test_a_container_quota_lowers_it(tmp_path: Path, quota: str, expected: int) -> None:
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert _threads.available_cpus() == expected


def test_the_older_kind_of_quota_counts_too(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("200000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert _threads.available_cpus() == 2


@pytest.mark.parametrize("text", ["max 100000", "", "garbage", "100 0"])
def test_no_or_unreadable_quota_is_no_limit(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert _threads.available_cpus() == 8


@pytest.mark.parametrize(("text", "expected"), [("2", 2), ("4,2", 4), ("99", 8), ("0", 8), ("many", 8)])
def test_omp_num_threads_is_respected(monkeypatch: pytest.MonkeyPatch, text: str, expected: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert _threads.available_cpus() == expected


def test_n_jobs_none_and_minus_one_mean_all() -> None:
    assert _threads.resolve_n_jobs(None) == _threads.resolve_n_jobs(-1) == 8
    assert _threads.resolve_n_jobs(3) == 3


@pytest.mark.parametrize("n_jobs", [0, -5])
def test_a_number_of_threads_set_after_fit_is_checked(n_jobs: int) -> None:
    """Zero ended the process with a division by zero."""
    X, Y = np.eye(4, dtype=np.float32), np.eye(4, dtype=int)
    model = lt.DiSMEC().fit(X, Y)
    model.n_jobs = n_jobs
    with pytest.raises(ValueError, match="n_jobs must be None or an int >= 1 or -1"):
        model.predict_top_k(X)
