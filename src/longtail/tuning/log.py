"""The log of a search: one JSON object per line, the first identifies the search; a rerun continues it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One set of parameters and its result; `score` is None where training failed, and `error` says why."""

    params: dict[str, Any]
    score: float | None
    seconds: float
    error: str | None = None
    # Of a search under a time budget: the training rows, and the score of rows that took no part in the choice.
    n_rows: int | None = None
    confirmed: float | None = None


class Log:
    """Trials on disk. Each is one whole line, synced: a crash loses at most the trial that was running."""

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        self.trials: list[Trial] = []
        if self.path.exists() and self.path.stat().st_size:
            self._read(json.loads(json.dumps(header)))
        else:
            self._append(header)

    def add(self, trial: Trial) -> None:
        """Remember a trial."""
        self._append(asdict(trial))
        self.trials.append(trial)

    def _append(self, record: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, header: dict[str, Any]) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.decode("utf-8", "replace").splitlines()
        try:
            records = [json.loads(line) for line in lines]
            found, self.trials = records[0], [Trial(**record) for record in records[1:]]
        except (IndexError, TypeError, ValueError):
            raise ValueError(f"{self.path} is not a log of longtail tune; choose another name") from None
        for key, value in header.items():
            if not isinstance(found, dict) or found.get(key) != value:
                was = found.get(key) if isinstance(found, dict) else found
                raise ValueError(
                    f"{self.path} belongs to another search: its {key} is {was!r}, not {value!r}; choose another log"
                )
        if len(whole) < len(data):  # the last line was cut by a crash
            with self.path.open("r+b") as file:
                file.truncate(len(whole))
