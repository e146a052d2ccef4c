"""Labels with the same rows have the same weights: one of them is trained for all.

Rare labels often share their rows: synonyms, or two labels that only ever occur together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longtail._csr import take_lists
from longtail._matrices import Columns

# A smaller share of copies saves too little time to be worth another route.
_LEAST_SHARE = 0.05
_NO_SALT = np.uint64(0)


class EqualLabels(NamedTuple):
    """Which labels share their rows with which: `first_ids` has the smallest label of each group, in order."""

    first_ids: NDArray[np.int64]
    indptr: NDArray[np.int64]  # of the groups
    members: NDArray[np.int64]  # group by group, increasing

    @classmethod
    def worth_sharing(cls, columns: Columns) -> EqualLabels | None:
        """Group the labels by their rows; None if nearly all differ."""
        sources = _sources(columns)
        first_ids, sizes = np.unique(sources, return_counts=True)
        if len(sources) - len(first_ids) <= _LEAST_SHARE * len(sources):
            return None
        return cls(first_ids, np.concatenate([[0], np.cumsum(sizes)]), np.argsort(sources, kind="stable"))

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.indptr)

    def of(self, label_ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all labels equal to the given first ones, and for each the place of that one in `label_ids`."""
        groups = np.searchsorted(self.first_ids, label_ids)
        indptr, places = take_lists(self.indptr, groups)
        return self.members[places], np.repeat(np.arange(len(groups)), np.diff(indptr))

    def within(self, label_ids: NDArray[np.int64]) -> EqualLabels:
        """Replace label numbers by the ids at these places of `label_ids`, which increase."""
        return EqualLabels(label_ids[self.first_ids], self.indptr, label_ids[self.members])


def _sources(columns: Columns) -> NDArray[np.int64]:
    """Return for each label the first one with the same rows."""
    indptr, row_ids = columns
    sizes = np.diff(indptr)
    _, first, group = np.unique(row_sums(columns), return_index=True, return_inverse=True)
    sources = np.where(sizes == sizes[first[group]], first[group], np.arange(len(sizes)))
    # Equal sums and sizes are not proof: compare the rows.
    _, places = take_lists(indptr, sources)
    n_different = np.zeros(len(row_ids) + 1, dtype=np.int64)
    np.cumsum(row_ids != row_ids[places], out=n_different[1:])
    is_equal = n_different[indptr[1:]] == n_different[indptr[:-1]]
    return np.where(is_equal, sources, np.arange(len(sizes)))


def row_sums(columns: Columns, salt: np.uint64 = _NO_SALT) -> NDArray[np.uint64]:
    """Add up scrambled row ids label by label: labels with the same rows have the same sum, others hardly ever."""
    indptr, row_ids = columns
    mixed = mix(row_ids.astype(np.uint64) ^ salt)
    running = np.zeros(len(mixed) + 1, dtype=np.uint64)
    np.cumsum(mixed, out=running[1:])  # wraps around, as differences then do
    return running[indptr[1:]] - running[indptr[:-1]]


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
