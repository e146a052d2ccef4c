"""Cross-validation with sparse label matrices and stratified folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._rules import Int, check_value
from longtail.model_selection.stratification import stratified_folds, stratified_split


@dataclass(frozen=True)
class StratifiedFolds:
    """Split rows into folds that each have their share of every label; a splitter for scikit-learn's tools.

    Parameters
    ----------
    n_splits : int, default 5
    order : 1 or 2, default 2
        Whether pairs of labels that occur together are spread evenly too.
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.model_selection import StratifiedFolds
    >>> Y = np.repeat(np.eye(3), 4, axis=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in StratifiedFolds(2).split(Y, Y)]
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """

    n_splits: int = 5
    order: int = 2
    random_state: int = 0

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training rows and the test rows of each fold; X and `groups` are ignored."""
        folds = stratified_folds(_label_matrix(y), self.n_splits, order=self.order, random_state=self.random_state)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits


@dataclass(frozen=True)
class StratifiedShuffles:
    """Split rows into a training and a test part several times, each with its share of every label.

    What ``ShuffleSplit`` is to ``KFold``: the parts of different splits overlap, and the number of splits does not
    depend on the size of the test part.

    Parameters
    ----------
    n_splits : int, default 5
    test_share : float in (0, 1), default 0.2
    order : 1 or 2, default 2
        Whether pairs of labels that occur together are spread evenly too.
    random_state : int, default 0

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.model_selection import StratifiedShuffles
    >>> Y = np.repeat(np.eye(3), 10, axis=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in StratifiedShuffles(2, test_share=0.1).split(Y, Y)]
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    n_splits: int = 5
    test_share: float = 0.2
    order: int = 2
    random_state: int = 0

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training rows and the test rows of each split; X and `groups` are ignored."""
        check_value("StratifiedShuffles", "n_splits", self.n_splits, (Int(1),))
        check_value("StratifiedShuffles", "random_state", self.random_state, (Int(0),))
        labels = _label_matrix(y)
        for split in range(self.n_splits):
            seed = int(np.random.SeedSequence([self.random_state, split]).generate_state(1)[0])
            yield stratified_split(labels, self.test_share, order=self.order, random_state=seed)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return self.n_splits


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    params: dict[str, Any] | None = None,
    pre_dispatch: int | str = "2*n_jobs",
    return_train_score: bool = False,
    return_estimator: bool = False,
    return_indices: bool = False,
    error_score: Any = np.nan,
) -> dict[str, Any]:
    """Evaluate by cross-validation: scikit-learn's ``cross_validate`` for sparse label matrices too.

    Arguments and results are those of scikit-learn's function, with two differences: y may be sparse (or lists of
    label names, for a Tagger), and an int `cv` (default 5) gives stratified folds, in which rare labels are on both
    sides wherever possible.

    Parameters
    ----------
    estimator : an estimator, Tagger or Pipeline
    X : matrix of rows, or texts
    y : CSR matrix, 0/1 array, 1-D classes or lists of label names
    scoring : str, callable, list or dict, optional
        ``lt.scorers["psp@5"]`` and the like, scikit-learn's names such as "f1_micro", or several of them.
    cv : int, splitter or iterable of splits, default 5
        An int gives `StratifiedFolds`, and `StratifiedShuffles` is another splitter for label matrices; for 1-D
        classes, an int gives scikit-learn's folds.
    groups, n_jobs, verbose, params, pre_dispatch, return_train_score, return_estimator, return_indices, error_score
        As in scikit-learn. The folds themselves run in parallel with `n_jobs`; an estimator has threads of its own.

    Returns
    -------
    dict of arrays
        fit_time, score_time and test_score (or test_NAME), one entry per fold.

    Examples
    --------
    >>> import longtail as lt
    >>> data = lt.datasets.make_synthetic(n_rows=200, n_features=50, n_labels=10, labels_per_row=2)
    >>> found = lt.model_selection.cross_validate(
    ...     lt.Popularity(), data.X, data.Y, cv=4, scoring={"P@1": lt.scorers["p@1"], "PSP@5": lt.scorers["psp@5"]}
    ... )
    >>> sorted(found)
    ['fit_time', 'score_time', 'test_P@1', 'test_PSP@5']
    >>> found["test_P@1"].shape
    (4,)
    """
    from sklearn import config_context
    from sklearn.model_selection import cross_validate as validate

    # scikit-learn's check of the arguments is all that refuses a sparse y; its folds and scorers take one.
    with config_context(skip_parameter_validation=True):
        found: dict[str, Any] = validate(
            estimator,
            X,
            y,
            groups=groups,
            scoring=scoring,
            cv=_splitter(cv, y),
            n_jobs=n_jobs,
            verbose=verbose,
            params=params,
            pre_dispatch=pre_dispatch,
            return_train_score=return_train_score,
            return_estimator=return_estimator,
            return_indices=return_indices,
            error_score=error_score,
        )
    return found


def cross_val_score(
    estimator: Any, X: Any, y: Any = None, *, scoring: Any = None, cv: Any = None, **options: Any
) -> NDArray[np.float64]:
    """Return the test score of each fold: `cross_validate` for one measure.

    Parameters
    ----------
    estimator, X, y, cv
        As for `cross_validate`.
    scoring : str or callable, optional
        One measure; default: the estimator's ``score``.
    options
        Further options of `cross_validate`.

    Examples
    --------
    >>> import longtail as lt
    >>> data = lt.datasets.make_synthetic(n_rows=200, n_features=50, n_labels=10, labels_per_row=2)
    >>> lt.model_selection.cross_val_score(lt.Popularity(), data.X, data.Y, scoring=lt.scorers["p@1"]).shape
    (5,)
    """
    if scoring is not None and not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(
            f"cross_val_score: scoring must be one measure, got {type(scoring).__name__}; use cross_validate"
        )
    found = cross_validate(estimator, X, y, scoring=scoring, cv=cv, **options)
    return np.asarray(found["test_score"])


def _splitter(cv: Any, y: Any) -> Any:
    if not (cv is None or isinstance(cv, int | np.integer)):
        return cv
    n_splits = 5 if cv is None else int(cv)
    check_value("cross_validate", "cv", n_splits, (Int(2),))
    is_classes = y is None or (not sp.issparse(y) and not _is_names(y) and np.ndim(y) == 1)
    return n_splits if is_classes else StratifiedFolds(n_splits)


def _is_names(y: Any) -> bool:
    return isinstance(y, list | tuple) and len(y) > 0 and isinstance(y[0], list | tuple | set | frozenset)


def _label_matrix(y: Any) -> Any:
    if sp.issparse(y):
        return y
    if not _is_names(y):
        matrix = np.asarray(y)
        if matrix.ndim == 2 and matrix.dtype.kind in "biuf":
            return matrix
        raise ValueError(
            f"stratified splits: y must be a 0/1 matrix or lists of label names, got {matrix.ndim}-D {matrix.dtype}; "
            "use scikit-learn's StratifiedKFold for 1-D classes"
        )
    ids: dict[Any, int] = {}
    columns = [ids.setdefault(name, len(ids)) for row in y for name in set(row)]
    rows = np.repeat(np.arange(len(y)), [len(set(row)) for row in y])
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(y), max(1, len(ids))))
