"""The fit of estimators that take a weight for each row, and no other options."""

from __future__ import annotations

import os
from typing import Any, Self

from longtail._base import XMCClassifier
from longtail._progress import Progress
from longtail.execution import Executor


class WeightedClassifier(XMCClassifier):
    """An estimator whose `_fit` takes ``row_weights``."""

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from rows and their labels; see the base class. `sample_weight` says how often each row counts."""
        return self._fit_whole(
            X,
            y,
            sample_weight=sample_weight,
            calibrate=calibrate,
            executor=executor,
            checkpoint=checkpoint,
            progress=progress,
        )
