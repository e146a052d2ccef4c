"""Blend: the best quality, at the cost of several fits."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._estimate import Estimate, one_after_the_other
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import Labels, Matrix
from longtail._progress import Progress
from longtail._rules import Instance, Nothing, Real
from longtail._topk import TopK
from longtail.blend.explanation import blended_contributions
from longtail.blend.held_out import HeldOut
from longtail.blend.members import usual_members
from longtail.blend.weights import blended, gather
from longtail.calibration import Calibration
from longtail.calibration.power import Valued
from longtail.decisions import candidates_for
from longtail.execution import Executor, Run

_Member = Annotated[Any, Instance("XMCClassifier"), Nothing()]
NAMES = ("first", "second", "third", "fourth")
_MIN_ROWS = 2


@dataclass(eq=False)
class _Fits:
    """One fit of a Blend: where its estimators are trained, and what it learns about the blend as a whole."""

    executor: str | Executor | None
    checkpoint: str | os.PathLike[str] | None
    calibration: Calibration | None = None
    run: Run | None = None
    n_fits: int = 0
    n_done: int = 0
    percent: int = 0

    def begin(self, run: Run, n_fits: int) -> None:
        """Report the progress of so many fits to a run."""
        self.run, self.n_fits, self.n_done, self.percent = run, n_fits, 0, 0

    def fit(
        self, model: XMCClassifier, X: Matrix, Y: sp.csr_array, folder: str, weights: NDArray[np.float32] | None
    ) -> None:
        """Fit an estimator, with a folder of its own in the checkpoint."""
        path = None if self.checkpoint is None else Path(self.checkpoint) / folder
        weighted: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        if weighted and "sample_weight" not in signature(model.fit).parameters:
            raise ValueError(f"Blend: sample_weight must be None, because {type(model).__name__} takes no weights")
        model.fit(X, Y, **weighted, executor=self.executor, checkpoint=path, progress=self._report)
        self.n_done += 1

    def _report(self, done: int, total: int) -> None:
        """Report which part of all fits is done, in percent. A fit may count anew; the percentage never falls."""
        if self.run is not None:
            now = (100 * self.n_done + 100 * done // max(total, 1)) // self.n_fits
            self.percent = max(self.percent, now)
            self.run.report("%", self.percent, 100)


@dataclass(frozen=True, eq=False)
class Members(State):
    """The fitted estimators, each with a calibration, and the coefficients of their log-odds."""

    # Of each estimator's log-odds, of these times log(1 + rows of the label), of that logarithm, and the constant.
    # Blends that were saved earlier have none of products.
    coefficients: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True)]
    first: Annotated[Any, "first_", Instance("XMCClassifier")]
    second: Annotated[Any, "second_", Instance("XMCClassifier")]
    third: Annotated[Any, "third_", Instance("XMCClassifier"), Nothing()] = None
    fourth: Annotated[Any, "fourth_", Instance("XMCClassifier"), Nothing()] = None

    @property
    def all(self) -> list[XMCClassifier]:
        return [model for name in NAMES if (model := getattr(self, name)) is not None]

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Members | None:
        places = np.flatnonzero(new_ids >= 0)
        members = {name: getattr(self, name) for name in NAMES}
        smaller = {name: None if model is None else model._with_labels_at(places) for name, model in members.items()}
        if any(smaller[name] is None for name, model in members.items() if model is not None):
            return None
        return Members(self.coefficients, **smaller)

    def check(self, owner: str, facts: Facts) -> None:
        n_members = len(self.all)
        if len(self.coefficients) not in (2 * n_members + 2, n_members + 2):
            raise ValueError(
                f"{owner}: coefficients_ must have {2 * n_members + 2} entries, got {len(self.coefficients)}"
            )
        for model in self.all:
            if (model.n_labels_, model.n_features_in_) != (facts.n_labels, facts.n_features_in):
                raise ValueError(
                    f"{owner}: {type(model).__name__} inside has {model.n_features_in_} features and "
                    f"{model.n_labels_} labels, but there are {facts.n_features_in} and {facts.n_labels}"
                )
            if model.calibration_ is None:
                raise ValueError(f"{owner}: {type(model).__name__} inside is not calibrated")


@dataclass(kw_only=True, eq=False, repr=False)
class Blend(XMCClassifier):
    """Two to four estimators whose calibrated scores are added up.

    Every estimator is trained twice: on all rows, for prediction, and on the rows that are not held out. What its
    scores mean and how much it counts is learnt on the held-out rows: a calibration per estimator, and one logistic
    regression on the log-odds of all of them and the logarithm of the label's training rows, which decides how much
    each of them counts. Estimators of different kinds make different mistakes; the blend is better than its best part,
    at the cost of all of them.

    A Blend is always calibrated, so that ``predict_top_k(X, utility=...)`` works.

    Parameters
    ----------
    first, second : estimators, default DiSMEC(unit_rows=True) and FastXML()
        Trained as they are; each prepares rows in its own way. `combine` takes fitted ones.
    third, fourth : estimators, optional
        `longtail.blend.best_quality` adds a GBDTSparse and a short SLEEC: better, and longer to train.
    held_out : float, default 0.2
        The share of the rows that weights are learnt on.

    Attributes
    ----------
    first_, second_, third_, fourth_ : the fitted estimators, each with a calibration
    coefficients_ : float64 array, of each estimator's log-odds, of these times log(1 + rows of the label), of that
        logarithm, and the constant

    Examples
    --------
    >>> import numpy as np, longtail as lt
    >>> X = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    >>> blend = lt.Blend(first=lt.DiSMEC(n_jobs=1), second=lt.FastXML(n_trees=5, n_jobs=1)).fit(X, X)
    >>> blend.predict_top_k(X[::25], top_k=1).label_ids.ravel()
    array([0, 1, 2, 3], dtype=int32)
    """

    first: _Member = None
    second: _Member = None
    third: _Member = None
    fourth: _Member = None
    held_out: Annotated[float, Real(0.01, 0.9)] = 0.2

    _State: ClassVar = Members
    _ranks_by_value: ClassVar[bool] = True
    _always_calibrates: ClassVar[bool] = True

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        calibrate: bool = True,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels; see the base class. A Blend is calibrated whatever `calibrate` says.

        `sample_weight` goes to the estimators, all of which must take it; held-out rows count alike.
        """
        return self._fit_whole(
            X,
            y,
            sample_weight=sample_weight,
            calibrate=True,
            executor=executor,
            checkpoint=checkpoint,
            progress=progress,
            fits=_Fits(executor, checkpoint),
        )

    def combine(self, X: Any, y: Any) -> Self:
        """Blend estimators that are fitted already: learn only what their scores mean and how much each counts.

        This costs one prediction with each. The estimators stay as they are; the blend holds copies, each with a new
        calibration.

        Parameters
        ----------
        X, y
            Rows that none of the estimators was trained on, and their labels; a thousand or more are good.

        Examples
        --------
        >>> import numpy as np, longtail as lt
        >>> X = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
        >>> parts = lt.DiSMEC(n_jobs=1).fit(X, X), lt.FastXML(n_trees=5, n_jobs=1).fit(X, X)
        >>> blend = lt.Blend(first=parts[0], second=parts[1]).combine(X[::2], X[::2])
        >>> blend.predict_top_k(X[::25], top_k=1).label_ids.ravel()
        array([0, 1, 2, 3], dtype=int32)
        """
        given = {name: model for name in NAMES if (model := getattr(self, name)) is not None}
        if not {"first", "second"} <= set(given):
            raise ValueError("Blend: first and second must be fitted estimators for combine, got None")
        members = {name: copy.copy(model) for name, model in given.items()}
        first = members["first"]
        facts = replace(first._whole().facts, unit_rows=False)
        for model in members.values():
            found = model._whole().facts
            if (found.n_labels, found.n_features_in) != (facts.n_labels, facts.n_features_in):
                raise ValueError(
                    f"Blend: {type(model).__name__} was fitted with {found.n_features_in} features and "
                    f"{found.n_labels} labels, but {type(first).__name__} with {facts.n_features_in} and "
                    f"{facts.n_labels}"
                )
        rows = self._prepared(facts, X)
        Y = self._label_matrix(facts, y, rows.shape[0])
        depth = candidates_for(1, facts.n_labels)
        tops = [model.predict_top_k(rows, depth, utility="score") for model in members.values()]
        held_out = HeldOut(tops, Y, facts.label_counts, facts.n_rows)
        for model, calibration in zip(members.values(), held_out.calibrations(), strict=True):
            model._calibrate_with(calibration)
        coefficients, calibration = held_out.learn(depth)
        self._fitted = Fitted(replace(facts, calibration=calibration), Members(coefficients, **members))
        return self

    def estimate(self, X: Any, Y: Any, *, calibrate: bool = True) -> Estimate:
        """Estimate what ``fit(X, Y)`` will take: all estimators on all rows and on those that are not held out.

        A Blend is calibrated whatever `calibrate` says.
        """
        parts = (model.estimate(X, Y).with_calibration(1 - self.held_out) for model in self._fresh().values())
        return one_after_the_other(parts)

    def _fit(  # type: ignore[override]
        self, X: Matrix, Y: sp.csr_array, run: Run, *, fits: _Fits, row_weights: NDArray[np.float32] | None = None
    ) -> Members:
        n_rows, n_labels = Y.shape
        if n_rows < _MIN_ROWS:
            raise ValueError(
                f"Blend: X must have {_MIN_ROWS} rows or more, some to hold out, got n_samples={n_rows}; "
                "use one estimator"
            )
        order = np.random.default_rng(self.random_state).permutation(n_rows)
        n_held_out = min(n_rows - 1, max(1, round(self.held_out * n_rows)))
        inside, outside = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
        if not np.isin(Y[outside].indices, Y[inside].indices).any():
            raise ValueError(
                "Blend: some held-out rows must have labels that other rows have, got none among "
                f"{n_held_out} of {n_rows} rows; use one estimator"
            )
        counts = np.bincount(Y[inside].indices, minlength=n_labels)
        depth = candidates_for(1, n_labels)
        tops: list[TopK] = []
        fresh = self._fresh()
        fits.begin(run, 2 * len(fresh))
        weights = None if row_weights is None else row_weights[inside]
        for name in list(fresh):
            part = fresh.pop(name)  # one at a time is kept
            fits.fit(part, X[inside], Y[inside], f"{name}-part", weights)
            tops.append(part.predict_top_k(X[outside], depth, utility="score"))
        held_out = HeldOut(tops, Y[outside], counts, len(inside))
        calibrations = held_out.calibrations()
        coefficients, fits.calibration = held_out.learn(depth)
        return Members(coefficients, **self._whole_members(X, Y, row_weights, fits, calibrations))

    def _whole_members(
        self,
        X: Matrix,
        Y: sp.csr_array,
        weights: NDArray[np.float32] | None,
        fits: _Fits,
        calibrations: list[Calibration],
    ) -> dict[str, XMCClassifier]:
        """Fit every estimator on all rows and give it the calibration of its twin."""
        found = self._fresh()
        for (name, model), calibration in zip(found.items(), calibrations, strict=True):
            fits.fit(model, X, Y, name, weights)
            model._calibrate_with(calibration)
        return found

    def _check_held_out(self, Y: sp.csr_array) -> None:
        """Do nothing: `_fit` checks its own held-out rows."""

    def _held_out_calibration(self, X: Matrix, labels: Labels, **how: Any) -> Calibration:
        """Return what `_fit` has learnt on its held-out rows: no further fit is needed."""
        found: Calibration = how["fits"].calibration
        return found

    def _top_k(self, fitted: Fitted[Members], X: Matrix, top_k: int) -> TopK:
        models, tops = self._rankings(fitted, X, top_k)
        candidates = gather(tops, [model.calibration_ for model in models])
        return blended(candidates, fitted.facts.label_counts, fitted.state.coefficients, top_k)

    def _by_value(self, fitted: Fitted[Members], X: Matrix, values: _core.ValueTable, top_k: int) -> Valued:
        # A deep ranking costs no more than a short one.
        top = self._top_k(fitted, X, candidates_for(top_k, fitted.facts.n_labels))
        return Valued(*_core.rank_by_value(*top, values, top_k))

    def _rankings(self, fitted: Fitted[Members], X: Matrix, top_k: int) -> tuple[list[XMCClassifier], list[TopK]]:
        """Let every estimator rank the rows."""
        models = fitted.state.all
        # As deep as in training unless more is asked for: the score of a label must not depend on top_k.
        depth = min(fitted.facts.n_labels, max(candidates_for(1, fitted.facts.n_labels), top_k))
        return models, [model.with_threads(self.n_jobs).predict_top_k(X, depth, utility="score") for model in models]

    def _contributions(self, fitted: Fitted[Members], x_row: Matrix, label_id: int) -> Contributions | None:
        models, tops = self._rankings(fitted, x_row, 1)
        return blended_contributions(models, tops, fitted.state.coefficients, x_row, label_id)

    def _fresh(self) -> dict[str, XMCClassifier]:
        """Return copies of the estimators, not fitted, with the threads of the blend and its seed added to theirs."""
        given = {name: getattr(self, name) for name in NAMES}
        for name, usual in zip(("first", "second"), usual_members(), strict=False):
            given[name] = given[name] or usual
        fresh = {
            name: type(model)(**model.get_params(deep=False)) for name, model in given.items() if model is not None
        }
        for model in fresh.values():
            seed = (model.random_state + self.random_state) % 2**63
            model.set_params(n_jobs=self.n_jobs, random_state=seed)
        return fresh
