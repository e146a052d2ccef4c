"""The protocol that estimators and taggers share: what commands, report, batch prediction and service talk to."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._topk import Tag, TopK


@runtime_checkable
class Model(Protocol):
    """A fitted model: it owns the whole way from what a file holds to ranked labels.

    Its *inputs* are texts or rows of features (`takes_texts`); its labels have names or only ids (`label_names_`).
    """

    @property
    def takes_texts(self) -> bool:
        """Whether inputs are texts; otherwise they are rows of features."""

    @property
    def ranking_options(self) -> frozenset[str]:
        """Names of further options of `predict_top_k` and `propose`, such as n_trees."""

    @property
    def n_features_in_(self) -> int:
        """Features of a row."""

    @property
    def n_labels_(self) -> int:
        """Labels the model knows."""

    @property
    def n_rows_(self) -> int:
        """Rows or texts in training."""

    @property
    def label_counts_(self) -> NDArray[np.int64]:
        """Training rows of each label."""

    @property
    def label_names_(self) -> list[str]:
        """The name of each label; empty where labels are only numbered."""

    @property
    def calibration_(self) -> Any:
        """What turns scores into probabilities; None if the model is not calibrated."""

    def predict_top_k(
        self, X: Any, top_k: int = 5, *, utility: str | None = None, max_loss: float | None = None
    ) -> TopK:
        """Rank the labels of each input."""

    def calibrate(self, X: Any, y: Any, /, *, measure: Any = "micro_f1", floor: float | None = None) -> Self:
        """Learn from held-out inputs what scores mean."""

    def propose(self, inputs: Any, top_k: int | None = 5, *, threshold: Any = None, **ranking: Any) -> list[list[Tag]]:
        """Propose labels for each input, best first, by name where labels have names."""

    def with_parts(self) -> Self:
        """Return a model to search parameters for: one whose parts are all there, though not fitted."""

    def checked_pairs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check inputs and their labels to learn from; return them in a form that rows can be taken from."""

    def encode(self, labels: Any) -> tuple[sp.csr_array, int]:
        """Turn the labels of a data file into a matrix; also return how many were unknown."""

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""

    def with_threads(self, n_jobs: int | None) -> Self:
        """Return the same model, not a copy of its arrays, that uses `n_jobs` threads."""
