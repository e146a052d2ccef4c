"""Resumable runs: every finished task is an atomic shard in the checkpoint directory."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from longtail._array_files import read_arrays, write_arrays
from longtail.execution.plan import Shard

_log = logging.getLogger(__name__)
_PLAN_FILE = "plan.json"
_MAX_PLAN_BYTES = 1 << 20


class Checkpoint:
    """A directory of finished shards that belongs to one plan: same data, parameters, seed and instruction set."""

    def __init__(self, path: str | os.PathLike[str], owner: str, fingerprint: dict[str, str]) -> None:
        self._path = Path(path)
        if self._path.exists() and not self._path.is_dir():
            raise NotADirectoryError(f"{owner}: checkpoint must be a directory, got the file {self._path}")
        self._path.mkdir(parents=True, exist_ok=True)
        self._claim(owner, fingerprint)

    def load(self, task_id: int) -> Shard | None:
        """Return a finished shard, mapped, or None when the task must run (again)."""
        shard_path = self._shard_path(task_id)
        if not shard_path.exists():
            return None
        try:
            _, arrays = read_arrays(shard_path, None, verify=True)
        except ValueError as error:
            _log.warning("%s is damaged and will be computed again: %s", shard_path, error)
            return None
        return arrays

    def store(self, task_id: int, shard: Shard) -> Shard:
        """Write a shard beside and rename it; return it mapped, so that memory does not grow with finished tasks."""
        shard_path = self._shard_path(task_id)
        write_arrays(shard_path, shard, {"task_id": task_id}, overwrite=True)
        _, arrays = read_arrays(shard_path, None)
        return arrays

    def _shard_path(self, task_id: int) -> Path:
        return self._path / f"shard-{task_id:08d}"

    def _claim(self, owner: str, fingerprint: dict[str, str]) -> None:
        """Write the plan's fingerprint on the first run; refuse a directory of another plan."""
        plan_path = self._path / _PLAN_FILE
        if not plan_path.exists():
            # A kill between mkdir and the first rename may leave a *.tmp file; anything else is somebody's data.
            if any(not entry.name.endswith(".tmp") for entry in self._path.iterdir()):
                raise ValueError(
                    f"{owner}: checkpoint {self._path} is neither empty nor a checkpoint; choose another directory"
                )
            beside = self._path / f"{_PLAN_FILE}.{os.getpid()}.tmp"
            beside.write_text(json.dumps(fingerprint))
            beside.replace(plan_path)
            return
        if plan_path.stat().st_size > _MAX_PLAN_BYTES:
            raise ValueError(f"{owner}: {plan_path} is larger than {_MAX_PLAN_BYTES} bytes; it is not a checkpoint's")
        try:
            found = json.loads(plan_path.read_text())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{owner}: {plan_path} is not JSON ({error}); choose another directory") from None
        if not isinstance(found, dict):
            raise ValueError(f"{owner}: {plan_path} is not a checkpoint's plan; choose another directory")
        differing = [part for part, value in fingerprint.items() if found.get(part) != value]
        if differing:
            raise ValueError(
                f"{owner}: checkpoint {self._path} belongs to a run with other {' and '.join(differing)}; "
                "choose another directory or delete this one"
            )
