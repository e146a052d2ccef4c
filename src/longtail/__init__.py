"""longtail: rank the few relevant labels out of thousands to millions, and get the long tail right."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from longtail._names import HOMES, MODULES
from longtail._version import __version__

if TYPE_CHECKING:
    from longtail import baselines, datasets, decisions, metrics, model_selection, propensity
    from longtail._model_card import model_card
    from longtail._topk import TopK
    from longtail.auto import Auto
    from longtail.baselines import (
        CPLST,
        CS,
        LEML,
        LPSR,
        LPSRNB,
        MLCSSP,
        MLRF,
        SLEEC,
        WSABIE,
        MLRFnDCG,
        PDSparse,
        Popularity,
    )
    from longtail.blend import Blend
    from longtail.calibration import Calibration
    from longtail.dismec import DiSMEC
    from longtail.execution import RayExecutor, Stopped, TaskLost
    from longtail.fastxml import FastXML, PfastreXML, PfastXML
    from longtail.feedback import Feedback, FeedbackStore
    from longtail.gbdt import GBDTSparse
    from longtail.label_tree import LabelTree
    from longtail.learning import learn_from_feedback, roll_back
    from longtail.saving import DamagedFileError, describe, load, save
    from longtail.scorers import scorers
    from longtail.tagging import Explanation, Learnt, Tag, Tagger, TextVectorizer
    from longtail.tuning import autotune, tune
    from longtail.vocabulary import Concept, Vocabulary, read_vocabulary

__all__ = [
    "CPLST",
    "CS",
    "LEML",
    "LPSR",
    "LPSRNB",
    "MLCSSP",
    "MLRF",
    "SLEEC",
    "WSABIE",
    "Auto",
    "Blend",
    "Calibration",
    "Concept",
    "DamagedFileError",
    "DiSMEC",
    "Explanation",
    "FastXML",
    "Feedback",
    "FeedbackStore",
    "GBDTSparse",
    "LabelTree",
    "Learnt",
    "MLRFnDCG",
    "PDSparse",
    "PfastXML",
    "PfastreXML",
    "Popularity",
    "RayExecutor",
    "Stopped",
    "Tag",
    "Tagger",
    "TaskLost",
    "TextVectorizer",
    "TopK",
    "Vocabulary",
    "__version__",
    "autotune",
    "baselines",
    "datasets",
    "decisions",
    "describe",
    "learn_from_feedback",
    "load",
    "metrics",
    "model_card",
    "model_selection",
    "propensity",
    "read_vocabulary",
    "roll_back",
    "save",
    "scorers",
    "tune",
]


# Public names are imported when first used, so that `longtail --help` does not pay for scikit-learn. The imports above
# and `__all__` repeat them for type checkers, which cannot read a table.
def __getattr__(name: str) -> Any:
    if name in MODULES:
        value: Any = importlib.import_module(f"longtail.{name}")
    elif name in HOMES:
        value = getattr(importlib.import_module(HOMES[name]), name)
    else:
        raise AttributeError(f"module 'longtail' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
