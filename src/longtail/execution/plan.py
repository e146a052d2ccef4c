"""What there is to do: independent tasks over shared arrays, each one call into the native core."""

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

    Tasks count as progress, unless `n_units` is given: then kernels count finer units with ``Control.add_done``.
    """

    owner: str
    unit: str
    task: TaskFunction
    arrays: Arrays
    params: Params
    n_tasks: int
    n_units: int | None = None

    def fingerprint(self) -> dict[str, str]:
        """Hash what the result depends on, part by part, so that a mismatch can say which part differs."""
        task = f"{self.task.__module__}.{self.task.__qualname__}"
        return {"task": task, "n_tasks": str(self.n_tasks), **fingerprint(self.owner, self.arrays, self.params)}


def fingerprint(owner: str, arrays: Arrays, params: Params) -> dict[str, str]:
    """Hash what a fit depends on, for runs whose tasks follow one another and so are no Plan."""
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
