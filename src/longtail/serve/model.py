"""The model of a service, and its replacement while requests run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longtail.tagging import Tagger

_logger = logging.getLogger("longtail.serve")
_WARM_UP_TEXT = "warm-up: builds what the first text would have to wait for"
_N_EXAMPLES = 8
_EXAMPLE_CHARS = 2000

Signature = tuple[int, int, int]


@dataclass(frozen=True)
class Snapshot:
    """One loaded model with its precomputed facts; a request uses one snapshot from start to end."""

    tagger: Tagger
    version: str
    card: dict[str, Any]
    examples: Sequence[str]
    language: str | None = None

    def name_of(self, label: str, language: str | None) -> str | None:
        """Return the name of a label in the vocabulary; None if the model has no vocabulary."""
        vocabulary = self.tagger.vocabulary_
        return None if vocabulary is None else vocabulary.name(label, language or self.language)


class ServedModel:
    """Hold the current snapshot; `reload` loads a new one beside it and then swaps.

    Arrays are mapped, so the old and the new model cost memory only where they are read, and workers that map the
    same files share them.
    """

    def __init__(self, source: Path | Tagger, *, verify: bool = True, language: str | None = None) -> None:
        self._verify = verify
        self._language = language
        self.path = source if isinstance(source, Path) else None
        self.last_error: str | None = None
        self._lock = threading.Lock()
        self._tried = self._signature()
        self.current = _snapshot(source, language, verify=verify)

    def changed_on_disk(self) -> bool:
        """Return whether the model's directory was replaced since the last attempt to load it."""
        signature = self._signature()
        return signature is not None and signature != self._tried  # None: it is being replaced right now

    def reload(self) -> Snapshot:
        """Load the model again and switch to it; on failure raise the error and keep the old one."""
        if self.path is None:
            raise ValueError("this service was created with a model in memory; there is no file to reload")
        with self._lock:
            self._tried = self._signature()
            try:
                self.current = _snapshot(self.path, self._language, verify=self._verify)
            except Exception as error:
                self.last_error = " ".join(str(error).split()) or type(error).__name__
                _logger.error("reload of %s failed, keeping the old model: %s", self.path, self.last_error)
                raise
            self.last_error = None
            _logger.info("reloaded %s, version %s", self.path, self.current.version)
            return self.current

    @property
    def changed_at(self) -> float | None:
        """When the model was saved, in seconds since 1970; None for a model in memory."""
        return None if self._tried is None else self._tried[1] / 1e9

    def _signature(self) -> Signature | None:
        if self.path is None:
            return None
        try:
            stat = (self.path / "manifest.json").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _snapshot(source: Path | Tagger, language: str | None, *, verify: bool) -> Snapshot:
    tagger, version = _load(source, verify=verify) if isinstance(source, Path) else (source, "in memory")
    tagger.tag([_WARM_UP_TEXT], top_k=1, exclude=[])
    tagger.search_labels("", limit=1)
    examples = [text[:_EXAMPLE_CHARS] for text in tagger.example_texts_[:_N_EXAMPLES]]
    return Snapshot(tagger, version, tagger.card(), examples, language)


def _load(path: Path, *, verify: bool) -> tuple[Tagger, str]:
    import longtail
    from longtail.saving import version_of
    from longtail.tagging import takes_texts

    version = version_of(path)
    tagger = longtail.load(path, verify=verify)
    if not takes_texts(tagger):
        raise ValueError(
            f"{path} ranks vectors, but the service takes texts; train on texts (.jsonl, .csv) to get such a model"
        )
    # One request is too little work for several threads; requests run in parallel instead.
    return tagger.with_threads(1), version
