"""What happened to a tagger after its training, as far as `longtail learn` must know it.

A learnt model is made again from the model that was trained each time corrections come in. Changes that were made
since then, such as new names of labels, are made again, too; and corrections that speak of an old name mean the label
that has another name now.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from longtail.tagging.state import TaggerState

# "labels" got other names or were removed; "calibrated" anew; "trained": weights that only this model has.
ChangeKind = Literal["labels", "calibrated", "trained"]


@dataclass(frozen=True)
class Change:
    """One change of a fitted tagger.

    `names` are old names and new ones, None for labels that were removed, and `at` is when: other changes have neither,
    because only corrections must be compared with the time.
    """

    kind: ChangeKind
    names: Mapping[str, str | None] = field(default_factory=dict)
    at: str = ""

    @classmethod
    def of_labels(cls, names: Mapping[str, str | None]) -> Change:
        """Return the change of names that is made now."""
        return cls("labels", names, datetime.now(UTC).isoformat(timespec="milliseconds"))


@dataclass(frozen=True)
class Lineage:
    """The version of the model that a learnt one was made from, and the number of the last correction in it."""

    base: str
    upto: int


def to_lines(changes: Iterable[Change]) -> list[str]:
    """Return one JSON text for each change, to be stored."""
    return [json.dumps(asdict(change), ensure_ascii=False) for change in changes]


def from_lines(lines: Iterable[str]) -> tuple[Change, ...]:
    """Read what `to_lines` wrote."""
    return tuple(_change(line) for line in lines)


def today(name: str, created_at: str, changes: Iterable[Change], known: Collection[str]) -> str | None:
    """Return what a label of a correction is called now; None if it was removed.

    A rename counts for corrections from before it, and later for a name that stands for nothing else.
    """
    for change in changes:
        if name not in change.names:
            continue
        new, is_older = change.names[name], created_at < change.at
        if new is None and is_older:
            return None
        if new is not None and (is_older or name not in known):
            name = new
    return name


def replayed(base: TaggerState, current: TaggerState) -> TaggerState | None:
    """Return the base of a learnt state with the changes of labels since; None if only the learnt one has them.

    A calibration since then belongs to the scores of the learnt state: see `recalibrated`.
    """
    from longtail.tagging.label_changes import with_renamed_labels, without_labels

    since = current.changes[len(base.changes) :]
    if current.changes[: len(base.changes)] != base.changes or any(change.kind == "trained" for change in since):
        return None
    made = base
    for change in since:
        known = {old: new for old, new in change.names.items() if old in made.label_ids}
        renamed = {old: new for old, new in known.items() if new is not None}
        removed = [old for old, new in known.items() if new is None]
        made = with_renamed_labels(made, renamed) if renamed else made
        if removed:
            if len(removed) == len(made.label_names):
                return None
            made = without_labels(made, removed)
    return replace(made, changes=current.changes, vocabulary=current.vocabulary, name_weights=current.name_weights)


def recalibrated(made: TaggerState, base: TaggerState, current: TaggerState) -> TaggerState:
    """Give a learnt state the calibration that the current one got after the base; it belongs to learnt scores only."""
    since = current.changes[len(base.changes) :]
    if current.calibration is None or all(change.kind != "calibrated" for change in since):
        return made
    places = np.array([current.label_ids.get(name, -1) for name in made.label_names], dtype=np.int64)
    estimator = copy.copy(made.estimator)
    estimator._calibrate_with(current.calibration.for_labels(places, estimator.label_counts_))
    return replace(made, estimator=estimator)


def _change(line: str) -> Change:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.keys() != {"kind", "names", "at"}:
        raise ValueError("Tagger: a change must have the keys kind, names and at")
    if found["kind"] not in get_args(ChangeKind) or not isinstance(found["at"], str):
        raise ValueError(f"Tagger: a change must be one of {', '.join(get_args(ChangeKind))}, with the time as text")
    names = found["names"]
    if not isinstance(names, dict) or not all(isinstance(new, str | None) for new in names.values()):
        raise ValueError("Tagger: names of a change must be texts by text")
    return Change(**found)
