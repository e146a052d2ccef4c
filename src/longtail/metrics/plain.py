"""Metrics that take the labels in Y for the whole truth.

All of them take ``top`` (a TopK, an int array of ranked label ids padded with -1, or a sparse score matrix)
and ``Y`` (a sparse or dense 0/1 matrix), and return one value in percent, the mean over all rows. A row
without labels counts and gains nothing.
"""

from longtail.metrics import _counts, _inputs
from longtail.metrics._inputs import LabelMatrix, Rankings
from longtail.metrics._tally import Tally


def precision_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Compute precision@k: how many of the k best labels are right.

    Divides by k even where a row has, or predicts, fewer labels.

    Parameters
    ----------
    top : TopK, int array of shape (n_rows, at least k) or sparse score matrix of shape (n_rows, n_labels)
        Ranked label ids of each row, best first, padded with -1.
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
        Labels of the same rows.
    k : int, default 5
        Ranks to look at.

    Returns
    -------
    float
        Between 0 and 100.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import precision_at_k
    >>> precision_at_k(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]), k=1)
    100.0
    """
    return _gain("P", top, Y, k)


def ndcg_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Compute nDCG@k: hits discounted by 1/log(1 + rank), divided row by row by the best that the row allows.

    The ideal of a row has min(k, labels of the row) hits, as in the FastXML paper. Parameters and result as
    for `precision_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import ndcg_at_k
    >>> ndcg_at_k(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]), k=3)
    100.0
    """
    return _gain("nDCG", top, Y, k)


def recall_at_k(top: Rankings, Y: LabelMatrix, k: int = 5) -> float:
    """Compute recall@k: the share of a row's labels that are among its k best.

    Parameters and result as for `precision_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import recall_at_k
    >>> recall_at_k(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]), k=1)
    50.0
    """
    return _gain("recall", top, Y, k)


def f_beta_at_k(top: Rankings, Y: LabelMatrix, k: int = 5, *, beta: float = 1.0) -> float:
    """Compute F_beta@k: the weighted harmonic mean of each row's precision@k and recall@k.

    With h hits, a row of m labels has (1 + beta²)·h / (beta²·m + k). Greater `beta` favours recall. Other
    parameters and result as for `precision_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import f_beta_at_k
    >>> f_beta_at_k(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]), k=2)
    100.0
    """
    return _gain("F", top, Y, k, beta=beta)


def mrr(top: Rankings, Y: LabelMatrix, k: int | None = None, *, first_only: bool = False) -> float:
    """Compute the mean reciprocal rank of the labels in Y.

    As in Table 1 of the PfastreXML paper, a row's value is the mean of 1/rank over all its labels, and
    labels that are not ranked add 0; so a row with two labels cannot exceed 75. With `first_only` it is
    1/rank of the best-ranked label in Y: the mean reciprocal rank of question answering and search.

    Parameters
    ----------
    top, Y
        As for `precision_at_k`.
    k : int, optional
        Look at k ranks only; ``None`` looks at all that there are.
    first_only : bool, default False
        Take only the first hit of each row.

    Returns
    -------
    float
        Between 0 and 100.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import mrr
    >>> mrr(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]))
    75.0
    >>> mrr(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]), first_only=True)
    100.0
    """
    tally, k = _count(top, Y, k)
    if first_only:
        return _counts.first_reciprocal_rank(tally.counts, k)
    return _counts.plain(tally.counts, "MRR", k)


def adg(top: Rankings, Y: LabelMatrix, k: int | None = None) -> float:
    """Compute the average discounted gain: the mean of 1/log2(1 + rank) over a row's labels.

    Parameters and result as for `mrr`; labels that are not ranked add 0.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import adg
    >>> round(adg(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]])), 2)
    81.55
    """
    tally, k = _count(top, Y, k)
    return _counts.plain(tally.counts, "ADG", k)


def hamming_loss(top: Rankings, Y: LabelMatrix, k: int | None = None) -> float:
    """Compute the Hamming loss: the share of wrong entries when each row's k best labels are predicted.

    A loss: lower is better. Padding predicts nothing, so that a sparse prediction may have any number of
    labels. Parameters as for `mrr`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import hamming_loss
    >>> hamming_loss(np.array([[2, 0, 1]]), np.array([[1, 0, 1, 0]]))
    25.0
    """
    tally, k = _count(top, Y, k)
    return _counts.hamming(tally.counts, k, tally.n_labels)


def coverage_at_k(top: Rankings, Y: LabelMatrix, k: int = 5, *, correct_only: bool = False) -> float:
    """Compute coverage@k: the share of the labels in Y that at least one row has among its k best.

    Low coverage means that a model ranks the same frequent labels everywhere. With `correct_only` a label
    is covered where it is also right. Other parameters and result as for `precision_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import coverage_at_k
    >>> coverage_at_k(np.array([[2, 0], [2, 0]]), np.array([[1, 0, 1], [0, 0, 1]]), k=1)
    50.0
    """
    tally, k = _count(top, Y, k)
    return tally.coverage(k, correct_only=correct_only)


def _count(top: Rankings, Y: LabelMatrix, k: int | None) -> tuple[Tally, int]:
    n_ranks = _inputs.n_ranks_of(top) if k is None else _inputs.check_k("k", k)
    tally = Tally((n_ranks,))
    tally.add(top, Y)
    return tally, n_ranks


def _gain(name: str, top: Rankings, Y: LabelMatrix, k: int, beta: float = 1.0) -> float:
    tally, k = _count(top, Y, k)
    return _counts.plain(tally.counts, name, k, _inputs.check_beta(beta))
