"""What a fit has to do: independent tasks over shared arrays, or steps that follow one another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longtail import _core

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Shard = dict[str, Array]
Scalar = str | int | float | bool | None
Params = Mapping[str, Scalar]


class TaskFunction(Protocol):
    """A pure function at module level: the same arguments give the same bytes in any thread, process or machine."""

    __module__: str
    __qualname__: str

    def __call__(self, arrays: Arrays, params: Params, task_id: int, control: _core.Control, /) -> Shard: ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Independent tasks over shared arrays.

    Progress counts tasks, unless `n_units` is given: then kernels count finer units with ``Control.add_done``.
    """

    owner: str
    unit: str
    task: TaskFunction
    arrays: Arrays
    params: Params
    n_tasks: int
    n_units: int | None = None

    def fingerprint(self) -> dict[str, str]:
        """Hash everything the result depends on, part by part, so that a mismatch can name the part that differs."""
        task = f"{self.task.__module__}.{self.task.__qualname__}"
        return {"task": task, "n_tasks": str(self.n_tasks), **_fingerprint(self.owner, self.arrays, self.params)}


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """Steps that follow one another, such as boosting rounds; `arrays` and `params` are all they depend on.

    With `keep_last`, a step's shard contains everything a resumed run needs, and the checkpoint keeps only the last.
    """

    owner: str
    unit: str
    arrays: Arrays
    params: Params
    n_steps: int
    keep_last: bool = False

    def fingerprint(self) -> dict[str, str]:
        """As for `Plan`."""
        return {"steps": f"{self.n_steps} {self.unit}", **_fingerprint(self.owner, self.arrays, self.params)}


class Stepper(Protocol):
    """Computes the steps of a `StepPlan`; called by one thread, with step ids that increase from 0."""

    def advance(self, step_id: int) -> Shard:
        """Compute a step and return what `restore` needs to repeat its effect."""

    def restore(self, step_id: int, shard: Shard) -> None:
        """Take over a step of an earlier run. With `keep_last`, only the last one is given."""

    def is_done(self) -> bool:
        """Return whether to stop before the next step, such as for early stopping."""


def _fingerprint(owner: str, arrays: Arrays, params: Params) -> dict[str, str]:
    data = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        data.update(f"{name} {array.dtype.str} {array.shape};".encode())
        data.update(array.reshape(-1).view(np.uint8).data)
    return {
        "estimator": owner,
        "parameters": json.dumps(dict(params), sort_keys=True),
        "instruction set": _core.isa,
        "data": data.hexdigest(),
    }
