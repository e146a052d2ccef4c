"""Every estimator joins the contract suite by one line here: a small instance that trains in well under a second."""

from __future__ import annotations

from collections.abc import Callable

import longtail as lt
from longtail._base import XMCClassifier

ESTIMATORS: dict[str, Callable[[], XMCClassifier]] = {
    "Popularity": lambda: lt.Popularity(n_jobs=1),
}
