"""How many CPUs this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """Count the CPUs this process may use: affinity, cgroup quota and ``OMP_NUM_THREADS``, whichever is least."""
    if hasattr(os, "sched_getaffinity"):
        n_cpus = len(os.sched_getaffinity(0))
    else:
        n_cpus = os.cpu_count() or 1
    limits = [n_cpus, *_cgroup_quota(_CGROUP)]
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked.isdigit() and int(asked) > 0:
        limits.append(int(asked))
    return max(1, min(limits))


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Turn an ``n_jobs`` parameter into a number of threads; None and -1 mean all that may be used."""
    if n_jobs is None or n_jobs == -1:
        return available_cpus()
    if n_jobs < 1:  # set on a fitted model, where no fit checks it
        raise ValueError(f"n_jobs must be None or an int >= 1 or -1, got {n_jobs!r}")
    return int(n_jobs)


def _cgroup_quota(root: Path) -> list[int]:
    """Read the CPU quota of a container, rounded up; empty when there is none."""
    for path, separator in ((root / "cpu.max", " "), (root / "cpu" / "cpu.cfs_quota_us", None)):
        try:
            text = path.read_text().strip()
            if separator:
                quota, period = text.split(separator)
            else:
                quota, period = text, (root / "cpu" / "cpu.cfs_period_us").read_text().strip()
            if quota not in ("max", "-1"):
                return [max(1, math.ceil(int(quota) / int(period)))]
        except (OSError, ValueError, ZeroDivisionError):
            continue
    return []
