"""The model that a service answers from, and how it is replaced while requests run."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.tagging import Tagger

_logger = logging.getLogger("longtail.serve")
_WARM_UP_TEXT = "warm-up: builds whatever the first text would have to wait for"
_N_EXAMPLES = 8
_EXAMPLE_CHARS = 2000

Signature = tuple[int, int, int]


@dataclass(frozen=True)
class Snapshot:
    """One loaded model with what is asked about it often; a request takes one and keeps it to its end."""

    tagger: Tagger
    version: str
    card: dict[str, Any]
    examples: Sequence[str]


class ServedModel:
    """Hold the current snapshot; `reload` makes a new one beside it and then swaps.

    Arrays are mapped, so the old and the new model cost memory only where they are read, and workers that map the
    same files share them.
    """

    def __init__(self, source: Path | Tagger) -> None:
        self.path = source if isinstance(source, Path) else None
        self.last_error: str | None = None
        self._lock = threading.Lock()
        self._tried = self._signature()
        self.current = _snapshot(source)

    def changed_on_disk(self) -> bool:
        """Tell whether the model's directory was replaced since it was last read, whether or not that worked."""
        signature = self._signature()
        return signature is not None and signature != self._tried  # None: it is just being replaced

    def reload(self) -> Snapshot:
        """Load the model again and answer from it; when that fails the old one stays and the error is raised."""
        if self.path is None:
            raise ValueError("this service was given a model in memory; there is no file to reload")
        with self._lock:
            self._tried = self._signature()
            try:
                self.current = _snapshot(self.path)
            except Exception as error:
                self.last_error = " ".join(str(error).split()) or type(error).__name__
                _logger.error("reload of %s failed, the old model stays: %s", self.path, self.last_error)
                raise
            self.last_error = None
            _logger.info("reloaded %s, version %s", self.path, self.current.version)
            return self.current

    def _signature(self) -> Signature | None:
        if self.path is None:
            return None
        try:
            stat = (self.path / "manifest.json").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _snapshot(source: Path | Tagger) -> Snapshot:
    tagger, version = _load(source) if isinstance(source, Path) else (source, "in memory")
    tagger.tag([_WARM_UP_TEXT], top_k=1, exclude=[])
    tagger.search_labels("", limit=1)
    examples = [text[:_EXAMPLE_CHARS] for text in tagger.example_texts_[:_N_EXAMPLES]]
    return Snapshot(tagger, version, tagger.card(), examples)


def _load(path: Path) -> tuple[Tagger, str]:
    import longtail
    from longtail.tagging import Tagger

    manifest = (path / "manifest.json").read_bytes()
    tagger = longtail.load(path)
    if not isinstance(tagger, Tagger):
        raise ValueError(
            f"{path} ranks vectors, but the service takes texts; train on texts (.jsonl, .csv) to get such a model"
        )
    if tagger.vectorizer is None:
        raise ValueError(f"{path} was fitted on vectors of your own making, but the service takes texts")
    # One request is one small piece of work: threads would cost more than they give. Requests run side by side.
    return tagger.with_threads(1), hashlib.sha256(manifest).hexdigest()[:12]
