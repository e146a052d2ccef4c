"""Propensity-scored metrics: unbiased where labels are missing from Y, and generous to rare labels.

A hit of label l counts 1/p_l, where the propensity p_l is the chance that a relevant label was annotated (see
`longtail.propensity`). All functions take ``top`` and ``Y`` as the plain metrics do, and
``propensity``: an array with one value in (0, 1] per label, or a sparse matrix with an entry wherever Y has
one.

The value is 100 · G(predicted) / G(truth) as in the PfastreXML paper: a sum over all rows divided by the
same sum for the best possible rankings, which put each row's rarest labels first. ``normalize=False`` gives
100 · G(predicted), the unbiased estimate of the plain metric on the complete truth, which may exceed 100.
"""

from numpy.typing import ArrayLike

from longtail.metrics import _counts, _inputs
from longtail.metrics._inputs import LabelMatrix, Propensities, Rankings
from longtail.metrics._tally import Tally


def psprecision_at_k(
    top: Rankings, Y: LabelMatrix, propensity: Propensities, k: int = 5, *, normalize: bool = True
) -> float:
    """Compute the propensity-scored precision@k (PSP@k).

    Parameters
    ----------
    top : TopK, int array of shape (n_rows, at least k) or sparse score matrix of shape (n_rows, n_labels)
        Ranked label ids of each row, best first, padded with -1.
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
        Labels of the same rows.
    propensity : array of shape (n_labels,) or sparse matrix of shape (n_rows, n_labels)
        Propensities in (0, 1].
    k : int, default 5
        Ranks to look at.
    normalize : bool, default True
        Divide by the value of the best possible rankings.

    Returns
    -------
    float
        Between 0 and 100 if normalised.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psprecision_at_k
    >>> top, Y, propensity = np.array([[0, 1]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1]
    >>> psprecision_at_k(top, Y, propensity, k=1)
    50.0
    >>> psprecision_at_k(top, Y, propensity, k=2)
    100.0
    """
    return _gain("P", top, Y, propensity, k, normalize=normalize)


def psndcg_at_k(
    top: Rankings, Y: LabelMatrix, propensity: Propensities, k: int = 5, *, normalize: bool = True
) -> float:
    """Compute the propensity-scored nDCG@k (PSnDCG@k).

    Unlike `ndcg_at_k`, which normalises row by row, this divides the sums over all rows (Table 1 of
    the paper). Parameters and result as for `psprecision_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psndcg_at_k
    >>> psndcg_at_k(np.array([[1, 0]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1], k=2)
    100.0
    """
    return _gain("nDCG", top, Y, propensity, k, normalize=normalize)


def psrecall_at_k(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int = 5,
    *,
    normalize: bool = True,
    n_relevant: ArrayLike | None = None,
) -> float:
    """Compute the propensity-scored recall@k.

    Parameters
    ----------
    top, Y, propensity, k, normalize
        As for `psprecision_at_k`.
    n_relevant : int array of shape (n_rows,), optional
        How many labels each row has in the complete truth. The estimate is unbiased only with them (Theorem
        4.2 of the paper); without, the number of labels in Y stands in.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psrecall_at_k
    >>> top, Y, propensity = np.array([[0, 1]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1]
    >>> psrecall_at_k(top, Y, propensity, k=1)
    50.0
    """
    return _gain("recall", top, Y, propensity, k, normalize=normalize, n_relevant=n_relevant)


def psf_beta_at_k(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int = 5,
    *,
    beta: float = 1.0,
    normalize: bool = True,
    n_relevant: ArrayLike | None = None,
) -> float:
    """Compute the propensity-scored F_beta@k.

    Parameters as for `psrecall_at_k`, `beta` as for `f_beta_at_k`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psf_beta_at_k
    >>> psf_beta_at_k(np.array([[1, 0]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1], k=1)
    100.0
    """
    return _gain("F", top, Y, propensity, k, beta=beta, normalize=normalize, n_relevant=n_relevant)


def psmrr(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int | None = None,
    *,
    normalize: bool = True,
    n_relevant: ArrayLike | None = None,
) -> float:
    """Compute the propensity-scored mean reciprocal rank, over all ranks that there are or the first k.

    Other parameters as for `psrecall_at_k`; see `mrr` for what is averaged.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psmrr
    >>> psmrr(np.array([[0, 1]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1])
    80.0
    """
    return _gain("MRR", top, Y, propensity, k, normalize=normalize, n_relevant=n_relevant)


def psadg(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int | None = None,
    *,
    normalize: bool = True,
    n_relevant: ArrayLike | None = None,
) -> float:
    """Compute the propensity-scored average discounted gain, over all ranks that there are or the first k.

    Other parameters as for `psrecall_at_k`; see `adg` for what is averaged.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import psadg
    >>> psadg(np.array([[1, 0]]), np.array([[1, 1, 0]]), [1.0, 0.5, 0.1])
    100.0
    """
    return _gain("ADG", top, Y, propensity, k, normalize=normalize, n_relevant=n_relevant)


def pshamming_loss(top: Rankings, Y: LabelMatrix, propensity: Propensities, k: int | None = None) -> float:
    """Estimate the Hamming loss on the complete truth, without bias (Theorem 4.4 of the paper).

    A loss, as a percentage of all entries; lower is better. It is an estimate from incomplete labels and not
    normalised, so a good prediction may get a value below 0. Parameters as for `psmrr`.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import pshamming_loss
    >>> pshamming_loss(np.array([[0, 2]]), np.array([[1, 1, 0, 0]]), [1.0, 0.5, 0.1, 0.1])
    75.0
    """
    tally, k = _count(top, Y, propensity, k)
    return _counts.scored_hamming(tally.counts, k, tally.n_labels)


def _count(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int | None,
    n_relevant: ArrayLike | None = None,
) -> tuple[Tally, int]:
    n_ranks = _inputs.n_ranks_of(top) if k is None else _inputs.check_k("k", k)
    tally = Tally((n_ranks,))
    tally.add(top, Y, propensity, n_relevant)
    return tally, n_ranks


def _gain(
    name: str,
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities,
    k: int | None,
    *,
    beta: float = 1.0,
    normalize: bool,
    n_relevant: ArrayLike | None = None,
) -> float:
    tally, k = _count(top, Y, propensity, k, n_relevant)
    return _counts.scored(tally.counts, name, k, _inputs.check_beta(beta), normalize=normalize)
