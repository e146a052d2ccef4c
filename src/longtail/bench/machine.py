"""Where and with what a number was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


def describe_machine() -> dict[str, Any]:
    """Describe the processor, the Python and the state of the source."""
    from longtail import _core
    from longtail._threads import available_cpus
    from longtail._version import __version__

    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "available_cpus": available_cpus(),
        "isa": _core.isa,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "longtail": __version__,
        "commit": _commit(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Name the commit, with "+" when files that git knows were changed since; "unknown" for an installed wheel."""
    try:
        _git("ls-files", "--error-unmatch", str(Path(__file__).resolve()))  # else it is someone else's repository
        commit = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(_HERE), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()
