"""What reading texts gives: texts, label names, ids, and a sentence on how the input was understood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longtail._words import counted

Names = list[list[str]]


class TextData(tuple[list[str], Names]):
    """Texts and the label names of each; unpacks as ``texts, labels``.

    Attributes
    ----------
    texts : list of str
    labels : list of list of str
        As many as texts; each label once, in the order of the input.
    ids : list of str or int, or None
        The column ``id``, where there is one.
    understood : str
        One line on what was read, to be shown to the user.
    without_labels : str or None
        Why there are no labels and what to do about it; None if there are labels.
    text_columns : dict of str to int, or None
        The columns of a table that the texts come from, with their weights.
    """

    ids: list[str | int] | None
    understood: str
    without_labels: str | None
    text_columns: dict[str, int] | None

    def __new__(
        cls,
        texts: list[str],
        labels: Names,
        *,
        ids: list[str | int] | None = None,
        understood: str = "",
        without_labels: str | None = None,
        text_columns: dict[str, int] | None = None,
    ) -> TextData:
        """Make one; `understood` is a sentence without a full stop."""
        self = super().__new__(cls, (texts, labels))
        self.ids, self.understood, self.without_labels = ids, understood, without_labels
        self.text_columns = text_columns
        return self

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return self[0]

    @property
    def labels(self) -> Names:
        """The label names of each text."""
        return self[1]

    def require_labels(self) -> None:
        """Raise ValueError when no text has a label, with the columns there are: for training and evaluation."""
        if self.without_labels is not None:
            raise ValueError(self.without_labels)


@dataclass(frozen=True)
class Described:
    """How texts and labels were found, in words: "from column 'body'", "split at ';'"."""

    texts: str = ""
    labels: str = ""
    way_to_labels: str = ""
    text_columns: dict[str, int] | None = None  # columns of a table with their weights


def text_data(
    owner: str, texts: list[str], labels: Sequence[list[str]], ids: list[Any] | None, how: Described
) -> TextData:
    """Put together what was read: repeated labels count once."""
    distinct = [list(dict.fromkeys(names)) for names in labels]
    n_labels = len({name for names in distinct for name in names})
    n_empty = sum(not text or text.isspace() for text in texts)
    parts = [f"{counted(len(texts), 'text')}{_after(how.texts)}"]
    if n_empty:
        parts.append(f"{n_empty:,} of them empty")
    parts.append(f"{counted(n_labels, 'label')}{_after(how.labels)}" if n_labels else "no labels")
    without = None
    if not texts:
        without = f"{owner} holds no text"
    elif not n_labels:
        without = f"{owner}: no text has a label" + (f"; {how.way_to_labels}" if how.way_to_labels else "")
    return TextData(
        texts, distinct, ids=ids, understood=", ".join(parts), without_labels=without, text_columns=how.text_columns
    )


def _after(words: str) -> str:
    return f" {words}" if words else ""
