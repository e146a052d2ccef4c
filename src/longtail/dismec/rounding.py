"""Round the weights of labels to int8.

Most weights of a label are small, and a few are ten times as large. One scale for all of them would be coarse for the
small ones, so the largest _EXACT_SHARE of a label's weights are kept as float32, and the scale is that of the others:
a fifth of the error of scores on EURLex-4K, for a fifth of a byte per weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_EXACT_SHARE = 0.05
_LARGEST_CODE = 127


@dataclass(frozen=True, eq=False)
class Steps:
    """How each label is rounded: weights above `limits` are exact, all others are multiples of `scales`."""

    scales: NDArray[np.float32]
    limits: NDArray[np.float32]

    @classmethod
    def zeros(cls, n_labels: int) -> Steps:
        """Make room for the steps of some labels."""
        return cls(np.zeros(n_labels, np.float32), np.zeros(n_labels, np.float32))

    @classmethod
    def of(cls, indptr: NDArray[np.integer], weights: NDArray[np.float32]) -> Steps:
        """Choose the steps of label-major weights."""
        found = cls.zeros(len(indptr) - 1)
        sizes = np.abs(weights)
        for place in np.flatnonzero(np.diff(indptr)).tolist():
            own = sizes[indptr[place] : indptr[place + 1]]
            n_coded = len(own) - int(np.ceil(_EXACT_SHARE * len(own)))
            if n_coded:
                found.limits[place] = np.partition(own, n_coded - 1)[n_coded - 1]
            # A label without codes needs some scale all the same: exact weights are stored in units of it.
            found.scales[place] = found.limits[place] / np.float32(_LARGEST_CODE) or np.float32(1)
        return found

    def round(self, weights: NDArray[np.float32], places: NDArray[np.integer]) -> Rounded:
        """Round weights of the labels at `places`."""
        is_exact = np.abs(weights) > self.limits[places]
        scales = self.scales[places]
        ratios = np.divide(weights, scales, out=np.zeros_like(weights), where=~is_exact & (scales > 0))
        codes = np.rint(ratios).astype(np.int8)
        return Rounded(codes, is_exact, np.where(is_exact, weights, codes * scales))


@dataclass(frozen=True, eq=False)
class Rounded:
    """Codes of weights, which of them are exact instead (code 0), and what both stand for."""

    codes: NDArray[np.int8]
    is_exact: NDArray[np.bool_]
    values: NDArray[np.float32]

    @property
    def is_kept(self) -> NDArray[np.bool_]:
        """Weights that do not become zero."""
        return np.asarray(self.is_exact | (self.codes != 0))
