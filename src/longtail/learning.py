"""Learn from the corrections of a saved model, keep the models that were replaced, and put them back.

Beside `tags.model` lies `tags.model.earlier`: the replaced models by number. A learnt model says which of them it was
made from. It is always made from the model that was trained, and from all corrections: learning twice changes nothing,
and corrections that were deleted are forgotten. Where that model is gone, or the learnt one has labels that were
trained since, the learnt model itself takes its place, and only corrections that it does not have are learnt.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from longtail._array_files import staged
from longtail._os import open_lock_file, try_lock
from longtail.feedback import Feedback, FeedbackStore, Stored, feedback_path
from longtail.saving import describe, load, save, version_of
from longtail.tagging import Learnt, Tagger, takes_texts
from longtail.tagging.history import Lineage, recalibrated, replayed, today
from longtail.tagging.state import TaggerState

# Replaced models to keep, besides those that a model is learnt from.
_N_KEPT = 3


def learn_from_feedback(
    model: str | os.PathLike[str], feedback: Iterable[Feedback] = (), *, held_back: float = 0.2
) -> Learnt:
    """Put the corrections of a saved model into it; a running service takes the new model over.

    Parameters
    ----------
    model : path of a saved Tagger
    feedback : Feedback objects, optional
        They are stored beside the model first, with what ``longtail serve --feedback`` has stored there.
    held_back : float in [0, 0.5], default 0.2
        The share of the texts on which the effect is measured.

    Returns
    -------
    Learnt
    """
    path, more = Path(os.path.normpath(model)), list(feedback)
    if path.is_dir() and not more:
        FeedbackStore(feedback_path(path), must_exist=True)  # no file is made for a model without feedback
    with _locked(path):
        start = _start(path)
        stored = _all_feedback(path, more)
        found = _named_today(start.tagger, [row for row in stored if row.number > start.upto])
        texts, right, wrong, complete = merge_feedback(found)
        changes = start.tagger._whole().changes
        if texts:
            learnt = start.tagger.learn(texts, right, rejected=wrong, complete=complete, held_back=held_back)
        elif start.replayed:  # all that was learnt has been deleted
            learnt = Learnt(0, 0, [], 0)
        else:
            raise ValueError(f"{path}: there are no {'new ' if stored else ''}corrections to learn from")
        lineage = Lineage(start.base, max([start.upto, *(row.number for row in stored)]))
        made = replace(start.tagger._whole(), changes=changes, lineage=lineage)
        start.tagger._put(recalibrated(made, *start.replayed) if start.replayed else made)
        _keep(path)
        save(start.tagger, path, overwrite=True)
        _drop_old(path)
    return learnt


def roll_back(model: str | os.PathLike[str]) -> int:
    """Put the model back that the last `learn_from_feedback` replaced; return how many earlier ones are left."""
    path = Path(os.path.normpath(model))
    if path.is_dir() and not _numbers(path):
        raise ValueError(f"{path}: there is no earlier model to go back to")
    with _locked(path):
        numbers = _numbers(path)
        if not numbers:
            raise ValueError(f"{path}: there is no earlier model to go back to")
        newest = _earlier(path) / str(numbers[-1])
        load(newest)  # nothing is replaced by what cannot be loaded
        with staged(path, overwrite=True) as folder:
            _link_tree(newest, folder)
        shutil.rmtree(newest)
    return len(numbers) - 1


def merge_feedback(feedback: Iterable[Feedback]) -> tuple[list[str], list[list[str]], list[list[str]], list[bool]]:
    """Collect what is known of each text: texts, right labels, wrong labels, completeness; the newest answer counts."""
    answers: dict[str, dict[str, bool]] = {}
    complete: dict[str, bool] = {}
    for item in feedback:
        known = answers.setdefault(item.text, {})
        if item.complete:  # what was said to be right before and is not any more
            known.update(dict.fromkeys((label for label, is_right in known.items() if is_right), False))
        known.update(dict.fromkeys(item.rejected, False))
        known.update(dict.fromkeys(item.labels, True))
        complete[item.text] = complete.get(item.text, False) or item.complete
    texts = list(answers)
    right = [sorted(label for label, is_right in answers[text].items() if is_right) for text in texts]
    wrong = [sorted(label for label, is_right in answers[text].items() if not is_right) for text in texts]
    return texts, right, wrong, [complete[text] for text in texts]


class _Start(NamedTuple):
    """The model to learn from, its version, and the last correction that it has.

    Where it is an earlier model, `replayed` has its state and the current one.
    """

    tagger: Tagger
    base: str
    upto: int
    replayed: tuple[TaggerState, TaggerState] | None = None


def _start(path: Path) -> _Start:
    current = _load_tagger(path)
    state = current._whole()
    if state.lineage is None:
        return _Start(current, version_of(path), 0)
    for number in _numbers(path):
        earlier = _earlier(path) / str(number)
        if version_of(earlier) != state.lineage.base:
            continue
        base = _load_tagger(earlier)
        old = base._whole()
        made = replayed(old, state)
        if made is not None:
            base._put(made)
            base.blocked = current.blocked
            return _Start(base, state.lineage.base, 0 if old.lineage is None else old.lineage.upto, (old, state))
    return _Start(current, version_of(path), state.lineage.upto)


def _load_tagger(path: Path) -> Tagger:
    tagger = load(path)
    if not takes_texts(tagger):
        raise ValueError(f"{path}: must be a model for texts to learn from corrections")
    return tagger


def _all_feedback(path: Path, more: list[Feedback]) -> list[Stored]:
    with closing(FeedbackStore(feedback_path(path), must_exist=not more)) as store:
        store.add_all(more)
        return list(store)


def _named_today(tagger: Tagger, stored: Iterable[Stored]) -> Iterator[Feedback]:
    """Give labels the names that they have now; leave out what speaks of removed labels only."""
    changes, known = tagger._whole().changes, tagger._whole().label_ids
    for _, created_at, given in stored:

        def names_of(labels: Iterable[str], created_at: str = created_at) -> tuple[str, ...]:
            return tuple(new for name in labels if (new := today(name, created_at, changes, known)) is not None)

        accepted, added, rejected = names_of(given.accepted), names_of(given.added), names_of(given.rejected)
        rejected = tuple(name for name in rejected if name not in accepted + added)
        if accepted or added or rejected or given.complete:
            yield replace(given, accepted=accepted, added=added, rejected=rejected)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time replace the model; others wait."""
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: there is no model")
    _earlier(path).mkdir(exist_ok=True)
    descriptor = open_lock_file(_earlier(path) / "lock")
    try:
        try_lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _earlier(path: Path) -> Path:
    return path.with_name(path.name + ".earlier")


def _numbers(path: Path) -> list[int]:
    folder = _earlier(path)
    return sorted(int(child.name) for child in folder.iterdir() if child.name.isdigit()) if folder.is_dir() else []


def _keep(path: Path) -> None:
    """Keep the current model under the next number; its files are linked, not copied."""
    number = max(_numbers(path), default=0) + 1
    with staged(_earlier(path) / str(number)) as folder:
        _link_tree(path, folder)


def _drop_old(path: Path) -> None:
    """Remove replaced models but the newest, and but those that the others were made from."""
    kept = [_earlier(path) / str(number) for number in _numbers(path)]
    lineages = [describe(model)["fitted"].get("lineage_") for model in (path, *kept[-_N_KEPT:])]
    bases = {lineage["base"] for lineage in lineages if lineage}
    for model in [model for model in kept if version_of(model) not in bases][:-_N_KEPT]:
        shutil.rmtree(model)


def _link_tree(source: Path, target: Path) -> None:
    """Link every file of a model into an empty directory: files of models are never written to again."""
    for child in source.iterdir():
        if child.is_dir():
            (target / child.name).mkdir()
            _link_tree(child, target / child.name)
            continue
        try:
            os.link(child, target / child.name)
        except OSError:  # another file system, or one without links
            shutil.copyfile(child, target / child.name)
