"""Learn from held-out rows what the scores of several estimators mean, and how much each of them counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._topk import TopK
from longtail.blend.weights import Candidates, Floats, blended, features_of, fit_logistic, gather
from longtail.calibration import Calibration, find_hits


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The rankings of held-out rows by each estimator, with the truth."""

    tops: list[TopK]
    Y: sp.csr_array
    label_counts: NDArray[np.int64]  # in the training of the estimators
    n_training_rows: int

    def calibrations(self, row_ids: NDArray[np.int64] | slice = slice(None)) -> list[Calibration]:
        """Calibrate each estimator on some of the rows."""
        return [
            Calibration().fit(_at(top, row_ids), self.Y[row_ids], self.label_counts, self.n_training_rows)
            for top in self.tops
        ]

    def learn(self, depth: int) -> tuple[Floats, Calibration]:
        """Return the coefficients of the estimators' log-odds, and the calibration of the blend.

        The log-odds of a row come from calibrations that have not seen it: one per half of the rows.
        """
        folds = self._folds()
        candidates: list[Candidates] = []
        for judged, seen in folds:
            candidates.append(gather([_at(top, judged) for top in self.tops], self.calibrations(seen)))
        features, hits = [], []
        for (judged, _), found in zip(folds, candidates, strict=True):
            is_label = found.label_ids >= 0
            features.append(features_of(found, self.label_counts)[is_label])
            hits.append(find_hits(found.label_ids, self.Y[judged])[is_label])
        coefficients = fit_logistic(np.concatenate(features), np.concatenate(hits))
        ranked = [blended(found, self.label_counts, coefficients, depth) for found in candidates]
        whole = TopK(*(np.concatenate(part) for part in zip(*ranked, strict=True)))
        Y = sp.csr_array(sp.vstack([self.Y[judged] for judged, _ in folds], format="csr"))
        return coefficients, Calibration().fit(whole, Y, self.label_counts, self.n_training_rows)

    def _folds(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return rows to judge and rows to calibrate on: either half, or all of them if a half has no hit."""
        rows = np.arange(self.Y.shape[0])
        even, odd = rows[::2], rows[1::2]
        halves = [(even, odd), (odd, even)]
        has_hits = all(
            find_hits(_at(top, half).label_ids, self.Y[half]).any() for half, _ in halves for top in self.tops
        )
        return halves if has_hits else [(rows, rows)]


def _at(top: TopK, row_ids: NDArray[np.int64] | slice) -> TopK:
    return TopK(np.ascontiguousarray(top.label_ids[row_ids]), np.ascontiguousarray(top.scores[row_ids]))
