"""Progress of long work: a bar for people, a callable for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Literal, TextIO

ProgressFunction = Callable[[int, int], bool | None]
Progress = Literal["bar"] | ProgressFunction | None

_SECONDS_BEFORE_BAR = 2.0
_SECONDS_BETWEEN = 0.1
_WIDTH = 28


class ProgressBar:
    """A one-line bar on stderr, shown only when the work takes over two seconds and someone can see it."""

    def __init__(self, label: str, unit: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._unit = unit
        self._stream = stream if stream is not None else sys.stderr
        self._begin = time.monotonic()
        self._last = 0.0
        self._shown = False

    def __call__(self, done: int, total: int) -> bool:
        now = time.monotonic()
        if now - self._begin < _SECONDS_BEFORE_BAR or not self._stream.isatty():
            return True
        if now - self._last < _SECONDS_BETWEEN and done < total:
            return True
        self._last = now
        self._shown = True
        share = done / total if total else 1.0
        filled = int(share * _WIDTH)
        seconds = now - self._begin
        left = f"{_duration(seconds / share - seconds)} left" if 0 < share < 1 else _duration(seconds)
        bar = "█" * filled + "·" * (_WIDTH - filled)
        self._stream.write(f"\r{self._label} {bar} {done:,}/{total:,} {self._unit}, {left} \x1b[K")
        self._stream.flush()
        return True

    def close(self) -> None:
        """Leave the cursor on a fresh line."""
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()
            self._shown = False


def _duration(seconds: float) -> str:
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
