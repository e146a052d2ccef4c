"""Texts and label names as users give them, checked; names as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail._matrices import csr_from_parts


def encode_labels(labels: Sequence[Iterable[str]]) -> tuple[list[str], sp.csr_array]:
    """Number label names in sorted order and return the names and the label matrix."""
    rows = name_rows(labels)
    names = sorted({name for row in rows for name in row})
    ids = {name: label_id for label_id, name in enumerate(names)}
    return names, indicator([[ids[name] for name in row] for row in rows], len(names))


def name_rows(labels: Sequence[Iterable[str]]) -> list[list[str]]:
    """Check that every row is a list of names."""
    rows: list[list[str]] = []
    for row_id, row in enumerate(labels):
        if isinstance(row, str):
            raise TypeError(f"Tagger: the labels of text {row_id} must be a list of str, got the str {row!r}")
        rows.append(list(row))
        for name in rows[-1]:
            if not isinstance(name, str):
                raise TypeError(f"Tagger: the labels of text {row_id} must be str, got {name!r}")
    return rows


def indicator(rows: list[list[int]], n_labels: int) -> sp.csr_array:
    """Turn rows of label ids into a label matrix; repeated ids count once."""
    distinct = [sorted(set(row)) for row in rows]
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in distinct], out=indptr[1:])
    indices = np.fromiter((i for row in distinct for i in row), dtype=np.int32, count=int(indptr[-1]))
    return csr_from_parts(np.ones(len(indices), dtype=np.float32), indices, indptr, (len(rows), n_labels))


def checked_texts(texts: Any) -> list[str]:
    """Check that texts is a list of str."""
    if isinstance(texts, str):
        raise TypeError("Tagger: texts must be a list of str, got one str; put it into a list: [text]")
    checked: list[str] = list(texts)
    for row_id, text in enumerate(checked):
        if not isinstance(text, str):
            raise TypeError(f"Tagger: text {row_id} must be a str, got {text!r}")
    return checked


def checked_names(what: str, names: Iterable[str]) -> list[str]:
    """Check that an argument is a list of label names."""
    if isinstance(names, str):
        raise TypeError(f"Tagger: {what} must be a list of label names, got the str {names!r}")
    checked = list(names)
    for name in checked:
        if not isinstance(name, str):
            raise TypeError(f"Tagger: {what} must hold label names, got {name!r}")
    return checked
