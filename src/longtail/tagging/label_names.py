"""Texts and label names as users give them, checked; names as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from longtail._csr import csr_for_users
from longtail.datasets.in_memory import label_lists, text_list


def encode_labels(labels: Any) -> tuple[list[str], sp.csr_array]:
    """Number label names in sorted order and return the names and the label matrix."""
    rows = name_rows(labels)
    names = sorted({name for row in rows for name in row})
    nameless = next((name for name in names if not name.strip()), None)
    if nameless is not None:
        at = next(i for i, row in enumerate(rows) if nameless in row)
        raise ValueError(f"Tagger: labels must have names, but text {at} has {nameless!r}; leave it out of the list")
    ids = {name: label_id for label_id, name in enumerate(names)}
    return names, indicator([[ids[name] for name in row] for row in rows], len(names))


def name_rows(labels: Any) -> list[list[str]]:
    """Return the label names of each row; see `longtail.datasets.texts_and_labels` for what is accepted."""
    return label_lists(labels)


def indicator(rows: list[list[int]], n_labels: int) -> sp.csr_array:
    """Turn rows of label ids into a label matrix; repeated ids count once."""
    distinct = [sorted(set(row)) for row in rows]
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in distinct], out=indptr[1:])
    indices = np.fromiter((i for row in distinct for i in row), dtype=np.int32, count=int(indptr[-1]))
    return csr_for_users(np.ones(len(indices), dtype=np.float32), indices, indptr, (len(rows), n_labels))


def checked_texts(texts: Any) -> list[str]:
    """Return texts as a list of str; accepts any collection of str and tables of one column."""
    return text_list(texts)


def checked_names(what: str, names: Iterable[str]) -> list[str]:
    """Check that an argument is a list of label names."""
    if isinstance(names, str):
        raise TypeError(f"Tagger: {what} must be a list of label names, got the str {names!r}")
    checked = list(names)
    for name in checked:
        if not isinstance(name, str):
            raise TypeError(f"Tagger: {what} must hold label names, got {name!r}")
    return checked
