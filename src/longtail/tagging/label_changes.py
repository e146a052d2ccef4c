"""Labels that come, go and change their names after training: each function returns a new state of a Tagger."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longtail._progress import Progress
from longtail._words import counted
from longtail.tagging.label_names import indicator
from longtail.tagging.state import TaggerState


def with_new_labels(state: TaggerState, inputs: Any, labels: list[list[str]], progress: Progress) -> TaggerState:
    """Train the labels that the state does not know and put them behind the others."""
    estimator = state.estimator
    if not estimator._can_add_labels:
        raise ValueError(
            f"Tagger: add_labels needs an estimator that can add labels (DiSMEC, LabelTree), "
            f"got {type(estimator).__name__}; call fit with all texts"
        )
    names = sorted({name for row in labels for name in row} - state.label_ids.keys())
    if not names:
        raise ValueError("Tagger: add_labels: labels must hold a name that the tagger does not know yet, got none")
    ids = {name: label_id for label_id, name in enumerate(names)}
    Y = indicator([[ids[name] for name in row if name in ids] for row in labels], len(names))
    everywhere = np.flatnonzero(np.bincount(Y.indices, minlength=len(names)) == Y.shape[0])
    if len(everywhere):
        raise ValueError(
            f"Tagger: add_labels: label {names[everywhere[0]]!r} must be missing from some texts, got "
            f"{counted(Y.shape[0], 'text')} that all have it; add texts without it, the training texts for instance"
        )
    grown: Any = copy.copy(estimator)
    grown.add_labels(state.rows(inputs), Y, progress=progress)
    return replace(
        state,
        estimator=grown,
        label_names=[*state.label_names, *names],
        metrics={},
        evaluated_on=None,
    ).with_change("trained")


def without_labels(state: TaggerState, names: Iterable[str]) -> TaggerState:
    """Remove labels from the estimator and from the names."""
    removed = set(state.ids_of("remove_labels", names))
    places = np.array([i for i in range(len(state.label_names)) if i not in removed], dtype=np.int64)
    if not len(places):
        raise ValueError("Tagger: remove_labels must leave a label, got the names of all of them")
    smaller = state.estimator._with_labels_at(places)
    if smaller is None:
        raise ValueError(
            f"Tagger: {type(state.estimator).__name__} cannot remove labels; call block(names), so that they are "
            "never proposed"
        )
    return replace(
        state,
        estimator=smaller,
        label_names=[state.label_names[place] for place in places.tolist()],
        metrics={},
        evaluated_on=None,
    ).with_labels_changed({state.label_names[label_id]: None for label_id in sorted(removed)})


def with_renamed_labels(state: TaggerState, names: Mapping[str, str]) -> TaggerState:
    """Replace names; ids and weights stay."""
    if not isinstance(names, Mapping):
        raise TypeError(f"Tagger: rename_labels takes a dict of old to new names, got {type(names).__name__}")
    ids = state.ids_of("rename_labels", names)
    renamed = list(state.label_names)
    for label_id, new in zip(ids, names.values(), strict=True):
        if not isinstance(new, str) or not new.strip():
            raise ValueError(f"Tagger: rename_labels: a new name must be a text that is not blank, got {new!r}")
        renamed[label_id] = new
    if len(set(renamed)) != len(renamed):
        twice = next(name for name in names.values() if renamed.count(name) > 1)
        raise ValueError(f"Tagger: rename_labels: {twice!r} would name two labels; labels cannot be merged by renaming")
    columns, vocabulary = state.label_columns, state.vocabulary
    changed = replace(
        state,
        label_names=renamed,
        label_columns=None if columns is None else [names.get(name, name) for name in columns],
        vocabulary=None if vocabulary is None else vocabulary.renamed(names),
    )
    return changed.with_labels_changed(dict(names))
