"""Proposals that look at the vocabulary: below a label, of labels without training texts, of parents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from longtail._topk import Tag
from longtail.decisions import Threshold
from longtail.vocabulary import Vocabulary

if TYPE_CHECKING:
    from longtail.tagging.tagger import Tagger

_ALL = 1_000_000
_DEEP_TOP_K = 100


def tag_with_vocabulary(
    tagger: Tagger,
    texts: list[str],
    top_k: int | None,
    *,
    threshold: Threshold = None,
    include: Iterable[str] | None = None,
    exclude: Iterable[str] | None = None,
    below: str | None = None,
    unseen: bool = False,
    parents: bool = False,
    **ranking: Any,
) -> list[list[Tag]]:
    """Tag texts as `Tagger.tag` does, with more to ask of the vocabulary.

    Parameters
    ----------
    tagger, texts, top_k, threshold, include, exclude, ranking
        As for `Tagger.tag`; they hold for all labels.
    below : id or name, optional
        Only this label of the vocabulary and those below it.
    unseen : bool, default False
        Also propose labels without training texts; see `Tagger.tag_unseen`.
    parents : bool, default False
        Also propose parents whose children share the probability; see `Vocabulary.with_parents`.
    """
    chosen = {"threshold": threshold, "exclude": exclude, **ranking}
    if below is None and not unseen and not parents:
        return tagger.tag(texts, top_k, include=include, **chosen)
    vocabulary = tagger.vocabulary_
    if vocabulary is None:
        raise ValueError("Tagger: below, unseen and parents need a vocabulary; set one: longtail vocabulary MODEL FILE")
    allowed = None if include is None else set(include)
    if below is not None:
        under = vocabulary.below(vocabulary.find(below) or below)
        allowed = under if allowed is None else under & allowed
    known = None if allowed is None else [label for label in tagger.label_names_ if label in allowed]
    if known == [] and not unseen:
        raise ValueError(f"Tagger: no label of the model is below {below!r}")
    rows = [[] for _ in texts] if known == [] else tagger.tag(texts, top_k, include=known, **chosen)
    banned = {*tagger.blocked, *(exclude or ())}
    more: list[list[Tag]] = [[] for _ in texts]
    if unseen:
        least = _least_proba(tagger, threshold)
        more = [a + b for a, b in zip(more, tagger.tag_unseen(texts, _ALL, threshold=least), strict=True)]
    if parents and known != []:
        deep = tagger.tag(texts, _DEEP_TOP_K, include=known, exclude=exclude)
        more = [a + _parents(vocabulary, b) for a, b in zip(more, deep, strict=True)]
    found = []
    for tags, extra in zip(rows, more, strict=True):
        given = {tag.label for tag in tags} | banned
        may = [tag for tag in extra if tag.label not in given and (allowed is None or tag.label in allowed)]
        found.append(_merged(tags, may)[:top_k])
    return found


def _least_proba(tagger: Tagger, threshold: Threshold) -> float:
    """Return the probability that a label without training texts must reach: "auto" is the shared threshold."""
    if threshold == "auto" and tagger.calibration_ is not None:
        return float(tagger.calibration_.thresholds_[0])
    return min(1.0, max(0.0, float(threshold))) if isinstance(threshold, int | float) else 0.0


def _parents(vocabulary: Vocabulary, tags: list[Tag]) -> list[Tag]:
    proposed = {tag.label for tag in tags}
    return [tag for tag in vocabulary.with_parents(tags) if tag.label not in proposed]


def _merged(tags: list[Tag], more: list[Tag]) -> list[Tag]:
    """Put each tag before the first that is less probable; behind all if those have scores only."""
    merged = list(tags)
    for extra in sorted(more, key=lambda tag: -(tag.proba or 0.0)):
        places = (i for i, tag in enumerate(merged) if tag.proba is not None and tag.proba < (extra.proba or 0.0))
        merged.insert(next(places, len(merged)), extra)
    return merged
