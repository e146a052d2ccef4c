"""A vocabulary: concepts by id, their names, and the tree or graph of their parents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from longtail._topk import Tag

MAX_CONCEPTS = 10_000_000
_MAX_CHARS = 10_000
_SHARED = ""  # the language of names without one


@dataclass(frozen=True, kw_only=True)
class Concept:
    """One label of a vocabulary.

    Parameters
    ----------
    id : str
        What data files and models call the label: a URI, a code or a name.
    names : dict of str to str
        The preferred name in each language; "" is a name without a language.
    alternatives : dict of str to list of str
        Other names in each language.
    parents : ids of broader concepts
    note : str, default ""
    retired : bool, default False
        Whether the label is no longer given.
    """

    id: str
    names: Mapping[str, str] = field(default_factory=dict)
    alternatives: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parents: Sequence[str] = ()
    note: str = ""
    retired: bool = False

    def __post_init__(self) -> None:
        texts = [self.id, self.note, *self.names, *self.names.values(), *self.parents, *self.alternatives]
        texts += [name for names in self.alternatives.values() for name in names]
        for text in texts:
            if not isinstance(text, str) or len(text) > _MAX_CHARS:
                raise ValueError(f"Concept: ids, names and notes must be texts of at most {_MAX_CHARS:,} characters")
        if not self.id.strip():
            raise ValueError(f"Concept: id must not be blank, got {self.id!r}")

    def name(self, language: str | None = None) -> str:
        """Return the preferred name in a language; without one, in none, or in any language; at last the id."""
        for wanted in (language, _SHARED):
            if wanted is not None and wanted in self.names:
                return self.names[wanted]
        return next(iter(self.names.values()), self.id)

    def all_names(self) -> list[str]:
        """Return every name in every language, preferred ones first."""
        others = [name for names in self.alternatives.values() for name in names]
        return list(dict.fromkeys([*self.names.values(), *others])) or [self.id]


class Vocabulary:
    """Concepts by id. Changes return a new vocabulary and train nothing.

    Parameters
    ----------
    concepts : Concept objects
        Ids must differ; parents that are not in the vocabulary are left out.

    Examples
    --------
    >>> import longtail as lt
    >>> vocabulary = lt.Vocabulary([
    ...     lt.Concept(id="1", names={"en": "animal", "fi": "eläin"}),
    ...     lt.Concept(id="2", names={"en": "cat"}, alternatives={"en": ["tomcat"]}, parents=["1"]),
    ... ])
    >>> vocabulary.name("1", "fi"), vocabulary.name("2", "fi")
    ('eläin', 'cat')
    >>> sorted(vocabulary.below("1"))
    ['1', '2']
    >>> vocabulary.find("Tomcat")
    '2'
    """

    def __init__(self, concepts: Iterable[Concept]) -> None:
        self._concepts: dict[str, Concept] = {}
        for concept in concepts:
            if concept.id in self._concepts:
                raise ValueError(f"Vocabulary: ids must differ, got {concept.id!r} twice")
            self._concepts[concept.id] = concept
            if len(self._concepts) > MAX_CONCEPTS:
                raise ValueError(f"Vocabulary: must have at most {MAX_CONCEPTS:,} concepts")
        self._children: dict[str, list[str]] = {}
        for concept in self._concepts.values():
            for parent in dict.fromkeys(concept.parents):
                if parent in self._concepts and parent != concept.id:
                    self._children.setdefault(parent, []).append(concept.id)
        self._by_name: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self._concepts)

    def __iter__(self) -> Iterator[Concept]:
        return iter(self._concepts.values())

    def __contains__(self, concept_id: object) -> bool:
        return concept_id in self._concepts

    def __getitem__(self, concept_id: str) -> Concept:
        if concept_id not in self._concepts:
            raise ValueError(f"Vocabulary: there is no concept {concept_id!r}")
        return self._concepts[concept_id]

    @property
    def languages(self) -> list[str]:
        """The languages that preferred names have."""
        return sorted({language for concept in self for language in concept.names if language})

    @property
    def retired(self) -> set[str]:
        """The ids of labels that are no longer given."""
        return {concept.id for concept in self if concept.retired}

    def name(self, label: str, language: str | None = None) -> str:
        """Return the name to show for a label; labels that the vocabulary does not know keep theirs."""
        concept = self._concepts.get(label)
        return label if concept is None else concept.name(language)

    def find(self, name: str) -> str | None:
        """Return the id that a name stands for, preferred names before alternatives; None if there is none."""
        if name in self._concepts:
            return name
        if self._by_name is None:
            found: dict[str, str] = {}
            for rank in (0, 1):
                for concept in self:
                    others = [other for names in concept.alternatives.values() for other in names]
                    for spelling in others if rank else concept.names.values():
                        found.setdefault(spelling.casefold(), concept.id)
            self._by_name = found
        return self._by_name.get(name.casefold())

    def parents(self, concept_id: str) -> list[str]:
        """Return the ids of the broader concepts."""
        return [parent for parent in dict.fromkeys(self[concept_id].parents) if parent in self._concepts]

    def children(self, concept_id: str) -> list[str]:
        """Return the ids of the narrower concepts."""
        self[concept_id]
        return list(self._children.get(concept_id, ()))

    def roots(self) -> list[str]:
        """Return the ids of concepts without a parent."""
        return [concept.id for concept in self if not self.parents(concept.id)]

    def below(self, concept_id: str) -> set[str]:
        """Return a concept and all that are narrower, at any depth."""
        self[concept_id]
        found, waiting = {concept_id}, [concept_id]
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in found:  # a vocabulary may have circles
                    found.add(child)
                    waiting.append(child)
        return found

    def group(self, labels: Iterable[str]) -> dict[str, list[str]]:
        """Group labels by the root above them, the first of several; labels without one form their own group."""
        groups: dict[str, list[str]] = {}
        for label in labels:
            root, seen = label, {label}
            while root in self._concepts and (above := [p for p in self.parents(root) if p not in seen]):
                root = above[0]
                seen.add(root)
            groups.setdefault(root, []).append(label)
        return groups

    def renamed(self, ids: Mapping[str, str]) -> Vocabulary:
        """Return the same vocabulary with other ids, ``{old: new}``, also among the parents.

        Where the new id is that of another concept, both stay as they are.
        """
        kept = dict(ids)
        while taken := [old for old, new in kept.items() if new in self._concepts and new not in kept]:
            for old in taken:
                del kept[old]
        return Vocabulary(
            replace(
                concept,
                id=kept.get(concept.id, concept.id),
                parents=[kept.get(parent, parent) for parent in concept.parents],
            )
            for concept in self
        )

    def with_parents(self, tags: Sequence[Tag], threshold: float = 0.5) -> list[Tag]:
        """Add parents whose children share the probability: none of them reaches the threshold, but one of them will.

        The probability of a parent is 1 - Π(1 - p) over its proposed children, as if these were independent. Only
        parents that are not proposed already are added. Tags need probabilities.

        Parameters
        ----------
        tags : list of Tag, of one text, with labels below the threshold too
        threshold : float, default 0.5
        """
        missing: dict[str, float] = {}
        counted: dict[str, int] = {}
        given = {tag.label for tag in tags}
        for tag in tags:
            if tag.proba is None:
                raise ValueError("Vocabulary: with_parents needs probabilities; calibrate the tagger first")
            if tag.label not in self._concepts or tag.proba >= threshold:
                continue
            for parent in self.parents(tag.label):
                if parent not in given and not self._concepts[parent].retired:
                    missing[parent] = missing.get(parent, 1.0) * (1 - tag.proba)
                    counted[parent] = counted.get(parent, 0) + 1
        added = [
            Tag(parent, 1 - rest, 1 - rest)
            for parent, rest in missing.items()
            if counted[parent] > 1 and 1 - rest >= threshold
        ]
        return sorted([*tags, *added], key=lambda tag: -(tag.proba or 0.0))

    def rename(self, concept_id: str, name: str, language: str = _SHARED) -> Vocabulary:
        """Return a vocabulary in which a concept has another preferred name; the old one becomes an alternative."""
        old = self[concept_id]
        alternatives = {key: list(names) for key, names in old.alternatives.items()}
        if language in old.names and old.names[language] != name:
            alternatives.setdefault(language, []).append(old.names[language])
        return self._with(replace(old, names={**old.names, language: name}, alternatives=alternatives))

    def retire(self, concept_id: str, *, retired: bool = True) -> Vocabulary:
        """Return a vocabulary in which a label is no longer given, or is given again."""
        return self._with(replace(self[concept_id], retired=retired))

    def to_lines(self) -> list[str]:
        """Return one JSON text for each concept, to be stored."""
        return [json.dumps(asdict(concept), ensure_ascii=False) for concept in self]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> Vocabulary:
        """Read what `to_lines` wrote."""
        return cls(_concept(line) for line in lines)

    def _with(self, changed: Concept) -> Vocabulary:
        return Vocabulary(changed if concept.id == changed.id else concept for concept in self)


def _concept(line: str) -> Concept:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    kinds = {"id": str, "names": dict, "alternatives": dict, "parents": list, "note": str, "retired": bool}
    if not isinstance(found, dict) or found.keys() != kinds.keys():
        raise ValueError(f"Vocabulary: a concept must have the keys {', '.join(kinds)}")
    for key, kind in kinds.items():
        if not isinstance(found[key], kind):
            raise ValueError(f"Vocabulary: {key} of a concept must be a {kind.__name__}")
    if not all(isinstance(names, list) for names in found["alternatives"].values()):
        raise ValueError("Vocabulary: alternatives of a concept must be lists by language")
    return Concept(**found)
