"""What a user passes as texts and labels, checked and brought into one form."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._words import counted
from longtail.datasets import texts_and_labels
from longtail.datasets.in_memory import label_lists, text_list
from longtail.tagging.vectorizer import TextVectorizer

_N_EXAMPLES = 8
_EXAMPLE_CHARS = (40, 300)


def labelled_inputs(
    vectorizer: TextVectorizer | None, texts: Any, labels: Any, **columns: Any
) -> tuple[Any, list[list[str]], dict[str, int] | None]:
    """Check texts (or rows, without a vectorizer) and their labels; also return the columns of a table."""
    if vectorizer is not None:
        data = texts_and_labels(texts, labels, **columns)
        data.require_labels()
        return data.texts, data.labels, data.text_columns
    rows = checked_inputs(None, texts)
    given = label_lists(labels, label_names=columns["label_names"], label_separator=columns["label_separator"])
    if rows.shape[0] != len(given):
        raise ValueError(f"Tagger: got {counted(rows.shape[0], 'row')} but {counted(len(given), 'list')} of labels")
    return rows, given, None


def checked_inputs(vectorizer: TextVectorizer | None, texts: Any) -> Any:
    if vectorizer is not None:
        return text_list(texts)
    if isinstance(texts, str) or (isinstance(texts, list) and texts and isinstance(texts[0], str)):
        raise TypeError("Tagger: this tagger has no vectorizer and takes a matrix, got texts")
    return texts if sp.issparse(texts) else np.asarray(texts)


def without_features(vectorizer: TextVectorizer, X: Any) -> NDArray[np.bool_]:
    """Say which texts have neither a known word nor an embedding."""
    empty = vectorizer.rows_without_words(X)
    if vectorizer.embedding is not None and empty.any():
        empty[empty] = abs(sp.csr_array(X)[np.flatnonzero(empty)]).sum(axis=1) == 0
    return empty


def short_texts(texts: list[str]) -> list[str]:
    """Pick a few short texts, evenly over the corpus."""
    least, most = _EXAMPLE_CHARS
    short = [text for text in texts if least <= len(text) <= most and text.isprintable()]
    short = short or [text for text in texts if least <= len(text) <= most] or [text[:most] for text in texts if text]
    step = max(1, len(short) // _N_EXAMPLES)
    return short[::step][:_N_EXAMPLES]
