"""The fitted state of DiSMEC: an inverted index from features to label weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State
from longtail._rules import Int

Native = tuple[
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.float32] | None,
    NDArray[np.int8] | None,
    NDArray[np.float32] | None,
    NDArray[np.float32],
]


@dataclass(frozen=True, eq=False)
class WeightIndex(State):
    """Weights by feature: those of feature f are label_ids[indptr[f]:indptr[f + 1]], labels increasing.

    Weights are float32, or int8 `codes` times the label's scale; the arrays of the other kind are empty.
    """

    indptr: Annotated[NDArray[np.int64], "index_indptr_", ArraySpec(np.int64, ndim=1, min=0)]
    label_ids: Annotated[NDArray[np.int32], "index_label_ids_", ArraySpec(np.int32, ndim=1, min=0)]
    weights: Annotated[NDArray[np.float32], "index_weights_", ArraySpec(np.float32, ndim=1, finite=True)]
    codes: Annotated[NDArray[np.int8], "index_codes_", ArraySpec(np.int8, ndim=1)]
    scales: Annotated[NDArray[np.float32], "label_scales_", ArraySpec(np.float32, ndim=1, finite=True, min=0)]
    biases: Annotated[NDArray[np.float32], "biases_", ArraySpec(np.float32, ndim=1, finite=True)]

    @property
    def is_int8(self) -> bool:
        """Whether weights are codes; every label then has a scale."""
        return len(self.scales) > 0

    def native(self) -> Native:
        """Return the parts as native functions take them: None for the kind of weights that is not used."""
        if self.is_int8:
            return self.indptr, self.label_ids, None, self.codes, self.scales, self.biases
        return self.indptr, self.label_ids, self.weights, None, None, self.biases

    def weights_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 weights at positions of the index."""
        if self.is_int8:
            return (self.codes[places] * self.scales[self.label_ids[places]]).astype(np.float32)
        return np.asarray(self.weights[places])

    def keep_labels(self, new_ids: NDArray[np.int32]) -> WeightIndex:
        is_kept = new_ids >= 0
        entries = is_kept[self.label_ids]
        running = np.zeros(len(entries) + 1, dtype=np.int64)
        np.cumsum(entries, out=running[1:])
        return WeightIndex(
            running[self.indptr],
            new_ids[self.label_ids[entries]],
            self.weights if self.is_int8 else self.weights[entries],
            self.codes[entries] if self.is_int8 else self.codes,
            self.scales[is_kept] if self.is_int8 else self.scales,
            self.biases[is_kept],
        )

    def check(self, owner: str, facts: Facts) -> None:
        unused = {"index_weights_": self.weights} if self.is_int8 else {"index_codes_": self.codes}
        for name, array in unused.items():
            if len(array):
                kind = "int8" if self.is_int8 else "float32"
                raise ValueError(f"{owner}: {name} must be empty where weights are {kind}, got {len(array)} entries")
        _core.check_ova_index(facts.n_features_in, facts.n_labels, *self.native(), facts.label_counts)


@dataclass(frozen=True, eq=False)
class OneVsAll(State):
    """The weights of all labels, and what a later fit needs to know about how they came about."""

    index: WeightIndex
    # A hash of everything that each label's result depends on: unchanged labels are not trained again.
    label_prints: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1)]
    n_unconverged: Annotated[int, Int(0)]
    statistics: dict[str, NDArray[Any]] | None = None

    def keep_labels(self, new_ids: NDArray[np.int32]) -> OneVsAll:
        return OneVsAll(self.index.keep_labels(new_ids), self.label_prints[new_ids >= 0], self.n_unconverged)

    def check(self, owner: str, facts: Facts) -> None:
        self.index.check(owner, facts)
        if len(self.label_prints) != facts.n_labels:
            raise ValueError(
                f"{owner}: label_prints_ has {len(self.label_prints)} entries, but there are {facts.n_labels} labels"
            )
