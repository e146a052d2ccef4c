"""What a fit produces: one frozen object that is put in place with a single assignment.

A *state* is a frozen dataclass. Its annotated fields say what a file must hold, so that saving, loading, checking and
the public attributes (``name_``) all follow from one declaration::

    @dataclass(frozen=True, eq=False)
    class Forest(State):
        roots: Annotated[NDArray[np.int32], ArraySpec(np.int32, ndim=1, min=0)]   # roots_, saved as roots_.npy
        n_lost: Annotated[int, Int(0)]                                            # n_lost_, in the manifest
        inner: Annotated[XMCClassifier, Instance("XMCClassifier")]                # inner_, a model inside the model
        words: Annotated[list[str], Names()]                                      # words_, saved as words_.jsonl
        history: dict[str, NDArray[Any]] | None = None                            # readable, never saved

A field whose type is itself a State contributes its own fields. A string among the annotations replaces the public
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from longtail._array_files import ArraySpec, Verification
from longtail._declared import annotations_of
from longtail._matrices import YKind
from longtail._rules import Bool, Choice, DataNote, Instance, Int, Nothing, Numbers, Rule

S = TypeVar("S", bound="State")

INSTRUCTION_SETS = ("baseline", "avx2", "avx512", "unknown")


class Names:
    """Marks a field that is a list of names."""


class Declared(NamedTuple):
    """The saved parts of a state by public name."""

    arrays: dict[str, ArraySpec]
    scalars: dict[str, tuple[Rule, ...]]
    models: dict[str, tuple[Rule, ...]]
    names: dict[str, Names]


class _Field(NamedTuple):
    name: str
    public_name: str
    inner: type[State] | None
    metadata: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class State:
    """Base of fitted states; see the module."""

    @classmethod
    def declared(cls) -> Declared:
        """Return what a file must hold, by public name."""
        found = Declared({}, {}, {}, {})
        for item in _fields_of(cls):
            if item.inner is not None:
                inner = item.inner.declared()
                found.arrays.update(inner.arrays)
                found.scalars.update(inner.scalars)
                found.models.update(inner.models)
                found.names.update(inner.names)
            for spec in item.metadata:
                if isinstance(spec, ArraySpec):
                    found.arrays[item.public_name] = spec
                if isinstance(spec, Names):
                    found.names[item.public_name] = spec
            rules = tuple(rule for rule in item.metadata if not isinstance(rule, ArraySpec | Names | str))
            if rules:
                is_model = any(isinstance(rule, Instance) for rule in rules)
                (found.models if is_model else found.scalars)[item.public_name] = rules
        return found

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Make a state from values by public name; fields that are not saved get their defaults."""
        own: dict[str, Any] = {}
        for item in _fields_of(cls):
            if item.inner is not None:
                own[item.name] = item.inner.build(values)
            elif item.public_name in values:
                own[item.name] = values[item.public_name]
        return cls(**own)

    @cached_property
    def public(self) -> dict[str, Any]:
        """Every value by public name; fields that are None and not declared as saved are left out."""
        found: dict[str, Any] = {}
        for item in _fields_of(type(self)):
            value = getattr(self, item.name)
            if item.inner is not None:
                found |= value.public
            elif item.metadata or value is not None:
                found[item.public_name] = value
        return found

    def check(self, owner: str, facts: Facts) -> None:
        """Raise ValueError unless the arrays agree with each other and with the facts; called when a file is loaded."""

    def keep_labels(self, new_ids: NDArray[np.int32]) -> Self | None:
        """Return the state with the labels renumbered; those whose new id is -1 are left out. None if it cannot.

        The new ids of labels that stay are 0, 1, 2, … in the order of the old ones.
        """
        return None


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts(State):
    """What every fitted estimator remembers of its training data, and how rows are prepared for it."""

    n_features_in: Annotated[int, Int(1, 2**31 - 1)]
    n_labels: Annotated[int, Int(1, 2**31 - 1)]
    n_rows: Annotated[int, Int(1)]
    y_kind: Annotated[YKind, Choice(*get_args(YKind))]
    unit_rows: Annotated[bool, Bool()]
    # Floating-point sums differ between instruction sets: a model says which one trained it.
    instruction_set: Annotated[str, Choice(*INSTRUCTION_SETS)]
    # Training rows of each label: what propensities, calibration and reports are made of.
    label_counts: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=0)]
    y_dtype: np.dtype[Any]
    classes: NDArray[Any] | None = None  # the values of a 1-D y
    feature_names_in: NDArray[Any] | None = None  # only when X had names
    # What turns scores into probabilities; a part of the model, because it holds for these weights only.
    calibration: Annotated[Any, Instance("Calibration"), Nothing()] = None
    verification: Verification | None = None  # of the files behind the arrays; goes with copies of them
    # What the model was measured to be worth, and on which data; for its card.
    metrics: Annotated[dict[str, float] | None, Numbers(), Nothing()] = None
    evaluated_on: Annotated[dict[str, Any] | None, DataNote(), Nothing()] = None

    def with_labels(self, places: NDArray[np.int64], label_counts: NDArray[np.int64]) -> Facts:
        """Return the facts of a model with other labels; `places` are their ids in this one, -1 for new labels."""
        calibration = None if self.calibration is None else self.calibration.for_labels(places, label_counts)
        return replace(
            self,
            n_labels=len(places),
            label_counts=label_counts,
            calibration=calibration,
            metrics=None,
            evaluated_on=None,
        )


@dataclass(frozen=True, eq=False)
class Fitted(Generic[S]):
    """A whole fitted model: the facts about its training data, and the estimator's own state."""

    facts: Facts
    state: S

    @cached_property
    def public(self) -> dict[str, Any]:
        """Public attributes (``name_``) by name."""
        return self.facts.public | self.state.public


_known: dict[type[State], list[_Field]] = {}


def _fields_of(cls: type[State]) -> list[_Field]:
    if cls in _known:
        return _known[cls]
    annotated = annotations_of(cls)
    found: list[_Field] = []
    for item in fields(cls):
        kind, metadata = annotated[item.name]
        public = next((part for part in metadata if isinstance(part, str)), f"{item.name}_")
        inner = kind if kind is not None and issubclass(kind, State) else None
        found.append(_Field(item.name, public, inner, metadata))
    _known[cls] = found
    return found
