"""The peers' own virtual environments: made when first needed, one for each library, so that none breaks another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# Each line is one call of pip. torch goes first, or libpecos pulls a CUDA build of several GB where there is a choice.
REQUIREMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "omikuji": (("omikuji", "numpy", "scipy"),),
    "napkinxc": (("napkinxc", "numpy", "scipy"),),
    "libpecos": (("torch==2.13.0",), ("libpecos",)),
    "scikit-learn": (("scikit-learn",),),
    "xgboost": (("xgboost", "numpy", "scipy"),),
}
_INSTALL_SECONDS = 1800


def default_folder() -> Path:
    """Return the folder for environments in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "longtail" / "peers"


@dataclass
class Environments:
    """Find or make the interpreter of a peer.

    Attributes
    ----------
    folder : Path
        Where environments are made.
    python : Path or None
        An interpreter that has all peers; then none is made.
    tell : callable
        Gets the name of an environment before it is made, which takes minutes.
    """

    folder: Path = field(default_factory=default_folder)
    python: Path | None = None
    failures: dict[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda name: None

    def interpreter(self, name: str) -> Path:
        """Return the interpreter; raises RuntimeError with the reason when its library cannot be installed."""
        if self.python is not None:
            return self.python
        if name in self.failures:
            raise RuntimeError(self.failures[name])
        place = self.folder / name
        python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not (place / ".ready").exists():
            self.tell(name)
            try:
                self._install(name, place, python)
            except (OSError, subprocess.SubprocessError) as error:
                self.failures[name] = f"{name} cannot be installed: {_reason(error)}"
                raise RuntimeError(self.failures[name]) from None
        return python

    def _install(self, name: str, place: Path, python: Path) -> None:
        _call([sys.executable, "-m", "venv", "--clear", str(place)])
        for packages in REQUIREMENTS[name]:
            _call([str(python), "-m", "pip", "install", "--quiet", *packages])
        (place / ".ready").touch()


def _call(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS)


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"pip did not finish within {_INSTALL_SECONDS} s"
    text = getattr(error, "stderr", None) or str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or [type(error).__name__])[-1].removeprefix("ERROR:").strip()
