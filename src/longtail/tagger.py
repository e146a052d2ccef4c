"""Texts in, label names out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from longtail._base import XMCClassifier
from longtail._matrices import csr_from_parts
from longtail._progress import Progress
from longtail._topk import TopK
from longtail.baselines import Popularity
from longtail.execution import Executor
from longtail.text import TextVectorizer


class Tag(NamedTuple):
    """One proposed label of a text."""

    label: str
    score: float


class Tagger:
    """Tag texts with label names: a vectorizer, any estimator and the names in one object.

    Parameters
    ----------
    estimator : an estimator, default Popularity
    vectorizer : TextVectorizer, optional

    Examples
    --------
    >>> import longtail as lt
    >>> texts = ["small web server", "web browser", "mail server"]
    >>> labels = [["net", "server"], ["net"], ["net", "server"]]
    >>> tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    >>> [tag.label for tag in tagger.tag(["a tiny server"], top_k=2)[0]]
    ['net', 'server']
    """

    def __init__(self, estimator: XMCClassifier | None = None, vectorizer: TextVectorizer | None = None) -> None:
        if estimator is None:
            estimator = Popularity()
        if not isinstance(estimator, XMCClassifier):
            raise TypeError(f"Tagger: estimator must be a longtail estimator, got {estimator!r}")
        if not isinstance(vectorizer, TextVectorizer | None):
            raise TypeError(f"Tagger: vectorizer must be a TextVectorizer or None, got {vectorizer!r}")
        self.estimator = estimator
        self.vectorizer = vectorizer if vectorizer is not None else TextVectorizer()
        self.label_names_: list[str] = []

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[Iterable[str]],
        *,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from texts and the label names of each; the other arguments are those of the estimator's ``fit``."""
        texts = _checked_texts(texts)
        if len(texts) != len(labels):
            raise ValueError(f"Tagger: got {len(texts)} texts but {len(labels)} lists of labels")
        names, Y = encode_labels(labels)
        if not names:
            raise ValueError("Tagger: no text has a label; nothing to learn")
        X = self.vectorizer.fit(texts).transform(texts)
        self.estimator.fit(X, Y, executor=executor, checkpoint=checkpoint, progress=progress)
        self.label_names_ = names
        return self

    def tag(self, texts: Sequence[str], top_k: int = 5) -> list[list[Tag]]:
        """Propose the `top_k` best labels of each text, best first."""
        label_ids, scores = self.predict_top_k(texts, top_k)
        return [
            [Tag(self.label_names_[i], float(score)) for i, score in zip(ids, row, strict=True) if i >= 0]
            for ids, row in zip(label_ids.tolist(), scores.tolist(), strict=True)
        ]

    def predict_top_k(self, texts: Sequence[str], top_k: int = 5) -> TopK:
        """Rank label ids for each text, as the estimators do for rows."""
        if not self.label_names_:
            raise ValueError("Tagger: not fitted yet; call fit(texts, labels) first")
        return self.estimator.predict_top_k(self.vectorizer.transform(_checked_texts(texts)), top_k)

    def encode(self, labels: Sequence[Iterable[str]]) -> tuple[sp.csr_array, int]:
        """Turn label names into a matrix over the known labels; also return how many names were unknown."""
        ids = {name: label_id for label_id, name in enumerate(self.label_names_)}
        rows = [list(row) for row in labels]
        n_unknown = sum(name not in ids for row in rows for name in row)
        return _indicator([[ids[name] for name in row if name in ids] for row in rows], len(ids)), n_unknown


def encode_labels(labels: Sequence[Iterable[str]]) -> tuple[list[str], sp.csr_array]:
    """Number label names in sorted order and return the names and the label matrix."""
    rows: list[list[str]] = []
    for row_id, row in enumerate(labels):
        if isinstance(row, str):
            raise TypeError(f"Tagger: the labels of text {row_id} must be a list of str, got the str {row!r}")
        rows.append(list(row))
        for name in rows[-1]:
            if not isinstance(name, str):
                raise TypeError(f"Tagger: the labels of text {row_id} must be str, got {name!r}")
    names = sorted({name for row in rows for name in row})
    ids = {name: label_id for label_id, name in enumerate(names)}
    return names, _indicator([[ids[name] for name in row] for row in rows], len(names))


def _indicator(rows: list[list[int]], n_labels: int) -> sp.csr_array:
    distinct = [sorted(set(row)) for row in rows]
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in distinct], out=indptr[1:])
    indices = np.fromiter((i for row in distinct for i in row), dtype=np.int32, count=int(indptr[-1]))
    return csr_from_parts(np.ones(len(indices), dtype=np.float32), indices, indptr, (len(rows), n_labels))


def _checked_texts(texts: Any) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("Tagger: texts must be a list of str, got one str; put it into a list: [text]")
    checked = []
    for row_id, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"Tagger: text {row_id} must be a str, got {text!r}")
        checked.append(text)
    return checked
