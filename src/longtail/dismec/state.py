"""The fitted state of DiSMEC: an inverted index from features to label weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._fitted import Facts, State
from longtail._rules import Int

Exact = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
Native = tuple[
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.float32] | None,
    NDArray[np.int8] | None,
    NDArray[np.float32] | None,
    Exact | None,
    NDArray[np.float32],
]


@dataclass(frozen=True, eq=False)
class WeightIndex(State):
    """Weights by feature: those of feature f are label_ids[indptr[f]:indptr[f + 1]], labels increasing.

    Weights are float32 and codes empty, or weights are int8 `codes` times the label's scale. Then a few large ones are
    exact: `weights` holds those whose code is 0, in order. Models of format 2 and older have none, and 0 is a weight.
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

    @classmethod
    def packed(
        cls,
        indptr: NDArray[np.int64],
        label_ids: NDArray[np.int32],
        weights: NDArray[np.float32],
        codes: NDArray[np.int8],
        scales: NDArray[np.float32],
        biases: NDArray[np.float32],
    ) -> WeightIndex:
        """Make an index from weights as `unpacked` returns them."""
        if len(scales):
            weights = weights[codes == 0] if weights.any() else weights[:0]
        return cls(indptr, label_ids, weights, codes, scales, biases)

    def unpacked(self) -> NDArray[np.float32]:
        """Return the float32 weight of each entry; of an int8 index the exact ones, and 0 where the code counts."""
        if not self.is_int8:
            return self.weights
        weights = np.zeros(len(self.codes), dtype=np.float32)
        weights[self._exact_places] = self.weights
        return weights

    def native(self) -> Native:
        """Return the parts as native functions take them: None for the kind of weights that is not used."""
        if self.is_int8:
            return self.indptr, self.label_ids, None, self.codes, self.scales, self._exact, self.biases
        return self.indptr, self.label_ids, self.weights, None, None, None, self.biases

    @cached_property
    def _exact_places(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.codes == 0) if len(self.weights) else np.zeros(0, dtype=np.int64)

    @cached_property
    def _exact(self) -> Exact | None:
        """Exact weights by feature, divided by the label's scale."""
        if not len(self.weights):
            return None
        label_ids = self.label_ids[self._exact_places]
        scales = self.scales[label_ids]
        weights = (self.weights / np.where(scales > 0, scales, np.float32(1))).astype(np.float32)
        return np.searchsorted(self._exact_places, self.indptr).astype(np.int64), label_ids, weights

    def weights_at(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 weights at positions of the index."""
        if not self.is_int8:
            return np.asarray(self.weights[places])
        weights = (self.codes[places] * self.scales[self.label_ids[places]]).astype(np.float32)
        if len(self.weights):
            is_exact = self.codes[places] == 0
            weights[is_exact] = self.weights[np.searchsorted(self._exact_places, places[is_exact])]
        return weights

    def keep_labels(self, new_ids: NDArray[np.int32]) -> WeightIndex:
        is_kept = new_ids >= 0
        entries = is_kept[self.label_ids]
        running = np.zeros(len(entries) + 1, dtype=np.int64)
        np.cumsum(entries, out=running[1:])
        return WeightIndex.packed(
            running[self.indptr],
            new_ids[self.label_ids[entries]],
            self.unpacked()[entries],
            self.codes[entries] if self.is_int8 else self.codes,
            self.scales[is_kept] if self.is_int8 else self.scales,
            self.biases[is_kept],
        )

    def check(self, owner: str, facts: Facts) -> None:
        if not self.is_int8 and len(self.codes):
            raise ValueError(
                f"{owner}: index_codes_ must be empty where weights are float32, got {len(self.codes)} entries"
            )
        if self.is_int8 and len(self.weights):
            n_exact = np.count_nonzero(np.equal(self.codes, 0))
            if len(self.weights) != n_exact:
                raise ValueError(
                    f"{owner}: index_weights_ must have an entry for each of the {n_exact} codes that are 0, or none "
                    f"where weights are int8, got {len(self.weights)} entries"
                )
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
