"""Propose labels without a single example, by how much of their names lies in a text.

The overlap of a name with a text is the share of its words (weighted by how few names have them) and of its runs of
characters that occur in the text; a label counts by its best name. Labels *with* examples show what an overlap is
worth: on held-out texts, the probability that a label is right is a logistic function of both overlaps, of whether the
whole name lies in the text, and of how special its words are. This takes labels without examples to be like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail.tagging.vectorizer import TextVectorizer
from longtail.vocabulary import Vocabulary

N_WEIGHTS = 5
_BLOCK = 64
_MIN_WORD_OVERLAP = 0.5
_MIN_CHARACTER_OVERLAP = 0.75
_WHOLE = 0.999
_MAX_STEPS = 50
_RIDGE = 1e-2


@dataclass(frozen=True)
class Match:
    """Pairs of texts and labels whose names overlap enough."""

    row_ids: NDArray[np.int64]
    label_places: NDArray[np.int64]
    words: NDArray[np.float64]
    characters: NDArray[np.float64]
    weights: NDArray[np.float64]  # of the names: the sums of their words' idf


class NameMatcher:
    """An index of the names of some labels of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        names = [(place, name) for place, label in enumerate(labels) for name in _names(vocabulary, label)]
        self._places = np.array([place for place, _ in names], dtype=np.int64)
        spellings = [name for _, name in names]
        plain: dict[str, Any] = {"min_df": 1, "sublinear_tf": False, "unit_rows": False}
        self._words = _Index(TextVectorizer(**plain), spellings)
        self._characters = _Index(TextVectorizer(**plain, max_ngram=0, min_chars=4, max_chars=4), spellings)

    def match(self, texts: Sequence[str]) -> Match:
        """Find the labels whose names lie in texts."""
        parts = [self._match_block(texts[i : i + _BLOCK], i) for i in range(0, len(texts), _BLOCK)]
        columns = [np.concatenate([part[k] for part in parts]) if parts else np.zeros(0) for k in range(5)]
        return Match(columns[0].astype(np.int64), columns[1].astype(np.int64), *columns[2:])

    def _match_block(self, texts: Sequence[str], first: int) -> tuple[NDArray[np.float64], ...]:
        words, characters = self._words.overlaps(texts), self._characters.overlaps(texts)
        near = sp.csr_array(words >= _MIN_WORD_OVERLAP) + sp.csr_array(characters >= _MIN_CHARACTER_OVERLAP)
        rows, names = sp.csr_array(near).nonzero()
        values = np.asarray(words[rows, names]).ravel(), np.asarray(characters[rows, names]).ravel()
        places = self._places[names]
        # The best name of each label.
        order = np.lexsort((-(values[0] + values[1]), places, rows))
        rows, places = rows[order], places[order]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = (np.diff(rows) != 0) | (np.diff(places) != 0)
        chosen = order[is_first]
        best = values[0][chosen], values[1][chosen], self._words.weights[names[chosen]]
        return (rows[is_first] + first, places[is_first], *best)


class _Index:
    """The features of names, and how much of them texts have."""

    def __init__(self, vectorizer: TextVectorizer, names: Sequence[str]) -> None:
        self._vectorizer: TextVectorizer | None
        try:
            self._vectorizer = vectorizer.fit(names)
        except ValueError:  # no name has a word
            self._vectorizer, self._features = None, sp.csr_array((len(names), 1), dtype=np.float32)
            self.weights = np.zeros(len(names))
            return
        features = self._vectorizer.transform(names)
        sums = np.asarray(features.sum(axis=1)).ravel()
        features.data /= np.repeat(np.where(sums > 0, sums, 1), np.diff(features.indptr))
        self._features = features
        self.weights = sums.astype(np.float64)

    def overlaps(self, texts: Sequence[str]) -> sp.csr_array:
        """Return the share of each name that lies in each text, sparse (n_texts, n_names)."""
        if self._vectorizer is None:
            return sp.csr_array((len(texts), self._features.shape[0]))
        found = self._vectorizer.transform(texts)
        found.data[:] = 1
        return sp.csr_array(found @ self._features.T)


def learn_weights(
    vocabulary: Vocabulary,
    label_names: Sequence[str],
    label_counts: NDArray[np.int64],
    texts: Sequence[str],
    labels: Sequence[Iterable[str]],
) -> NDArray[np.float64]:
    """Learn from labels with examples how probable a label is whose name overlaps with a text."""
    places = [i for i, name in enumerate(label_names) if name in vocabulary and label_counts[i] > 0]
    if not places:
        raise ValueError("Tagger: no label of the tagger is in the vocabulary; its ids must be the labels of the data")
    matcher = NameMatcher(vocabulary, [label_names[i] for i in places])
    found = matcher.match(texts)
    wanted = [set(row) for row in labels]
    hits = np.array(
        [
            matcher.labels[place] in wanted[row]
            for row, place in zip(found.row_ids.tolist(), found.label_places.tolist(), strict=True)
        ],
        dtype=np.float64,
    )
    if len(hits) == 0 or hits.min() == hits.max():
        raise ValueError(
            f"Tagger: {len(texts)} held-out texts hold too few names of labels to learn from; give more texts"
        )
    return _logistic_fit(_design(found), hits)


def proba_of(match: Match, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how probable matched labels without examples are."""
    return np.asarray(1 / (1 + np.exp(-np.clip(_design(match) @ weights, -30, 30))))


def _names(vocabulary: Vocabulary, label: str) -> list[str]:
    return vocabulary[label].all_names()


def _design(match: Match) -> NDArray[np.float64]:
    ones, is_whole = np.ones(len(match.words)), match.words > _WHOLE
    return np.column_stack([ones, match.words, match.characters, is_whole, np.log1p(match.weights)])


def _logistic_fit(X: NDArray[np.float64], hits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit by Newton steps; the small ridge keeps the weights finite."""
    weights = np.zeros(X.shape[1])
    for _ in range(_MAX_STEPS):
        proba = 1 / (1 + np.exp(-np.clip(X @ weights, -30, 30)))
        gradient = X.T @ (proba - hits) + _RIDGE * weights
        hessian = (X * (proba * (1 - proba))[:, None]).T @ X + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights -= step / max(1.0, float(np.abs(step).max()) / 4)
        if np.abs(step).max() < 1e-8:
            break
    return weights
