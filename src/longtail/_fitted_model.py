"""A fitted estimator as an object: its public attributes, its card, and what it answers without ranking a row."""

from __future__ import annotations

import copy
import platform
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._dense_scores import NEEDS_CALIBRATION
from longtail._estimator import Estimator
from longtail._fitted import Facts, Fitted, State
from longtail._matrices import checked_labels
from longtail._version import __version__
from longtail.calibration import Calibration


class FittedModel(Estimator):
    """An estimator that holds its fitted state in `_fitted`: one frozen object, assigned once and read once a call."""

    _State: ClassVar[type[State]] = State
    # Options of `predict_top_k` besides those of all estimators.
    _ranking_options: ClassVar[frozenset[str]] = frozenset()

    # ---- the protocol of models (_model.py) --------------------------------------------------------------------------

    @property
    def takes_texts(self) -> bool:
        """Inputs are rows of features; a Tagger takes texts."""
        return False

    @property
    def ranking_options(self) -> frozenset[str]:
        """Names of the options of `predict_top_k` that not every estimator has."""
        return self._ranking_options

    @property
    def label_names_(self) -> list[str]:
        """Labels are only numbered here; a Tagger has names."""
        return []

    @property
    def calibration_(self) -> Any:
        """What turns scores into probabilities; None if the model is not calibrated."""
        return self._facts.calibration if self.__sklearn_is_fitted__() else None

    def encode(self, labels: Any) -> tuple[sp.csr_array, int]:
        """Check a 0/1 label matrix against the labels of the model; nothing is unknown (0)."""
        Y = sp.csr_array(labels)
        n_labels = self._whole().facts.n_labels
        if Y.shape[1] != n_labels:
            raise ValueError(f"the data has {Y.shape[1]} labels, but {type(self).__name__} was fitted with {n_labels}")
        return checked_labels(type(self).__name__, Y, Y.shape[0]).Y, 0

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""
        facts = self._whole().facts
        params = self.get_params(deep=False)
        counts = np.sort(facts.label_counts)
        return {
            "estimator": type(self).__name__,
            "parameters": {
                name: value if value is None or isinstance(value, bool | int | float | str) else repr(value)
                for name, value in params.items()
            },
            "n_rows": facts.n_rows,
            "n_features": facts.n_features_in,
            "n_labels": facts.n_labels,
            "label_counts": {
                "least": int(counts[0]),
                "median": float(np.median(counts)),
                "greatest": int(counts[-1]),
                "n_labels_up_to_5": int((counts <= 5).sum()),
                "labels_per_row": float(counts.sum() / facts.n_rows),
            },
            "metrics": facts.metrics or {},
            "evaluated_on": facts.evaluated_on,
            "instruction_set": facts.instruction_set,
            "versions": {"longtail": __version__, "python": platform.python_version()},
        }

    def with_threads(self, n_jobs: int | None) -> Self:
        """Return the same fitted model with another `n_jobs`; arrays are shared."""
        return copy.copy(self).set_params(n_jobs=n_jobs)

    # ---- fitted attributes -------------------------------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """Columns of X in training."""
        return self._facts.n_features_in

    @property
    def n_labels_(self) -> int:
        """Labels the model knows."""
        return self._facts.n_labels

    @property
    def n_rows_(self) -> int:
        """Rows in training."""
        return self._facts.n_rows

    @property
    def label_counts_(self) -> NDArray[np.int64]:
        """Training rows of each label."""
        return self._facts.label_counts

    @property
    def classes_(self) -> NDArray[Any]:
        """The values of a 1-D y; the label ids if y was a matrix."""
        facts = self._facts
        return np.arange(facts.n_labels) if facts.classes is None else facts.classes

    def __getattr__(self, name: str) -> Any:
        """Read the public attributes of the fitted state."""
        fitted = self.__dict__.get("_fitted")
        if fitted is not None and name in fitted.public:
            return fitted.public[name]
        if fitted is None and hasattr(type(self), name):  # a property that needs a fitted model
            self._check_fitted()
        if name == "predict_proba":
            raise AttributeError(f"{type(self).__name__}: {NEEDS_CALIBRATION}")
        hint = "; it is not fitted yet" if fitted is None and name.endswith("_") else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("_") and not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__}: {name} is part of the fitted model and cannot be set")
        super().__setattr__(name, value)

    # ---- the fitted state --------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    def _whole(self) -> Fitted[Any]:
        """Return the fitted model, or raise NotFittedError. Read once per call, so that a refit cannot mix two."""
        self._check_fitted()
        fitted: Fitted[Any] = self.__dict__["_fitted"]
        if fitted.facts.verification is not None:
            fitted.facts.verification.check()
        return fitted

    @property
    def _facts(self) -> Facts:
        fitted: Fitted[Any] | None = self.__dict__.get("_fitted")
        if fitted is None:
            raise AttributeError(f"{type(self).__name__} is not fitted yet")
        return fitted.facts

    def _fitted_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the model as they are saved, by public name."""
        fitted = self._whole()
        return {name: fitted.public[name] for name in (*Facts.declared().arrays, *self._State.declared().arrays)}

    def _with_labels_at(self, places: NDArray[np.int64]) -> Self | None:
        """Return a copy of the model with the labels at these increasing ids only; None if it cannot remove labels."""
        fitted = self._whole()
        new_ids = np.full(fitted.facts.n_labels, -1, dtype=np.int32)
        new_ids[places] = np.arange(len(places), dtype=np.int32)
        state = fitted.state.keep_labels(new_ids)
        if state is None:
            return None
        smaller = copy.copy(self)
        smaller._fitted = Fitted(fitted.facts.with_labels(places, fitted.facts.label_counts[places]), state)
        return smaller

    def _calibrate_with(self, calibration: Calibration) -> None:
        """Take over the calibration of a model of the same kind that was trained on other rows."""
        fitted = self._whole()
        moved = calibration.for_model(fitted.facts.label_counts, fitted.facts.n_rows)
        self._fitted = Fitted(replace(fitted.facts, calibration=moved), fitted.state)
