"""Virtual environments of the peers: one per library, created when first needed, so that none breaks another.

``PEERS_PYTHON`` names an interpreter that already has all of them; ``PEERS_FOLDER`` says where environments are
created (default: .venv-peers in this repository).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Each inner tuple is one pip call. torch comes first: libpecos would otherwise pull a CUDA build of several GB.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "omikuji": (("omikuji", "numpy", "scipy"),),
    "napkinxc": (("napkinxc", "numpy", "scipy"),),
    "libpecos": (("torch==2.13.0",), ("libpecos",)),
    "scikit-learn": (("scikit-learn",),),
    "xgboost": (("xgboost", "numpy", "scipy"),),
}
_INSTALL_SECONDS = 1800
_failures: dict[str, str] = {}


def interpreter(name: str) -> Path:
    """Return the interpreter of a library's environment; RuntimeError gives the reason if it cannot be installed."""
    if given := os.environ.get("PEERS_PYTHON"):
        return Path(given).absolute()
    folder = os.environ.get("PEERS_FOLDER") or Path(__file__).resolve().parents[2] / ".venv-peers"
    place = Path(folder).absolute() / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if name not in _failures and not (place / ".ready").exists():
        print(f"creating an environment with {name} … ", end="", flush=True, file=sys.stderr)
        try:
            _call(sys.executable, "-m", "venv", "--clear", place)
            for packages in REQUIREMENTS[name]:
                _call(python, "-m", "pip", "install", "--quiet", *packages)
            (place / ".ready").touch()
        except (OSError, subprocess.SubprocessError) as error:
            _failures[name] = f"{name} cannot be installed: {_reason(error)}"
    if name in _failures:
        raise RuntimeError(_failures[name])
    return python


def _call(*command: object) -> None:
    subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"pip did not finish within {_INSTALL_SECONDS} s"
    text = getattr(error, "stderr", None) or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [type(error).__name__])[-1].removeprefix("ERROR:").strip()
