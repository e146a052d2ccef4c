"""How much a compressed file may unpack to: a few kilobytes of gzip can hold gigabytes of zeros."""

from __future__ import annotations

import os

from longtail._rules import Int, Nothing, check_value

VARIABLE = "LONGTAIL_MAX_UNPACKED_BYTES"
# Text and sparse matrices shrink 3 to 30 times; only input made for the purpose, or nearly empty, goes beyond 100.
_MAX_RATIO = 100
# A small file may have any ratio: this much fits into memory anyway.
_ALWAYS_ALLOWED = 1 << 24


class UnpackLimit:
    """The limit of one reading: a given number of bytes, or a multiple of the compressed size."""

    def __init__(self, name: str, max_bytes: int | None) -> None:
        check_value("read", "max_unpacked_bytes", max_bytes, (Nothing(), Int(1)))
        self._name = name
        self._max_bytes = _from_environment() if max_bytes is None else max_bytes

    def allowed(self, packed_bytes: int) -> int:
        """Return how many bytes a compressed file of this size may unpack to."""
        return max(_ALWAYS_ALLOWED, _MAX_RATIO * packed_bytes) if self._max_bytes is None else self._max_bytes

    def check(self, packed_bytes: int, unpacked_bytes: int) -> None:
        """Raise ValueError when more came out, or is claimed to come out, than is allowed."""
        allowed = self.allowed(packed_bytes)
        if unpacked_bytes > allowed:
            raise ValueError(
                f"{self._name}: {packed_bytes:,} compressed bytes unpack to more than the limit of {allowed:,}; "
                f"if you trust the file, pass max_unpacked_bytes=N or set {VARIABLE}=N"
            )


def _from_environment() -> int | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{VARIABLE} must be a number of bytes >= 1, got {text!r}")
    return int(text)
