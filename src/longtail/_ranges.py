"""Ranges in which a search looks for a parameter: written beside the parameter's rules, mapped to [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol


class Range(Protocol):
    """Where to look for a good value."""

    def at(self, share: float) -> Any:
        """Return the value at a share of the range, in [0, 1)."""

    def share_of(self, value: Any) -> float:
        """Return the share at which a value lies."""

    def holds(self, value: Any) -> bool:
        """Tell whether a value lies in the range."""


@dataclass(frozen=True)
class Between:
    """Numbers from low to high; whole ones if both ends are int; evenly in the logarithm if `log` is set."""

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"a range must go up{' from above 0' if self.log else ''}, got {self.low} to {self.high}")

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> float:
        # Whole numbers own equal parts of [0, 1): the outer ones reach half a step beyond the ends.
        low, high = self._ends()
        value = math.exp(low + share * (high - low)) if self.log else low + share * (high - low)
        if self.is_whole:
            return int(min(max(math.floor(value + 0.5), self.low), self.high))
        return float(f"{min(max(value, self.low), self.high):.4g}")

    def share_of(self, value: Any) -> float:
        low, high = self._ends()
        at = (math.log(value) if self.log else value) - low
        return min(max(at / (high - low), 0.0), 1.0)

    def holds(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high

    def _ends(self) -> tuple[float, float]:
        low, high = (self.low - 0.5, self.high + 0.5) if self.is_whole else (self.low, self.high)
        return (math.log(low), math.log(high)) if self.log else (low, high)


@dataclass(frozen=True, init=False)
class OneOf:
    """A few values without an order."""

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        if len(values) < 2:
            raise ValueError(f"a choice needs two values or more, got {values}")
        object.__setattr__(self, "values", values)

    def at(self, share: float) -> Any:
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def share_of(self, value: Any) -> float:
        return (self.values.index(value) + 0.5) / len(self.values)

    def holds(self, value: Any) -> bool:
        return value in self.values
