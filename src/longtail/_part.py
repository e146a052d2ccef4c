"""The contract of the parts of a model that are fitted on their own: vectorizer and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from longtail import _rules
from longtail._declared import Collected
from longtail._estimator import Parameters
from longtail._fitted import State
from longtail._ranges import Between, OneOf

S = TypeVar("S", bound="PartState")


@dataclass(frozen=True, eq=False)
class PartState(State):
    """Base of the fitted states of parts."""

    def check_whole(self) -> None:
        """Raise ValueError unless the arrays agree with each other; called when a file is loaded."""


class Part(Parameters, Generic[S]):
    """Base of the parts of a model.

    As for estimators, each parameter is one annotated field, and `_State` declares what a fit produces. `_fitted`
    holds it: one frozen object, assigned when everything else has succeeded, and read once by every method.
    """

    _State: ClassVar[type[PartState]]
    _rules: ClassVar[Any] = Collected(*_rules.KINDS)
    _ranges: ClassVar[Any] = Collected(Between, OneOf, single=True)
    # Parameters that came later, with the values that older models were made with.
    _absent: ClassVar[dict[str, Any]] = {}
    # Fitted numbers that came later, with the values that older models have.
    _absent_fitted: ClassVar[dict[str, Any]] = {}
    # How a user fits the part, for the message.
    _how_to_fit: ClassVar[str]

    _fitted: S

    def params(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def check_params(self) -> None:
        """Raise unless every parameter is one that `fit` takes."""
        _rules.check_params(type(self).__name__, self.params(), self._rules)

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__

    def _build(self, values: Mapping[str, Any]) -> PartState:
        """Make the fitted state from what a file holds, by public name."""
        return self._State.build(values)

    def _whole(self) -> S:
        """Return the fitted state, or raise ValueError. Read once per call, so that a refit cannot mix two."""
        fitted: S | None = self.__dict__.get("_fitted")
        if fitted is None:
            raise ValueError(f"{type(self).__name__}: not fitted yet; call {self._how_to_fit} first")
        return fitted

    def __getattr__(self, name: str) -> Any:
        """Read the public attributes of the fitted state."""
        fitted: S | None = self.__dict__.get("_fitted")
        if fitted is not None and name in fitted.public:
            return fitted.public[name]
        hint = "; it is not fitted yet" if fitted is None and name.endswith("_") else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("_") and not name.startswith("_"):
            raise AttributeError(f"{type(self).__name__}: {name} is part of the fitted state and cannot be set")
        super().__setattr__(name, value)
