"""Changes of a fitted DiSMEC: labels come and go, corrections, new features."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from longtail._fitted import Fitted
from longtail._matrices import Matrix, checked_labels
from longtail._progress import Progress
from longtail._threads import resolve_n_jobs
from longtail.dismec import updating
from longtail.dismec.index import append_labels, drop_labels
from longtail.dismec.label_prints import append_statistics
from longtail.dismec.linear_classifier import LinearClassifier
from longtail.dismec.outcome import warn_of_unconverged
from longtail.dismec.state import OneVsAll
from longtail.execution import Run


class ChangeableDiSMEC(LinearClassifier):
    """The ways to change a fitted model. Each computes a new state first and puts it in place last, as one object."""

    if TYPE_CHECKING:
        loss: str
        cost: float
        bias: float
        prune_below: float
        max_iterations: int
        tolerance: float

        def _train(self, X: Matrix, Y: sp.csr_array, run: Run, label_ids: NDArray[Any]) -> OneVsAll:
            """Train the given columns of Y; the others come out empty."""

        def _label_prints(self, X: Matrix, Y: sp.csr_array) -> NDArray[np.int64]:
            """Return a number per label that depends on all that its training depends on."""

    def add_labels(self, X: Any, Y_new: Any, *, progress: Progress = None) -> Self:
        """Train new labels and put them behind the old ones, which stay as they are, byte for byte.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
            Rows to train on: usually those of ``fit``, or newer ones.
        Y_new : CSR matrix or 0/1 array (n_rows, n_new_labels)
            The new labels get the ids n_labels_, n_labels_ + 1, …
        """
        fitted = self._whole()
        facts, state = fitted.facts, fitted.state
        if facts.classes is not None:
            raise ValueError("DiSMEC: add_labels needs a model that was fitted on a label matrix, not on 1-D classes")
        X = self._prepared(facts, X)
        labels = checked_labels("DiSMEC", Y_new, X.shape[0])
        if labels.classes is not None:
            raise ValueError("DiSMEC: Y_new must be a 0/1 matrix with one column per new label")
        Y = labels.Y
        with Run("DiSMEC", resolve_n_jobs(self.n_jobs), progress=progress) as run:
            new = self._train(X, Y, run, np.arange(Y.shape[1]))
        counts = np.bincount(Y.indices, minlength=Y.shape[1]).astype(np.int64)
        self._fitted = Fitted(
            facts.with_labels(
                np.append(np.arange(facts.n_labels), np.full(Y.shape[1], -1)),
                np.concatenate([facts.label_counts, counts]),
            ),
            replace(
                state,
                index=append_labels(state.index, new.index),
                label_prints=np.concatenate([state.label_prints, self._label_prints(X, Y)]),
                n_unconverged=state.n_unconverged + new.n_unconverged,
                statistics=append_statistics(state.statistics, new.statistics),
            ),
        )
        warn_of_unconverged(new.n_unconverged, Y.shape[1], max_iterations=self.max_iterations, tolerance=self.tolerance)
        return self

    def remove_labels(self, label_ids: ArrayLike) -> Self:
        """Forget labels: they are never predicted again. The ids of all others, and their weights, stay.

        Parameters
        ----------
        label_ids : int array
        """
        fitted = self._whole()
        facts, state = fitted.facts, fitted.state
        ids = np.asarray(label_ids)
        if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= facts.n_labels):
            raise ValueError(f"DiSMEC: label_ids must be ints in [0, {facts.n_labels}), got {label_ids!r}")
        dropped = np.zeros(facts.n_labels, dtype=bool)
        dropped[ids.astype(np.int64)] = True
        self._fitted = Fitted(
            replace(facts, label_counts=np.where(dropped, 0, facts.label_counts)),
            replace(
                state,
                index=drop_labels(state.index, dropped),
                label_prints=np.where(dropped, 0, state.label_prints),
            ),
        )
        return self

    def correct_labels(
        self, X: Any, label_ids: ArrayLike, right: Any, wrong: Any = None, *, complete: ArrayLike | bool = True
    ) -> Self:
        """Change the weights of some labels by a few rows, without the training rows; all others stay, byte for byte.

        `longtail.dismec.updating` says what is minimised. Ids from `n_labels_` on are new labels.

        Parameters
        ----------
        X : CSR matrix or array (n_rows, n_features)
        label_ids : increasing int array (n_corrected,)
        right, wrong : CSR matrix or 0/1 array (n_rows, n_corrected)
            Labels that a row has, and labels that it has not.
        complete : bool or array (n_rows,) of bool or of floats in [0, 1], default True
            Rows without the labels that are not in `right`. In other rows nothing is known of a label that is in
            neither matrix; only new labels count as absent. A number between 0 and 1 is the chance that a label
            which the row has would be in `right`.

        Examples
        --------
        >>> import numpy as np, longtail as lt
        >>> X = np.eye(3, dtype=np.float32)
        >>> model = lt.DiSMEC(n_jobs=1).fit(X, np.array([[1, 0], [0, 1], [0, 1]]))
        >>> model.correct_labels(X[1:2], [0, 1], np.array([[1, 0]])).predict_top_k(X[1:2], 1).label_ids
        array([[0]], dtype=int32)
        """
        fitted = self._whole()
        facts, state = fitted.facts, fitted.state
        if facts.classes is not None:
            raise ValueError("DiSMEC: correct_labels needs a model that was fitted on a label matrix, not on classes")
        ids = np.asarray(label_ids, dtype=np.int64)
        n_labels = max(facts.n_labels, int(ids.max(initial=-1)) + 1)
        if ids.ndim != 1 or (np.diff(ids) <= 0).any() or (len(ids) and ids[0] < 0):
            raise ValueError(f"DiSMEC: label_ids must be increasing ints >= 0, got {label_ids!r}")
        if n_labels - facts.n_labels > np.count_nonzero(ids >= facts.n_labels):
            raise ValueError(f"DiSMEC: label_ids must name every new label from {facts.n_labels} on, got {label_ids!r}")
        rows = sp.csr_array(self._prepared(facts, X))
        corrections = updating.Corrections.checked(rows, ids, right, wrong, complete)
        settings = updating.Solver(self.loss, float(self.cost), float(self.bias), float(self.prune_below))
        index = updating.correct(settings, state.index, facts.label_counts, facts.n_rows, corrections)
        counts = np.append(facts.label_counts, np.zeros(n_labels - facts.n_labels, np.int64))
        counts[ids] += corrections.n_right
        places = np.append(np.arange(facts.n_labels), np.full(n_labels - facts.n_labels, -1))
        prints = np.append(state.label_prints, np.zeros(n_labels - facts.n_labels, np.int64))
        prints[ids] = 0  # never equal: a later fit trains them again
        self._fitted = Fitted(
            replace(facts.with_labels(places, counts), n_rows=facts.n_rows + rows.shape[0]),
            OneVsAll(index, prints, state.n_unconverged),
        )
        return self

    def insert_features(self, places: ArrayLike) -> Self:
        """Insert features without weights before the features at increasing `places`; scores do not change."""
        fitted = self._whole()
        before = np.asarray(places, dtype=np.int64)
        if len(before) and (before.min() < 0 or before.max() > fitted.facts.n_features_in):
            raise ValueError(f"DiSMEC: places must lie in [0, {fitted.facts.n_features_in}], got {places!r}")
        facts = replace(fitted.facts, n_features_in=fitted.facts.n_features_in + len(before), feature_names_in=None)
        state = fitted.state
        index = updating.insert_features(state.index, before)
        self._fitted = Fitted(facts, OneVsAll(index, np.zeros_like(state.label_prints), state.n_unconverged))
        return self

    def labels_changed_since(
        self, before: ChangeableDiSMEC, label_ids: ArrayLike, inserted: ArrayLike = ()
    ) -> NDArray[np.int64]:
        """Return those of some labels whose weights are not the same bits as in an earlier model.

        Parameters
        ----------
        before : DiSMEC
        label_ids : int array, labels of the earlier model
        inserted : int array, default none
            The places that were given to `insert_features` in between.
        """
        ids, places = np.asarray(label_ids, dtype=np.int64), np.asarray(inserted, dtype=np.int64)
        return updating.changed_labels(before._whole().state.index, self._whole().state.index, ids, places)
