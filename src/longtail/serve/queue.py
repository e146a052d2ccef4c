"""Texts to look at next: those whose labels the model is least certain of."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Literal

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field

from longtail.feedback import FeedbackStore
from longtail.feedback.record import text_key
from longtail.serve.model import ServedModel
from longtail.serve.schemas import ScoredLabel
from longtail.tagging.review import review_values

_MAX_TEXTS = 100_000
_MAX_TEXT_CHARS = 100_000

By = Literal["uncertain", "rare"]


class QueuedText(BaseModel):
    """A text to look at, and what the model proposes for it."""

    key: str = Field(description="Equal for equal texts.")
    text: str
    value: float = Field(description="How useful an answer is; only the order matters.")
    labels: list[ScoredLabel]


class QueueResponse(BaseModel):
    """The texts to look at next, most useful first."""

    rows: list[QueuedText]
    n_left: int = Field(description="Texts of the queue without feedback, these included.")


class Queue:
    """Texts of a file, ranked once for each version of the model; texts that have feedback are left out."""

    def __init__(self, served: ServedModel, path: Path, store: FeedbackStore | None) -> None:
        from longtail.datasets import read_text

        self._served = served
        self._store = store
        # Nothing but a text per line makes sense here; elsewhere a .txt file may be in other formats.
        texts = read_text(path, with_labels=False, format="lines" if path.suffix == ".txt" else None).texts
        if len(texts) > _MAX_TEXTS:
            raise ValueError(f"{path}: a queue must have at most {_MAX_TEXTS:,} texts, got {len(texts):,}; split it")
        self._texts = {text_key(text): text for text in texts if 0 < len(text) <= _MAX_TEXT_CHARS}
        self._lock = threading.Lock()
        self._ranked: dict[tuple[str, By], list[tuple[float, str]]] = {}

    def next(self, limit: int, by: By, skip: int = 0, language: str | None = None) -> QueueResponse:
        """Return the most useful texts."""
        snapshot = self._served.current
        with self._lock:  # ranked once, however many ask
            ranked = self._ranked.get((snapshot.version, by))
            if ranked is None:
                values = review_values(snapshot.tagger, list(self._texts.values()), by=by).tolist()
                ranked = sorted(zip(values, self._texts, strict=True), reverse=True)
                kept = {key: found for key, found in self._ranked.items() if key[0] == snapshot.version}
                self._ranked = kept | {(snapshot.version, by): ranked}
        done = self._store.text_keys() if self._store is not None else set()
        left = [(value, key) for value, key in ranked if key not in done]
        chosen = left[skip : skip + limit]
        tags = snapshot.tagger.tag([self._texts[key] for _, key in chosen], top_k=5) if chosen else []
        rows = [
            QueuedText(
                key=key,
                text=self._texts[key],
                value=value,
                labels=[
                    ScoredLabel(
                        label=tag.label, score=tag.score, proba=tag.proba, name=snapshot.name_of(tag.label, language)
                    )
                    for tag in found
                ],
            )
            for (value, key), found in zip(chosen, tags, strict=True)
        ]
        return QueueResponse(rows=rows, n_left=len(left))


def add_queue(app: FastAPI, queue: Queue) -> None:
    """Add GET /api/queue."""

    @app.get("/api/queue")
    def next_texts(
        limit: Annotated[int, Query(ge=1, le=100)] = 10,
        skip: Annotated[int, Query(ge=0, le=_MAX_TEXTS)] = 0,
        by: By = "uncertain",
        language: Annotated[str | None, Query(max_length=100)] = None,
    ) -> QueueResponse:
        """Return the texts whose labels are least certain ("uncertain") or worth most for rare labels ("rare")."""
        return queue.next(limit, by, skip, language)
