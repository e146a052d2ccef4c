"""What a calibration learns: the surface, the thresholds and the rules of the rankings, as one frozen object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import current_control
from longtail._part import PartState
from longtail._rules import Int, Nothing, Real
from longtail.calibration.power import Curves, curves_of
from longtail.calibration.row_rules import RULE_KS
from longtail.calibration.surface import Surface
from longtail.propensity import from_counts


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibrationState(PartState):
    """The fitted attributes of a Calibration, which documents them."""

    score_knots: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True)]
    count_knots: Annotated[NDArray[np.float64], ArraySpec(np.float64, ndim=1, finite=True, min=0)]
    log_odds: Annotated[NDArray[np.float64], ArraySpec(np.float64, shape=(None, None), finite=True)]
    label_counts: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    map_of_label: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]
    thresholds: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True)]
    # One rule for each of RULE_KS; models that were saved earlier have one without that axis, for five labels.
    row_slopes: Annotated[NDArray[np.float32], ArraySpec(np.float32, finite=True, min=0)]
    row_offsets: Annotated[NDArray[np.float32], ArraySpec(np.float32, finite=True)]
    ece: Annotated[float, Real(0, 1)]
    n_rows: Annotated[int, Int(1)]
    n_training_rows: Annotated[int, Int(1)]
    balanced_power: Annotated[float | None, Real(0, 1), Nothing()]
    balanced_share: Annotated[float, Real(0, 1)]

    def proba(self, label_ids: NDArray[Any], scores: NDArray[Any], n_threads: int = 1) -> NDArray[np.float32]:
        """Return the probability that each label is right."""
        return proba_on(self.surface, self.label_counts, label_ids, scores, n_threads)

    @property
    def surface(self) -> Surface:
        """The log-odds by score and number of training rows."""
        return Surface(self.score_knots, self.count_knots, self.log_odds)

    @cached_property
    def inverse_propensities(self) -> NDArray[np.float64]:
        """1/p of each label under the standard propensity model."""
        return np.asarray(1 / from_counts(self.label_counts, self.n_training_rows))

    @cached_property
    def curves(self) -> Curves:
        """The surface and the propensities by number of training rows, for rankings."""
        return curves_of(self.surface, self.label_counts, self.n_training_rows)

    def check_whole(self) -> None:
        """Raise ValueError unless the loaded arrays agree with each other."""
        n_thresholds, n_labels = len(self.thresholds), len(self.label_counts)
        if n_thresholds == 0 or (n_labels and int(self.map_of_label.max(initial=0)) >= n_thresholds):
            raise ValueError(f"Calibration: map_of_label_ must name one of {n_thresholds} thresholds")
        for name in ("map_of_label", "row_slopes", "row_offsets"):
            shape = getattr(self, name).shape
            if shape[-1:] != (n_labels,):
                n_found = shape[-1] if shape else 0
                raise ValueError(f"Calibration: {name}_ has {n_found} labels, but label_counts_ has {n_labels}")
        if self.row_slopes.shape[:-1] not in ((), (len(RULE_KS),)) or self.row_offsets.shape != self.row_slopes.shape:
            raise ValueError(
                f"Calibration: row_slopes_ and row_offsets_ must hold {len(RULE_KS)} rules, got shapes "
                f"{self.row_slopes.shape} and {self.row_offsets.shape}"
            )
        for name in ("score_knots", "count_knots"):
            knots = getattr(self, name)
            if len(knots) < 2 or (np.diff(knots) <= 0).any():
                raise ValueError(f"Calibration: {name}_ must be two or more rising numbers")
        if self.log_odds.shape != (len(self.count_knots), len(self.score_knots)):
            raise ValueError(
                f"Calibration: log_odds_ must have shape {(len(self.count_knots), len(self.score_knots))}, "
                f"got {self.log_odds.shape}"
            )
        if (np.diff(self.log_odds, axis=1) < 0).any():
            raise ValueError("Calibration: log_odds_ must not fall with the score")


def proba_on(
    surface: Surface, label_counts: NDArray[np.int64], label_ids: NDArray[Any], scores: NDArray[Any], n_threads: int
) -> NDArray[np.float32]:
    """Return the probability of each label on a surface."""
    shape = np.shape(label_ids)
    if shape != np.shape(scores):
        raise ValueError(
            f"Calibration: label_ids and scores must have the same shape, got {shape} and {np.shape(scores)}"
        )
    columns = shape[-1] if len(shape) else 1
    rows = (-1, columns) if columns else (0, 0)
    found = _core.calibrated_proba(
        np.ascontiguousarray(label_ids, dtype=np.int32).reshape(rows),
        np.ascontiguousarray(scores, dtype=np.float32).reshape(rows),
        label_counts,
        *surface,
        n_threads,
        current_control(),
    )
    return np.asarray(found).reshape(shape)
