"""Find labels by a part of one of their names, among millions, while someone types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# A query that matches more labels than this is too short to rank them all.
_MAX_MATCHES = 5000


class LabelSearch:
    """All names in one folded string: `str.find` runs through megabytes in a millisecond.

    Parameters
    ----------
    names : names of labels
    counts : int array (n_labels,), training texts of each label
    label_ids : int array (n_names,), optional
        The label of each name, if a label may have several; default: one name for each.
    """

    def __init__(
        self, names: Sequence[str], counts: NDArray[np.int64], label_ids: NDArray[np.int64] | None = None
    ) -> None:
        folded = [_fold(name) for name in names]
        self._label_ids = np.arange(len(folded)) if label_ids is None else label_ids
        self._text = "\n" + "\n".join(folded) + "\n"
        self._begins = np.cumsum([1, *(len(name) + 1 for name in folded)])[:-1]
        self._counts = np.asarray(counts)

    def find(self, query: str, limit: int, n_labels: int | None = None) -> list[int]:
        """Return label ids: names that begin with the query, then words that do, then the rest; frequent ones first.

        Only ids below `n_labels` are returned.
        """
        counts = self._counts[:n_labels]
        wanted = _fold(query).strip()
        if not wanted:
            return [int(label_id) for label_id in np.argsort(-counts, kind="stable")[:limit]]
        best: dict[int, int] = {}
        self._collect("\n" + wanted, best)
        self._collect(wanted, best)
        found = [label_id for label_id in best if label_id < len(counts)]
        return sorted(found, key=lambda label_id: (best[label_id], -int(counts[label_id]), label_id))[:limit]

    def _collect(self, wanted: str, best: dict[int, int]) -> None:
        """Note the best kind of match (0: name begins, 1: word begins, 2: inside) of each label that matches."""
        at = self._text.find(wanted)
        while at >= 0 and len(best) < _MAX_MATCHES:
            place = int(np.searchsorted(self._begins, at, side="right")) - 1
            if wanted[0] == "\n":
                place, kind = place + 1, 0
            else:
                kind = 0 if self._text[at - 1] == "\n" else 2 if self._text[at - 1].isalnum() else 1
            label_id = int(self._label_ids[place])
            best[label_id] = min(kind, best.get(label_id, kind))
            at = self._text.find(wanted, at + 1)


def _fold(name: str) -> str:
    return name.casefold().replace("\n", " ")
