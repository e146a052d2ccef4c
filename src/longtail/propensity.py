"""How likely is a relevant label to have been annotated?

Annotators of a page cannot look through a million labels, so labels are missing from the truth, rare ones
most of all. The propensity of a label is the chance that it was given where it is relevant. Section 5 of
the PfastreXML paper (Jain, Prabhu, Varma: Extreme Multi-label Loss Functions, KDD 2016) models it as a
sigmoid of the logarithm of the label's frequency,

    p_l = 1 / (1 + C·exp(-A·log(N_l + B))),    C = (log N - 1)·(B + 1)^A,

where label l occurs in N_l of the N training rows.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The paper estimated the first two from meta-data and averages them for all other data.
PRESETS: dict[str, tuple[float, float]] = {
    "wikipedia": (0.5, 0.4),
    "amazon": (0.6, 2.6),
    "default": (0.55, 1.5),
}

_ROWS_AT_ONCE = 4096


class SparseMatrix(Protocol):
    """Any of scipy's sparse arrays and matrices, known without importing scipy."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def tocsr(self) -> Any: ...


@dataclass(frozen=True)
class PropensityModel:
    """The sigmoid model of propensities, with the paper's parameters A and B.

    Parameters
    ----------
    a : float, default 0.55
        How fast the propensity grows with the frequency of a label; >= 0.
    b : float, default 1.5
        Added to the number of rows of a label; > 0.

    Examples
    --------
    >>> from longtail.propensity import PropensityModel
    >>> PropensityModel.preset("wikipedia")
    PropensityModel(a=0.5, b=0.4)
    >>> PropensityModel().from_counts([1, 10, 1000], n_rows=10_000).round(3)
    array([0.109, 0.22 , 0.767])
    """

    a: float = PRESETS["default"][0]
    b: float = PRESETS["default"][1]

    def __post_init__(self) -> None:
        if not 0 <= self.a < float("inf"):
            raise ValueError(f"PropensityModel: a must be a number >= 0, got {self.a!r}")
        if not 0 < self.b < float("inf"):
            raise ValueError(f"PropensityModel: b must be a number > 0, got {self.b!r}")

    @classmethod
    def preset(cls, name: str) -> "PropensityModel":
        """Take the parameters that the paper gives for "wikipedia", "amazon", or "default" for other data."""
        if name not in PRESETS:
            raise ValueError(f"PropensityModel: preset must be one of {', '.join(PRESETS)}, got {name!r}")
        return cls(*PRESETS[name])

    def from_counts(self, label_counts: ArrayLike, n_rows: int) -> NDArray[np.float64]:
        """Give the propensity of each label; as `from_counts`, with this model."""
        counts = _check_counts("label_counts", label_counts)
        _check_n_rows(n_rows)
        return _sigmoid(counts, n_rows, self.a, self.b)

    def from_labels(self, Y: ArrayLike | SparseMatrix) -> NDArray[np.float64]:
        """Give the propensity of each label; as `from_labels`, with this model."""
        matrix: Any = Y if hasattr(Y, "tocsr") else np.asarray(Y)
        if len(matrix.shape) != 2:
            raise ValueError(
                f"Y must be a sparse or dense 0/1 matrix of shape (n_rows, n_labels), got shape {matrix.shape}"
            )
        label_counts = np.asarray((matrix != 0).sum(axis=0)).reshape(-1)
        return self.from_counts(label_counts, matrix.shape[0])


def from_counts(label_counts: ArrayLike, n_rows: int, *, preset: str = "default") -> NDArray[np.float64]:
    """Give the propensity of each label from how often it occurs.

    For other parameters than the paper's use ``PropensityModel(a, b).from_counts``.

    Parameters
    ----------
    label_counts : array of shape (n_labels,)
        Number of training rows that have each label.
    n_rows : int
        Number of training rows.
    preset : {"default", "wikipedia", "amazon"}
        Which of the paper's models to take.

    Returns
    -------
    ndarray of shape (n_labels,), float64
        In (0, 1].

    Examples
    --------
    >>> from longtail import propensity
    >>> propensity.from_counts([1, 10, 1000], n_rows=10_000, preset="amazon").round(3)
    array([0.109, 0.205, 0.781])
    """
    return PropensityModel.preset(preset).from_counts(label_counts, n_rows)


def from_labels(Y: ArrayLike | SparseMatrix, *, preset: str = "default") -> NDArray[np.float64]:
    """Give the propensity of each label from the training labels.

    Parameters
    ----------
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
        Labels of the training rows (not of the test rows).
    preset : {"default", "wikipedia", "amazon"}
        Which of the paper's models to take.

    Returns
    -------
    ndarray of shape (n_labels,), float64
        In (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from longtail import propensity
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 0]])
    >>> propensity.from_labels(Y).round(3)
    array([0.8  , 0.721])
    """
    return PropensityModel.preset(preset).from_labels(Y)


def positive_weights(
    kind: str, label_counts: ArrayLike, n_rows: int, *, model: PropensityModel | None = None, beta: float = 0.9
) -> NDArray[np.float32]:
    """Give the weight of the positives of each label in training.

    Parameters
    ----------
    kind : {"propensity", "unbiased", "class-balanced"}
        1/p; 2/p - 1, the convex surrogate of the unbiased loss; or the latter times (1 - beta) / (1 - beta^N), which
        counts the N rows of a label as fewer the more there are. Qaraei, Schultheis, Gupta and Babbar: *Convex
        surrogates for unbiased loss functions in extreme classification with missing labels*, WWW 2021.
    label_counts : array of shape (n_labels,)
        Number of training rows that have each label.
    n_rows : int
        Number of training rows.
    model : PropensityModel, optional
        Default: the paper's, A = 0.55 and B = 1.5.
    beta : float in [0, 1), default 0.9

    Examples
    --------
    >>> from longtail import propensity
    >>> propensity.positive_weights("class-balanced", [1, 10, 1000], n_rows=10_000).round(2)
    array([17.42,  1.24,  0.16], dtype=float32)
    """
    counts = _check_counts("label_counts", label_counts)
    inverse = 1 / (model or PropensityModel.preset("default")).from_counts(counts, n_rows)
    if kind == "propensity":
        return inverse.astype(np.float32)
    unbiased = 2 * inverse - 1
    if kind == "unbiased":
        return unbiased.astype(np.float32)
    # A label without rows has no positives to weigh.
    return np.asarray(unbiased * (1 - beta) / (1 - beta ** np.maximum(counts, 1)), dtype=np.float32)


def complete_counts(Y: ArrayLike | SparseMatrix, parents: ArrayLike, *, min_descendants: int = 5) -> NDArray[np.int64]:
    """Count the rows to which each label is relevant, from a hierarchy: what `fit` takes as complete counts.

    A label that is relevant to a row makes all its ancestors relevant, annotated or not (section 5 of the paper). The
    estimate is for labels with enough descendants only.

    Parameters
    ----------
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
        Labels of the training rows.
    parents : int array of shape (n_pairs, 2)
        Pairs of a label and a parent of it; a label may have several. Cycles, as in Wikipedia's categories, are
        allowed: their labels are ancestors of each other.
    min_descendants : int, default 5
        Labels with fewer descendants get 0, which `fit` leaves out.

    Returns
    -------
    ndarray of shape (n_labels,), int64

    Examples
    --------
    >>> import numpy as np
    >>> from longtail import propensity
    >>> Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])  # label 0 is the parent of 1, and 1 of 2
    >>> propensity.complete_counts(Y, [(1, 0), (2, 1)], min_descendants=1)
    array([4, 3, 0])
    """
    import scipy.sparse as sp

    labels = sp.csr_array(Y) != 0
    n_labels = int(labels.shape[1])
    pairs = np.asarray(parents)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"complete_counts: parents must be pairs (label, parent) of ints, got shape {pairs.shape} of {pairs.dtype}"
        )
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n_labels:
        raise ValueError(
            f"complete_counts: parents must be labels in [0, {n_labels}), got {pairs.min()} to {pairs.max()}"
        )
    if min_descendants < 0:
        raise ValueError(f"complete_counts: min_descendants must be an int >= 0, got {min_descendants!r}")
    ones = np.ones(len(pairs), dtype=bool)
    ancestors = sp.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(n_labels, n_labels)) + sp.eye_array(
        n_labels, dtype=bool, format="csr"
    )
    n_before = -1
    while ancestors.nnz != n_before:  # paths of twice the length each time
        n_before = ancestors.nnz
        ancestors = sp.csr_array((ancestors @ ancestors) != 0)
    counts = np.zeros(n_labels, dtype=np.int64)
    for first in range(0, labels.shape[0], _ROWS_AT_ONCE):
        relevant = sp.csr_array(labels[first : first + _ROWS_AT_ONCE] @ ancestors)
        counts += np.bincount(relevant.indices[relevant.data != 0], minlength=n_labels)
    n_descendants = np.bincount(ancestors.indices, minlength=n_labels) - 1
    return np.where(n_descendants >= min_descendants, counts, 0)


def fit(
    observed_counts: ArrayLike, complete_counts: ArrayLike, n_rows: int, *, labels_per_bin: int = 20
) -> PropensityModel:
    """Fit A and B to labels whose complete counts are known, as section 5 of the paper does.

    The propensity of a label is estimated as its observed count over its complete count. Labels of similar
    frequency are put into bins of equal size, and the curve is fitted to the bins' mean propensities by
    least squares.

    Parameters
    ----------
    observed_counts : array of shape (n_labels,)
        Number of training rows annotated with each label.
    complete_counts : array of shape (n_labels,)
        Number of training rows to which each label is relevant; never less than the observed count. Labels
        with 0 are left out.
    n_rows : int
        Number of training rows.
    labels_per_bin : int, default 20
        Labels in a bin; the last bin may have more.

    Returns
    -------
    PropensityModel

    Examples
    --------
    >>> import numpy as np
    >>> from longtail import propensity
    >>> observed = np.arange(1, 2001)
    >>> complete = observed / propensity.from_counts(observed, n_rows=100_000, preset="wikipedia")
    >>> model = propensity.fit(observed, complete, n_rows=100_000, labels_per_bin=1)
    >>> round(model.a, 3), round(model.b, 3)
    (0.5, 0.4)
    """
    from scipy.optimize import least_squares  # slow to import, and only needed here

    _check_n_rows(n_rows)
    counts, propensities = _bins(observed_counts, complete_counts, labels_per_bin)

    def residuals(parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return _sigmoid(counts, n_rows, parameters[0], parameters[1]) - propensities

    # The residuals have more than one valley where bins are few: start from each of the paper's models.
    fits = [
        least_squares(residuals, start, bounds=([0.0, 1e-6], [np.inf, np.inf]), x_scale="jac", xtol=1e-12)
        for start in PRESETS.values()
    ]
    best = min(fits, key=lambda fitted: float(fitted.cost))
    return PropensityModel(float(best.x[0]), float(best.x[1]))


def _bins(
    observed_counts: ArrayLike, complete_counts: ArrayLike, labels_per_bin: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean count and mean propensity of each bin of an equi-height histogram over the observed counts."""
    observed = _check_counts("observed_counts", observed_counts)
    complete = _check_counts("complete_counts", complete_counts)
    if observed.shape != complete.shape:
        raise ValueError(
            f"observed_counts and complete_counts must have the same length, got {len(observed)} and {len(complete)}"
        )
    if np.any(observed > complete):
        label_id = int(np.argmax(observed > complete))
        raise ValueError(
            f"complete_counts must not be less than observed_counts, "
            f"got {complete[label_id]:g} and {observed[label_id]:g} for label {label_id}"
        )
    if labels_per_bin < 1:
        raise ValueError(f"labels_per_bin must be an int >= 1, got {labels_per_bin!r}")
    is_known = complete > 0
    observed, complete = observed[is_known], complete[is_known]
    n_bins = len(observed) // labels_per_bin
    if n_bins < 2:
        raise ValueError(
            f"fit needs two bins of labels with a complete count, got {len(observed)} labels "
            f"for bins of {labels_per_bin}; lower labels_per_bin"
        )
    order = np.argsort(observed, kind="stable")
    bins = np.array_split(order, n_bins)
    propensities = observed / complete
    return (
        np.array([observed[label_ids].mean() for label_ids in bins]),
        np.array([propensities[label_ids].mean() for label_ids in bins]),
    )


def _sigmoid(counts: NDArray[np.float64], n_rows: int, a: float, b: float) -> NDArray[np.float64]:
    # Below e rows C would be negative and p above 1: so few rows say nothing, and nothing is scored up.
    c = max(0.0, np.log(n_rows) - 1.0) * (b + 1.0) ** a
    propensities: NDArray[np.float64] = 1.0 / (1.0 + c * (counts + b) ** -a)
    return propensities


def _check_counts(name: str, counts: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(counts, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} must be one number per label, got {values.ndim} dimensions")
    is_good = np.isfinite(values) & (values >= 0)
    if not is_good.all():
        label_id = int(np.argmin(is_good))
        raise ValueError(f"{name} must be finite and >= 0, got {values[label_id]!r} for label {label_id}")
    return values


def _check_n_rows(n_rows: int) -> None:
    if n_rows < 1:
        raise ValueError(f"n_rows must be an int >= 1, got {n_rows!r}")
