"""A fitted tagger as an object: its state, its public attributes, and what it answers without ranking a text."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._estimator import Estimator
from longtail._rules import Int, check_value
from longtail.auto import Auto
from longtail.calibration import Calibration
from longtail.datasets import texts_and_labels
from longtail.datasets.in_memory import is_table
from longtail.tagging.inputs import checked_inputs
from longtail.tagging.label_names import checked_names
from longtail.tagging.state import TaggerState
from longtail.tagging.vectorizer import TextVectorizer
from longtail.vocabulary import Vocabulary


class FittedTagger(Estimator):
    """A tagger that holds its fitted state in `_fitted`: one frozen object, assigned once and read once a call."""

    estimator: XMCClassifier | Auto | None
    vectorizer: TextVectorizer | Literal["tfidf"] | None

    def search_labels(self, query: str, limit: int = 20, *, unseen: bool = False) -> list[str]:
        """Find labels by a part of a name; those that begin with it first, frequent ones first.

        Parameters
        ----------
        query : str
            A part of the label itself, or of one of its names in the vocabulary, in any language.
        limit : int, default 20
        unseen : bool, default False
            Also find labels that only the vocabulary knows.
        """
        state = self._whole()
        check_value("Tagger", "limit", limit, (Int(1),))
        labels = state.searched_labels if unseen else state.label_names
        return [labels[label_id] for label_id in state.search.find(query, limit, len(labels))]

    def count_texts(self, names: Iterable[str]) -> list[int]:
        """Count the training texts of each of these labels; 0 for labels that only the vocabulary knows."""
        state = self._whole()
        wanted = state.known_names("count_texts", names)
        counts, ids = state.estimator.label_counts_, state.label_ids
        return [int(counts[ids[name]]) if name in ids else 0 for name in wanted]

    def check_labels(self, what: str, names: Iterable[str]) -> None:
        """Raise ValueError unless every name is that of a label of the model or of its vocabulary.

        Parameters
        ----------
        what : str
            What the names are, for the message.
        names : names of labels
        """
        self._whole().known_names(what, names)

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""
        state = self._whole()
        calibration = state.calibration
        return state.estimator.card() | {
            "vectorizer": None if state.vectorizer is None else state.vectorizer.params(),
            "n_blocked": len(self._blocked()),
            "calibration": None
            if calibration is None
            else {**calibration.params(), "n_rows": calibration.n_rows_, "ece": calibration.ece_},
            "metrics": dict(state.metrics),
            "evaluated_on": state.evaluated_on,
            "text_columns": state.text_columns,
        }

    def encode(self, labels: Sequence[Iterable[str]]) -> tuple[sp.csr_array, int]:
        """Turn label names into a matrix over the known labels; also return how many names were unknown."""
        return self._whole().encode(labels)

    def with_threads(self, n_jobs: int | None) -> Self:
        """Return the same fitted tagger with another number of threads; arrays are shared."""
        state = self._whole()
        made = copy.copy(self)
        made._put(replace(state, estimator=state.estimator.with_threads(n_jobs)))
        return made

    # ---- fitted attributes -------------------------------------------------------------------------------------------

    @property
    def takes_texts(self) -> bool:
        """Whether inputs are texts; without a vectorizer they are rows of features."""
        return self._whole().vectorizer is not None

    @property
    def ranking_options(self) -> frozenset[str]:
        """Names of further options of `predict_top_k`: none."""
        return frozenset()

    @property
    def n_features_in_(self) -> int:
        """Features of a row."""
        return self._whole().estimator.n_features_in_

    @property
    def n_labels_(self) -> int:
        """Labels the tagger knows."""
        return self._whole().estimator.n_labels_

    @property
    def n_rows_(self) -> int:
        """Texts in training."""
        return self._whole().estimator.n_rows_

    @property
    def label_counts_(self) -> NDArray[np.int64]:
        """Training texts of each label."""
        return self._whole().estimator.label_counts_

    @property
    def label_names_(self) -> list[str]:
        """The names of the labels; empty before `fit`."""
        state = self._state
        return [] if state is None else state.label_names

    @property
    def example_texts_(self) -> list[str]:
        """A few short training texts."""
        state = self._state
        return [] if state is None else state.example_texts

    @property
    def text_columns_(self) -> dict[str, int] | None:
        """Columns of a table that texts are made of, with their weights; None for plain texts and a column "text"."""
        state = self._state
        return None if state is None else state.text_columns

    @property
    def vocabulary_(self) -> Vocabulary | None:
        """What `set_vocabulary` was given."""
        state = self._state
        return None if state is None else state.vocabulary

    @property
    def can_tag_unseen(self) -> bool:
        """Whether `tag_unseen` can be called."""
        state = self._state
        return state is not None and state.vocabulary is not None and state.name_weights is not None

    @property
    def calibration_(self) -> Calibration | None:
        """What `calibrate` learnt."""
        state = self._state
        return None if state is None else state.calibration

    @property
    def metrics_(self) -> dict[str, float]:
        """What `evaluate` measured last."""
        state = self._state
        return {} if state is None else state.metrics

    # ---- the fitted state --------------------------------------------------------------------------------------------

    @property
    def _state(self) -> TaggerState | None:
        return self.__dict__.get("_fitted")

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def _whole(self) -> TaggerState:
        """Return the fitted state. Read once per call, so that a refit in another thread cannot mix two models."""
        state = self._state
        if state is None:
            raise ValueError("Tagger: not fitted yet; call fit(texts, labels) first")
        state.estimator._whole()  # raises if its files, or those of the tagger, were found damaged
        return state

    def _put(self, state: TaggerState) -> None:
        """Make a state the tagger's own; predictions read `_fitted` only."""
        self._fitted = state
        self.estimator, self.vectorizer = state.estimator, state.vectorizer

    def _checked(self, state: TaggerState, texts: Any) -> Any:
        if state.text_columns is not None and is_table(texts):
            return texts_and_labels(texts, text_weights=state.text_columns).texts
        return checked_inputs(state.vectorizer, texts)

    # ---- blocked labels ----------------------------------------------------------------------------------------------

    @property
    def blocked(self) -> Iterable[str]:
        """Labels that are never proposed; may be set at any time."""
        return self._given_blocked

    @blocked.setter
    def blocked(self, names: Iterable[str]) -> None:
        if not isinstance(names, Iterable):
            raise TypeError(f"Tagger: blocked must be a list of label names, got {names!r}")
        checked = checked_names("blocked", names)
        self._given_blocked = tuple(checked) if isinstance(names, Iterator) else names

    def _blocked(self) -> frozenset[str]:
        return frozenset(checked_names("blocked", self.blocked))  # a list may have changed since
