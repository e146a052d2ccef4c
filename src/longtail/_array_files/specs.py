"""What an array must be: the closed set of dtypes, and the rules that a reader checks."""

import math
import re
import reprlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Little-endian numbers of fixed width only: objects would need pickle, a bool may hold any byte.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float32",
        "float64",
    )
}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
MAX_NDIM = 4

# Both extremes of one block come from a cache that the first pass has filled.
_BLOCK = 1 << 17


@dataclass(frozen=True)
class ArraySpec:
    """The rules for one array.

    Parameters
    ----------
    dtype : dtype
        Exactly this one of `DTYPES`.
    ndim : int, optional
        The number of dimensions; ``shape`` sets it too.
    shape : tuple of int or None, optional
        The length of every dimension; None leaves one free.
    finite : bool
        Refuse NaN and infinities.
    min, max : number, optional
        The least and the greatest value allowed, both included.
    """

    dtype: npt.DTypeLike
    ndim: int | None = None
    shape: tuple[int | None, ...] | None = None
    finite: bool = False
    min: float | None = None
    max: float | None = None

    def check_form(self, owner: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Check what is known without looking at a single value."""
        if dtype != np.dtype(self.dtype):
            raise ValueError(f"{owner} must be {np.dtype(self.dtype).name}, got {dtype.name}; the file is damaged")
        ndim = len(self.shape) if self.shape is not None else self.ndim
        if ndim is not None and len(shape) != ndim:
            raise ValueError(f"{owner} must have {ndim} dimensions, got shape {shape}; the file is damaged")
        for wanted, length in zip(self.shape or (), shape, strict=False):
            if wanted is not None and wanted != length:
                expected = ", ".join("any" if n is None else str(n) for n in self.shape or ())
                raise ValueError(f"{owner} must have shape ({expected}), got {shape}; the file is damaged")

    def check_values(self, owner: str, array: npt.NDArray[Any]) -> None:
        """Check the values where a rule asks for it, and stop at the first block that breaks one."""
        if not self.finite and self.min is None and self.max is None:
            return
        flat = array.reshape(-1)
        for first in range(0, flat.size, _BLOCK):
            block = flat[first : first + _BLOCK]
            with np.errstate(invalid="ignore"):
                extremes = block.min().item(), block.max().item()  # NaN goes through both
            if not all(map(self._allows, extremes)):
                at = next(i for i, value in enumerate(block) if not self._allows(value.item()))
                found = f"{block[at].item()!r} at {first + at}"
                raise ValueError(f"{owner} must hold {self._describe()}, got {found}; the file is damaged")

    def _allows(self, value: float) -> bool:
        if not math.isfinite(value):
            unbounded = self.min is None and self.max is None
            if self.finite or (math.isnan(value) and not unbounded):
                return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def _describe(self) -> str:
        words = ["finite numbers" if self.finite else "numbers"]
        if self.min is not None:
            words.append(f">= {self.min}")
        if self.max is not None:
            words.append(f"<= {self.max}" if self.min is None else f"and <= {self.max}")
        return " ".join(words)


def check_name(owner: str, name: object) -> str:
    """Return ``name`` if it may name an array and so a file: no path, no dot, nothing special to any disk."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        rule = "1 to 64 letters, digits and underscores, the first a letter"
        raise ValueError(f"{owner}: a name must be {rule}; got {shown(name)}")
    return name


def shown(value: object) -> str:
    """Return a short repr: a hostile file must not fill the screen."""
    return reprlib.repr(value)
