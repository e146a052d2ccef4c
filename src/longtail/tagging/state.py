"""The fitted state of a Tagger."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail.calibration import Calibration
from longtail.datasets.in_memory import column_names, label_lists, matrix_columns
from longtail.tagging.history import Change, ChangeKind, Lineage
from longtail.tagging.label_names import checked_names, indicator
from longtail.tagging.label_search import LabelSearch
from longtail.tagging.name_matching import NameMatcher
from longtail.tagging.vectorizer import TextVectorizer
from longtail.vocabulary import Vocabulary

# Labels that a message about an unknown one suggests. Spellings are compared with at most so many: 50 ms.
_N_ALIKE = 3
_MAX_COMPARED = 10_000


@dataclass(frozen=True, eq=False)
class TaggerState:
    """A whole fitted tagger: what turns texts into ranked names. Replaced as one object, never changed."""

    estimator: XMCClassifier
    vectorizer: TextVectorizer | None
    label_names: list[str]
    example_texts: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    evaluated_on: dict[str, Any] | None = None
    vocabulary: Vocabulary | None = None
    name_weights: NDArray[np.float64] | None = None  # what overlaps of names are worth; see name_matching
    # Columns of a table that texts are made of, with their weights, where they are not just "text".
    text_columns: dict[str, int] | None = None
    # Columns of the 0/1 matrix that labels came in, if they did: `predict` returns such a matrix. Labels that were
    # added later are columns behind these.
    label_columns: list[str] | None = None
    changes: tuple[Change, ...] = ()  # since the training
    lineage: Lineage | None = None  # of a model that `longtail learn` made

    def with_labels_changed(self, names: Mapping[str, str | None]) -> TaggerState:
        """Return the same state with new names, or removals (None), on record: corrections may know the old ones."""
        return replace(self, changes=(*self.changes, Change.of_labels(names)))

    def with_change(self, kind: ChangeKind) -> TaggerState:
        """Return the same state with a change on record, if it was learnt: it may be made again from another model."""
        return self if self.lineage is None else replace(self, changes=(*self.changes, Change(kind)))

    @property
    def calibration(self) -> Calibration | None:
        """What turns scores into probabilities: a part of the estimator."""
        found: Calibration | None = self.estimator.calibration_
        return found

    @cached_property
    def label_ids(self) -> dict[str, int]:
        """The id of each name."""
        return {name: label_id for label_id, name in enumerate(self.label_names)}

    @cached_property
    def searched_labels(self) -> list[str]:
        """The labels of the model, and behind them those that only the vocabulary knows and that are not retired."""
        known = self.label_ids
        others = (concept for concept in self.vocabulary or () if not concept.retired)
        return [*self.label_names, *(concept.id for concept in others if concept.id not in known)]

    @cached_property
    def column_names(self) -> list[str] | None:
        """The columns of the matrices that `predict` returns; None if it returns names."""
        known = self.label_columns
        return None if known is None else list(dict.fromkeys([*known, *self.label_names]))

    @cached_property
    def search(self) -> LabelSearch:
        """An index of the labels and of all their names in the vocabulary, built when it is first used."""
        labels, counts = self.searched_labels, np.asarray(self.estimator.label_counts_)
        counts = np.append(counts, np.zeros(len(labels) - len(counts), dtype=counts.dtype))
        spellings = [(label_id, label) for label_id, label in enumerate(labels)]
        if self.vocabulary is not None:
            spellings += [
                (label_id, name)
                for label_id, label in enumerate(labels)
                if label in self.vocabulary
                for name in self.vocabulary[label].all_names()
                if name != label
            ]
        return LabelSearch([name for _, name in spellings], counts, np.array([i for i, _ in spellings], dtype=np.int64))

    @cached_property
    def unseen(self) -> NameMatcher | None:
        """The labels of the vocabulary without training texts, by their names."""
        if self.vocabulary is None:
            return None
        known, counts = self.label_ids, self.estimator.label_counts_
        labels = [
            concept.id
            for concept in self.vocabulary
            if not concept.retired and (concept.id not in known or counts[known[concept.id]] == 0)
        ]
        return NameMatcher(self.vocabulary, labels) if labels else None

    def rows(self, texts: Any) -> Any:
        """Turn texts into rows of features; rows stay as they are when there is no vectorizer."""
        if self.vectorizer is None:
            return texts
        return self.vectorizer.transform(texts, n_jobs=self.estimator.n_jobs)

    def ids_of(self, what: str, names: Iterable[str]) -> list[int]:
        """Look names up; an unknown one is an error that suggests known ones."""
        wanted = checked_names(what, names)
        for name in wanted:
            if name not in self.label_ids:
                raise ValueError(self._no_label(what, name, len(self.label_names)))
        return [self.label_ids[name] for name in wanted]

    def known_names(self, what: str, names: Iterable[str]) -> list[str]:
        """Return names of labels of the model or of its vocabulary; any other is an error that suggests such ones."""
        wanted = checked_names(what, names)
        for name in wanted:
            if name not in self.label_ids and (self.vocabulary is None or name not in self.vocabulary):
                raise ValueError(self._no_label(what, name, len(self.searched_labels)))
        return wanted

    def _no_label(self, what: str, name: str, n_searched: int) -> str:
        labels = self.searched_labels[:n_searched]
        alike = [labels[label_id] for label_id in self.search.find(name, _N_ALIKE, n_searched)]
        if not alike and n_searched <= _MAX_COMPARED:
            alike = difflib.get_close_matches(name, labels, n=_N_ALIKE)
        suggested = f"; there is {', '.join(map(repr, alike))}" if alike else ""
        return f"Tagger: {what}: there is no label {name!r}{suggested}"

    def encode(self, labels: Any) -> tuple[sp.csr_array, int]:
        """Turn label names into a matrix over the known labels; also return how many names were unknown."""
        ids = self.label_ids
        is_plain_matrix = column_names(labels) is None and matrix_columns(labels) is not None
        rows = label_lists(labels, label_names=self.column_names if is_plain_matrix else None)
        n_names = sum(map(len, rows))
        n_unknown = sum(name not in ids for row in rows for name in row)
        if is_plain_matrix and self.column_names is None and n_unknown == n_names > 0:
            raise ValueError(
                f"Tagger: labels must hold names that the tagger knows, such as {self.label_names[0]!r}; got a matrix "
                f"whose columns have no names; give lists of names, or fit on a matrix too"
            )
        return indicator([[ids[name] for name in row if name in ids] for row in rows], len(ids)), n_unknown
