"""One correction: a text, and what somebody said about labels for it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_ID_CHARS = 100
MAX_AUTHOR_CHARS = 200
MAX_VERSION_CHARS = 100
MAX_TEXT_CHARS = 10_000_000
MAX_LABELS = 1_000
MAX_LABEL_CHARS = 10_000

_LABELS = ("accepted", "rejected", "added")


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """What somebody said about the labels of one text.

    Parameters
    ----------
    text : str
    accepted, rejected, added : label names
        Proposed labels that are right, proposed labels that are wrong, and labels that were missing.
    complete : bool, default False
        Whether the accepted and added labels are all labels of the text. Otherwise nothing is known of other labels.
    author : str or None, default None
        Who said it.
    version : str or None, default None
        Version of the model that proposed the labels.
    id : str, default a random one
        Made by the client. Storing the same id again changes nothing, so a client may repeat a request that got no
        answer.

    Examples
    --------
    >>> import longtail as lt
    >>> lt.Feedback(text="a web server", accepted=["net"], rejected=["game"], added=["web"]).labels
    ('net', 'web')
    """

    text: str
    accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    complete: bool = False
    author: str | None = None
    version: str | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        _check_text("text", self.text, MAX_TEXT_CHARS)
        _check_text("id", self.id, MAX_ID_CHARS, min_chars=1)
        for name, most in (("author", MAX_AUTHOR_CHARS), ("version", MAX_VERSION_CHARS)):
            if getattr(self, name) is not None:
                _check_text(name, getattr(self, name), most, min_chars=1)
        for name in _LABELS:
            object.__setattr__(self, name, _checked_labels(name, getattr(self, name)))
        both = set(self.labels) & set(self.rejected)
        if both:
            raise ValueError(f"Feedback: a label must be right or wrong, got {min(both)!r} as both")
        if not (self.labels or self.rejected or self.complete):
            raise ValueError(
                "Feedback: accepted, rejected and added must not all be empty; set complete for a text without labels"
            )

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are right: accepted and added."""
        return tuple(dict.fromkeys((*self.accepted, *self.added)))

    @property
    def text_key(self) -> str:
        """A key of the text, equal for equal texts."""
        return text_key(self.text)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; `labels` makes the exported lines a training file."""
        return {
            "id": self.id,
            "text": self.text,
            "labels": list(self.labels),
            **{name: list(getattr(self, name)) for name in _LABELS},
            "complete": self.complete,
            "author": self.author,
            "version": self.version,
        }


def text_key(text: str) -> str:
    """Return a key of a text, equal for equal texts."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def labels_as_json(labels: Iterable[str]) -> str:
    """Write label names in one column."""
    return json.dumps(list(labels), ensure_ascii=False)


def _checked_labels(name: str, labels: Any) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"Feedback: {name} must be a list of label names, got {labels!r}")
    found = tuple(dict.fromkeys(labels))
    if len(found) > MAX_LABELS:
        raise ValueError(f"Feedback: {name} must have at most {MAX_LABELS:,} labels, got {len(found):,}")
    for label in found:
        _check_text(f"a label of {name}", label, MAX_LABEL_CHARS, min_chars=1)
    return found


def _check_text(name: str, value: Any, max_chars: int, min_chars: int = 0) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Feedback: {name} must be a str, got {value!r}")
    if not min_chars <= len(value) <= max_chars:
        raise ValueError(f"Feedback: {name} must have {min_chars} to {max_chars:,} characters, got {len(value):,}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"Feedback: {name} must be valid Unicode, got half of a surrogate pair") from None
