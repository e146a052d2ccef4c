"""Iterative stratification for sparse label matrices.

Sechidis, Tsoumakas, Vlahavas: On the stratification of multi-label data, ECML PKDD 2011, with pairs of labels as in
Szymański, Kajdanowicz: A network perspective on stratification of multi-label data, 2017. A random split of a set with
a long tail leaves a third of the labels out of the test rows, or out of the training rows; a stratified one gives every
part its share of each label and of each pair of labels, the rarest first.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._matrices import checked_labels, without_stored_zeros

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Pairs are made of the rarest labels of a row only: their number grows with the square.
_MAX_PAIRED_LABELS = 20
# Of a label with this many rows, half a row more or less on a side does not matter: pairs may decide.
_MANY_ROWS = 10


def stratified_folds(Y: Any, n_folds: int = 5, *, order: int = 2, random_state: int = 0) -> NDArray[np.int64]:
    """Return the fold of each row, such that every fold has its share of every label.

    Parameters
    ----------
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels), or 1-D classes
    n_folds : int, default 5
    order : 1 or 2, default 2
        Whether pairs of labels that occur together are spread evenly too.
    random_state : int, default 0

    Returns
    -------
    int64 array (n_rows,)
        From 0 to n_folds - 1.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.model_selection import stratified_folds
    >>> Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    >>> folds = stratified_folds(Y, 2)
    >>> sorted(folds[:2].tolist()), sorted(folds[2:].tolist())
    ([0, 1], [0, 1])
    """
    if not isinstance(n_folds, int | np.integer) or n_folds < 2:
        raise ValueError(f"stratified_folds: n_folds must be an int >= 2, got {n_folds!r}")
    return _assign(Y, np.full(n_folds, 1 / n_folds), order, random_state, "stratified_folds")


def stratified_split(
    Y: Any, test_share: float = 0.2, *, order: int = 2, random_state: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of a training part and of a test part, each rising.

    A label with two rows or more has a row on both sides wherever that is possible, so that a small test part may have
    more rows than its share.

    Parameters
    ----------
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels), or 1-D classes
    test_share : float in (0, 1), default 0.2
    order : 1 or 2, default 2
        Whether pairs of labels that occur together are spread evenly too.
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.model_selection import stratified_split
    >>> Y = np.repeat(np.eye(3), 10, axis=0)
    >>> train, test = stratified_split(Y, 0.2)
    >>> len(train), Y[test].sum(axis=0).tolist()
    (24, [2.0, 2.0, 2.0])
    """
    share: Any = test_share  # numbers of NumPy are no floats
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        raise ValueError(f"stratified_split: test_share must be in (0, 1), got {share!r}")
    parts = _assign(Y, np.array([1 - float(share), float(share)]), order, random_state, "stratified_split")
    return np.flatnonzero(parts == 0), np.flatnonzero(parts == 1)


def _assign(Y: Any, shares: Floats, order: int, random_state: int, owner: str) -> Ints:
    if order not in (1, 2):
        raise ValueError(f"{owner}: order must be 1 or 2, got {order!r}")
    if not sp.issparse(Y) and np.ndim(Y) == 0:
        raise ValueError(f"{owner}: Y must be a 0/1 matrix or 1-D classes, got {Y!r}")
    labels = without_stored_zeros(checked_labels(owner, Y, Y.shape[0] if sp.issparse(Y) else len(Y)).Y)
    n_rows = labels.shape[0]
    if n_rows < len(shares):
        raise ValueError(f"{owner}: Y must have at least {len(shares)} rows, got {n_rows}")
    random = np.random.default_rng(random_state)
    groups, n_labels = _groups(labels, order)
    counts = np.bincount(groups.indices, minlength=groups.shape[1])
    wanted = counts[:, None] * shares[None, :]
    # A label that can be everywhere should be; of a pair this is not asked.
    can = (np.arange(len(counts)) < n_labels) & (counts >= len(shares))
    wanted[can] = np.maximum(wanted[can], 1.0)
    room = n_rows * shares
    parts = np.full(n_rows, -1, dtype=np.int64)
    members = sp.csc_array(groups)
    noise = random.random(n_rows)
    weights = 1 / np.maximum(counts, 1)
    for label in np.lexsort((random.random(n_labels), counts[:n_labels])).tolist():
        rows = members.indices[members.indptr[label] : members.indptr[label + 1]]
        rows = rows[parts[rows] < 0]
        for row in rows[np.argsort(noise[rows])].tolist():
            mine = groups.indices[groups.indptr[row] : groups.indptr[row + 1]]
            slack = 0.5 if counts[label] >= _MANY_ROWS else 1e-9
            part = _neediest(wanted[label], weights[mine] @ wanted[mine], room, slack)
            parts[row] = part
            wanted[mine, part] -= 1
            room[part] -= 1
    for row in np.flatnonzero(parts < 0).tolist():  # rows without labels
        part = int(np.argmax(room))
        parts[row] = part
        room[part] -= 1
    sizes = np.bincount(parts, minlength=len(shares))
    for part in np.flatnonzero(sizes == 0).tolist():  # a share of less than a row
        row = int(np.flatnonzero(parts == np.argmax(sizes))[-1])
        sizes[parts[row]] -= 1
        parts[row], sizes[part] = part, 1
    return parts


def _neediest(wanted: Floats, wanted_by_all: Floats, room: Floats, slack: float) -> int:
    """Return the part that lacks most of a label; of those within `slack` rows, that which lacks most of all."""
    close = np.flatnonzero(wanted >= wanted.max() - slack)
    if len(close) > 1:
        close = close[np.lexsort((-room[close], -wanted_by_all[close]))]
    return int(close[0])


def _groups(labels: sp.csr_array, order: int) -> tuple[sp.csr_array, int]:
    """Return which groups each row is in: its labels first, then the pairs that two rows or more have."""
    n_rows, n_labels = labels.shape
    ones = np.ones(labels.nnz, dtype=np.int8)
    single = sp.csr_array((ones, labels.indices, labels.indptr), shape=labels.shape)
    if order == 1 or labels.nnz == 0:
        return single, n_labels
    counts = np.bincount(labels.indices, minlength=n_labels)
    row_ids, keys = [], []
    for row in range(n_rows):
        found = labels.indices[labels.indptr[row] : labels.indptr[row + 1]].astype(np.int64)
        if len(found) < 2:
            continue
        if len(found) > _MAX_PAIRED_LABELS:
            found = np.sort(found[np.argsort(counts[found], kind="stable")[:_MAX_PAIRED_LABELS]])
        left, right = np.triu_indices(len(found), 1)
        keys.append(found[left] * n_labels + found[right])
        row_ids.append(np.full(len(left), row))
    if not keys:
        return single, n_labels
    known, pair_ids, n_pairs = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    is_useful = n_pairs[pair_ids] > 1
    pairs = sp.csr_array(
        (np.ones(int(is_useful.sum()), np.int8), (np.concatenate(row_ids)[is_useful], pair_ids[is_useful])),
        shape=(n_rows, len(known)),
    )
    return sp.csr_array(sp.hstack([single, pairs], format="csr")), n_labels
