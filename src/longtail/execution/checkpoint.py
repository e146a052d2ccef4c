"""Resumable runs: each finished task or step is an immutable directory of arrays in the checkpoint."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import Self

from longtail import _os
from longtail._array_files import read_arrays, write_arrays
from longtail.execution.plan import Shard

_log = logging.getLogger(__name__)
_PLAN_FILE = "plan.json"
_LOCK_FILE = "longtail.lock"
_MAX_PLAN_BYTES = 1 << 20
# Wide enough for a process id and a host name, so that the owner is overwritten in place.
_OWNER_BYTES = 128


class CheckpointInUse(OSError):  # noqa: N818 -- a state, not a fault
    """Another run is using the checkpoint."""


class Checkpoint:
    """A directory of finished shards that belongs to one plan: same data, parameters, seed and instruction set.

    Only one run at a time uses it; the lock ends with the process. A shard is written beside its place, synced and
    renamed, and is never written again, so arrays mapped from it stay valid. Close it, or use it as a context manager.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str, fingerprint: dict[str, str]) -> None:
        self._path = Path(path)
        self._owner = owner
        if self._path.exists() and not self._path.is_dir():
            raise NotADirectoryError(f"{owner}: checkpoint must be a directory, got the file {self._path}")
        self._path.mkdir(parents=True, exist_ok=True)
        self._check_not_foreign()
        self._lock = _os.open_lock_file(self._path / _LOCK_FILE)
        try:
            self._take_lock()
            self._claim(fingerprint)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock; arrays that were loaded stay valid."""
        if self._lock < 0:
            return
        try:
            _os.unlock(self._lock)
        except OSError:  # a file system without locks
            pass
        finally:
            os.close(self._lock)
            self._lock = -1

    def load(self, shard_id: int) -> Shard | None:
        """Return a finished shard, mapped, or None if it must be computed (again)."""
        path = self._shard_path(shard_id)
        if not path.exists():
            return None
        try:
            _, arrays = read_arrays(path, None, verify=True)
        except ValueError as error:
            _log.warning("%s is damaged and will be computed again: %s", path, error)
            return None
        return arrays

    def store(self, shard_id: int, shard: Shard) -> Shard:
        """Write a shard; return it mapped, so that memory does not grow with the number of finished shards."""
        self._check_still_there()
        path = self._shard_path(shard_id)
        write_arrays(path, shard, {"task_id": shard_id}, overwrite=True)
        _, arrays = read_arrays(path, None)
        return arrays

    def shard_ids(self) -> list[int]:
        """Return the ids of the finished shards, in increasing order."""
        return sorted(int(path.name.removeprefix("shard-")) for path in self._path.glob("shard-[0-9]*"))

    def drop(self, shard_id: int) -> None:
        """Delete a shard that a later one replaces; arrays mapped from it stay valid."""
        shutil.rmtree(self._shard_path(shard_id), ignore_errors=True)

    def _shard_path(self, shard_id: int) -> Path:
        return self._path / f"shard-{shard_id:08d}"

    # ---- one owner at a time ----------------------------------------------------------------------------------

    def _take_lock(self) -> None:
        try:
            is_ours = _os.try_lock(self._lock)
        except OSError as error:
            _log.warning(
                "%s: checkpoint %s cannot be locked (%s); make sure that only one run uses it at a time",
                self._owner,
                self._path,
                error.strerror,
            )
            return
        if not is_ours:
            raise CheckpointInUse(
                f"{self._owner}: checkpoint {self._path} is in use by {self._read_owner()}; "
                "wait until that run has ended or choose another directory"
            )
        owner = f"{os.getpid()} {_os.host_name()}"
        os.lseek(self._lock, 0, os.SEEK_SET)
        os.write(self._lock, owner.encode()[:_OWNER_BYTES].ljust(_OWNER_BYTES))

    def _read_owner(self) -> str:
        os.lseek(self._lock, 0, os.SEEK_SET)
        words = os.read(self._lock, _OWNER_BYTES).decode(errors="replace").split()
        if len(words) != 2 or not words[0].isdecimal():
            return "another process"
        where = "" if words[1] == _os.host_name() else f" on {words[1]}"
        return f"process {words[0]}{where}"

    def _check_still_there(self) -> None:
        """Refuse to write into a directory that was deleted or replaced, and so may have another owner by now."""
        try:
            if os.path.samestat(os.fstat(self._lock), (self._path / _LOCK_FILE).stat()):
                return
        except FileNotFoundError:
            pass
        raise FileNotFoundError(
            f"{self._owner}: checkpoint {self._path} was deleted or replaced while this run was using it; start again"
        )

    # ---- one plan ---------------------------------------------------------------------------------------------

    def _check_not_foreign(self) -> None:
        """Refuse a directory with other files in it, before anything is written there."""
        names = {entry.name for entry in self._path.iterdir()}
        # A kill before plan.json is in place leaves the lock and perhaps a *.tmp file.
        if _PLAN_FILE not in names and any(name != _LOCK_FILE and not name.endswith(".tmp") for name in names):
            raise ValueError(
                f"{self._owner}: checkpoint {self._path} is neither empty nor a checkpoint; choose another directory"
            )

    def _claim(self, fingerprint: dict[str, str]) -> None:
        """Write the plan's fingerprint on the first run; refuse the checkpoint of another plan."""
        plan_path = self._path / _PLAN_FILE
        if not plan_path.exists():
            self._check_not_foreign()
            beside = self._path / f"{_PLAN_FILE}.{os.getpid()}.tmp"
            with beside.open("w") as file:
                file.write(json.dumps(fingerprint))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(plan_path)
            return
        if plan_path.stat().st_size > _MAX_PLAN_BYTES:
            raise ValueError(
                f"{self._owner}: {plan_path} is larger than {_MAX_PLAN_BYTES} bytes, so it is not a checkpoint's plan"
            )
        try:
            found = json.loads(plan_path.read_text())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self._owner}: {plan_path} is not JSON ({error}); choose another directory") from None
        if not isinstance(found, dict):
            raise ValueError(f"{self._owner}: {plan_path} is not a checkpoint's plan; choose another directory")
        differing = [part for part, value in fingerprint.items() if found.get(part) != value]
        if differing:
            raise ValueError(
                f"{self._owner}: checkpoint {self._path} belongs to a run with other {' and '.join(differing)}; "
                "choose another directory or delete this one"
            )
