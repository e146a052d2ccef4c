"""Checksums of mapped files: compared at once, or by a thread while the arrays are already in use."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any

# Files up to this size are compared when they are read: 4 ms, while a thread takes a tenth of that to start.
AT_ONCE_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 22


class DamagedFileError(ValueError):
    """The bytes of a file are not those that were written: their checksum differs from the manifest's.

    Examples
    --------
    >>> import longtail as lt, numpy as np, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "m.model")
    >>> lt.save(lt.Popularity().fit(np.ones((2, 1)), np.array([[1, 0], [1, 1]])), path)
    >>> data = bytearray((path / "shares_.npy").read_bytes())
    >>> data[-1] ^= 1
    >>> _ = (path / "shares_.npy").write_bytes(data)
    >>> try:
    ...     lt.load(path)
    ... except lt.DamagedFileError:
    ...     print("damaged")
    damaged
    """


def check_sha256(owner: str, content: memoryview | bytes, expected: str) -> None:
    """Raise DamagedFileError unless the SHA-256 of ``content`` is the expected one."""
    damage = _difference(owner, hashlib.sha256(content).hexdigest(), expected)
    if damage is not None:
        raise DamagedFileError(damage)


def _difference(owner: str, found: str, expected: str) -> str | None:
    if found == expected:
        return None
    return (
        f"{owner}: has changed: SHA-256 must be {expected}, got {found}; restore the file from a copy, or train again"
    )


@dataclass
class _Work:
    """What the thread does. It has no reference to the Verification, so that it ends when nobody waits for it."""

    files: list[tuple[str, memoryview, str]] = field(default_factory=list)
    is_abandoned: bool = False
    damage: str | None = None

    def run(self) -> None:
        for owner, content, expected in self.files:
            digest = hashlib.sha256()
            for first in range(0, len(content), _CHUNK_BYTES):
                if self.is_abandoned:
                    return
                digest.update(content[first : first + _CHUNK_BYTES])
            self.damage = _difference(owner, digest.hexdigest(), expected)
            if self.damage is not None:
                _warn(self.damage)
                return
        self.files.clear()  # the arrays alone keep the maps from here on

    def abandon(self) -> None:
        self.is_abandoned = True


class Verification:
    """Compare the checksums of large files in the background.

    A model keeps the one that it was loaded with and calls `check` before each prediction, so that it refuses to go
    on once a file is found damaged. The thread keeps Python from exiting before it is done, unless nothing refers to
    the model any more: a short script must report damage too.
    """

    def __init__(self) -> None:
        self._work = _Work()
        self._thread: threading.Thread | None = None
        self._process_id = os.getpid()

    def add(self, owner: str, content: memoryview, sha256: str) -> None:
        """Add a file, before `start`."""
        self._work.files.append((owner, content, sha256))

    def start(self) -> None:
        """Begin to compare; does nothing when there are no files."""
        if not self._work.files:
            return
        self._process_id = os.getpid()
        weakref.finalize(self, self._work.abandon).atexit = False
        self._thread = threading.Thread(target=self._work.run, name="longtail verification")
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: limits of a container
            self._thread = None
            self._work.run()

    def check(self) -> None:
        """Raise DamagedFileError if a file was found damaged so far."""
        if self._thread is not None and self._process_id != os.getpid():
            self._restart()
        if self._work.damage is not None:
            raise DamagedFileError(self._work.damage)

    def wait(self) -> None:
        """Wait until all files are compared, then `check`."""
        self.check()
        if self._thread is not None:
            self._thread.join()
            self.check()

    def _restart(self) -> None:
        """Begin again in a forked process, to which no thread came along."""
        self._work = _Work(self._work.files, damage=self._work.damage)
        self._thread = None
        if self._work.damage is None:
            self.start()

    def __reduce__(self) -> tuple[Any, ...]:
        # Arrays are copied along with this object, and a copy is not verified again.
        self.wait()
        return Verification, ()


def _warn(damage: str) -> None:
    with contextlib.suppress(RuntimeWarning):  # where warnings are errors, `check` raises this one
        warnings.warn(f"{damage}; predictions made so far may be wrong", RuntimeWarning, stacklevel=2)
