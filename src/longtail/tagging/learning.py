"""Learn from corrections: change the corrected labels, add new labels and words, measure what was learnt."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._words import counted
from longtail.tagging.completeness import known_and_unknown, n_candidates, share_named
from longtail.tagging.label_names import indicator
from longtail.tagging.state import TaggerState

# With fewer held-back texts than this the shares say nothing.
_MIN_HELD_BACK = 5
# New labels that are named in a summary: a misspelt one should be seen.
_MAX_SHOWN = 5


class Verdicts(NamedTuple):
    """What is known of each text: the labels that are right, those that are wrong, whether the right ones are all."""

    inputs: Any
    right: list[list[str]]
    wrong: list[list[str]]
    is_complete: NDArray[np.bool_]

    def at(self, row_ids: NDArray[np.int64]) -> Verdicts:
        """Return the verdicts on some of the texts."""
        chosen = row_ids.tolist()
        inputs = [self.inputs[i] for i in chosen] if isinstance(self.inputs, list) else self.inputs[row_ids]
        right, wrong = [self.right[i] for i in chosen], [self.wrong[i] for i in chosen]
        return Verdicts(inputs, right, wrong, self.is_complete[row_ids])

    @property
    def names(self) -> list[str]:
        """All labels that are spoken of."""
        return sorted({name for rows in (self.right, self.wrong) for row in rows for name in row})


@dataclass(frozen=True)
class Learnt:
    """What a tagger has learnt from corrections.

    Attributes
    ----------
    n_texts : int, texts that it learnt from
    n_corrected : int, labels that were changed, the new ones included
    new_labels : list of str
    n_new_words : int, words and character n-grams that were added to the vectorizer
    n_held_back : int
        Texts that the measured model did not learn from; 0 if there were too few. The tagger itself learnt from all.
    precision, recall : tuple of two floats, or None
        Before and after, on the held-back texts, over the changed labels: the share of proposals that were right, and
        the share of right labels that were proposed. Pairs of a text and a label without an answer do not count.
    expected_precision : tuple of two floats, or None
        The mean probability of these proposals, before and after, where the tagger is calibrated. Near `precision`
        the probabilities can be trusted.
    n_others_changed : int
        Labels whose weights changed though no text speaks of them: compared bit by bit after learning, and always 0.
    """

    n_texts: int
    n_corrected: int
    new_labels: list[str]
    n_new_words: int
    n_held_back: int = 0
    precision: tuple[float, float] | None = None
    recall: tuple[float, float] | None = None
    expected_precision: tuple[float, float] | None = None
    n_others_changed: int = 0

    def __str__(self) -> str:
        words = f", {counted(self.n_new_words, 'new word')}" if self.n_new_words else ""
        shown = ", ".join(self.new_labels[:_MAX_SHOWN]) + (", …" if len(self.new_labels) > _MAX_SHOWN else "")
        new = f" ({len(self.new_labels)} new: {shown})" if self.new_labels else ""
        learnt = f"{counted(self.n_texts, 'text')}: {counted(self.n_corrected, 'label')}{new} corrected{words}"
        others = (
            f"{counted(self.n_others_changed, 'other label')} changed" if self.n_others_changed else "others unchanged"
        )
        if self.precision is None or self.recall is None:
            return f"{learnt}, {others}; too few texts to measure the effect"
        said = ""
        if self.expected_precision is not None:
            before, after = self.expected_precision
            said = f" (their probabilities say {before:.0%} → {after:.0%})"
        (before, after), (found_before, found_after) = self.precision, self.recall
        return (
            f"{learnt}, {others}; on {counted(self.n_held_back, 'held-back text')}: precision of the corrected labels "
            f"{before:.0%} → {after:.0%}{said}, recall {found_before:.0%} → {found_after:.0%}"
        )


def learn(state: TaggerState, verdicts: Verdicts, *, held_back: float, seed: int) -> tuple[TaggerState, Learnt]:
    """Return the state that has learnt from all verdicts, and what a part of them has taught on the others."""
    if not state.estimator._can_correct_labels:
        raise ValueError(
            f"Tagger: learn needs a DiSMEC, got {type(state.estimator).__name__}; train again on the training texts "
            "and the exported corrections"
        )
    if not verdicts.names:
        raise ValueError("Tagger: learn needs a text with a label that is right or wrong, got none")
    n_texts = len(verdicts.right)
    order = np.random.default_rng(seed).permutation(n_texts)
    n_held_back = round(held_back * n_texts)
    measured: dict[str, Any] = {}
    if n_held_back >= _MIN_HELD_BACK:
        outside, inside = np.sort(order[:n_held_back]), np.sort(order[n_held_back:])
        taught = verdicts.at(inside)
        if taught.names:
            measured = _measure(state, _taught(state, taught)[0], taught.names, verdicts.at(outside))
    learnt, places = _taught(state, verdicts)
    new_labels = learnt.label_names[len(state.label_names) :]
    corrected = {state.label_ids.get(name) for name in verdicts.names}
    others = [label_id for label_id in range(len(state.label_names)) if label_id not in corrected]
    estimator: Any = learnt.estimator  # one that can correct labels
    changed = estimator.labels_changed_since(state.estimator, others, places)
    return learnt, Learnt(
        n_texts, len(verdicts.names), new_labels, len(places), n_others_changed=len(changed), **measured
    )


def _taught(state: TaggerState, verdicts: Verdicts) -> tuple[TaggerState, NDArray[np.int64]]:
    """Correct every label that has a verdict; also return the old features that the new words lie before."""
    n_old = len(state.label_names)
    # A new label that is only ever rejected has nothing to learn.
    right = {name for row in verdicts.right for name in row}
    new_names = sorted(right - state.label_ids.keys())
    label_names = [*state.label_names, *new_names]
    ids = {**state.label_ids, **{name: n_old + i for i, name in enumerate(new_names)}}
    label_ids = np.array(sorted(ids[name] for name in verdicts.names if name in ids), dtype=np.int64)
    place_of = {label_id: place for place, label_id in enumerate(label_ids.tolist())}

    def matrix(rows: Sequence[Sequence[str]]) -> sp.csr_array:
        return indicator([[place_of[ids[name]] for name in row if name in ids] for row in rows], len(label_ids))

    estimator: Any = copy.copy(state.estimator)  # one that can correct labels
    vectorizer, places = state.vectorizer, np.empty(0, dtype=np.int64)
    if vectorizer is not None:
        vectorizer, places = vectorizer.with_new_features(verdicts.inputs, estimator.n_rows_)
        if len(places):
            estimator.insert_features(places)
    grown = replace(state, vectorizer=vectorizer)
    estimator.correct_labels(
        grown.rows(verdicts.inputs),
        label_ids,
        matrix(verdicts.right),
        matrix(verdicts.wrong),
        complete=_completeness(state, verdicts),
    )
    made = replace(
        state, estimator=estimator, vectorizer=vectorizer, label_names=label_names, metrics={}, evaluated_on=None
    )
    return made.with_change("trained"), places


def _completeness(state: TaggerState, verdicts: Verdicts) -> NDArray[np.float64]:
    """Return the chance of each text that a right label which nobody was asked about is among the right ones."""
    complete = verdicts.is_complete.astype(np.float64)
    open_rows = np.flatnonzero(~verdicts.is_complete)
    if state.calibration is None or len(open_rows) == 0:
        return complete
    asked = verdicts.at(open_rows)
    top = state.estimator.predict_top_k(state.rows(asked.inputs), n_candidates(len(state.label_names)), utility="score")
    right, wrong = (
        [{state.label_ids[name] for name in row if name in state.label_ids} for row in rows]
        for rows in (asked.right, asked.wrong)
    )
    complete[open_rows] = share_named(*known_and_unknown(top.label_ids, state.calibration.proba(*top), right, wrong))
    return complete


def _measure(before: TaggerState, after: TaggerState, names: list[str], verdicts: Verdicts) -> dict[str, Any]:
    """Compare two states on texts that neither has learnt from."""
    then, now = (_tally(state, set(names), verdicts) for state in (before, after))
    if then.n_right == 0:
        return {}
    measured: dict[str, Any] = {"n_held_back": len(verdicts.right)}
    measured |= {"precision": (then.precision, now.precision), "recall": (then.recall, now.recall)}
    if before.calibration is not None:
        measured["expected_precision"] = (then.expected_precision, now.expected_precision)
    return measured


class _Tally(NamedTuple):
    """Right proposals, proposals, the sum of their probabilities, and right labels."""

    n_hits: int
    n_proposed: int
    sum_proba: float
    n_right: int

    @property
    def precision(self) -> float:
        return self.n_hits / max(1, self.n_proposed)

    @property
    def expected_precision(self) -> float:
        return self.sum_proba / max(1, self.n_proposed)

    @property
    def recall(self) -> float:
        return self.n_hits / self.n_right


def _tally(state: TaggerState, names: set[str], verdicts: Verdicts) -> _Tally:
    """Count over these labels and what is known of each text."""
    n_hits = n_proposed = n_right = 0
    sum_proba = 0.0
    for proposed, right, wrong, is_complete in zip(
        _proposals(state, verdicts.inputs), verdicts.right, verdicts.wrong, verdicts.is_complete, strict=True
    ):
        wanted = names & set(right)
        given = names & proposed.keys()
        known = given if is_complete else given & (wanted | set(wrong))
        n_hits += len(given & wanted)
        n_proposed += len(known)
        sum_proba += sum(proposed[name] for name in sorted(known))
        n_right += len(wanted)
    return _Tally(n_hits, n_proposed, sum_proba, n_right)


def _proposals(state: TaggerState, inputs: Any) -> list[dict[str, float]]:
    """Return labels and probabilities: what a calibrated tagger decides for, or else positive scores."""
    rows = state.rows(inputs)
    label_ids, scores = state.estimator.predict_top_k(rows, n_candidates(len(state.label_names)), utility="score")
    proba = np.zeros_like(scores)
    given = (label_ids >= 0) & (scores > 0)
    if state.calibration is not None:
        proba = state.calibration.proba(label_ids, scores)
        given = state.calibration.decide_by_proba(label_ids, proba)
    return [
        {state.label_names[label_id]: p for label_id, p in zip(ids[kept].tolist(), row[kept].tolist(), strict=True)}
        for ids, row, kept in zip(label_ids, proba, given, strict=True)
    ]
