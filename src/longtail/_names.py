"""Where every public name of the package is defined: the one table for imports, saved models and completion."""

from __future__ import annotations

# A new estimator needs one entry here; __init__.py repeats it for type checkers.
_ESTIMATORS = {
    "longtail.blend": ("Blend",),
    "longtail.dismec": ("DiSMEC",),
    "longtail.fastxml": ("FastXML", "PfastXML", "PfastreXML"),
    "longtail.gbdt": ("GBDTSparse",),
    "longtail.label_tree": ("LabelTree",),
    "longtail.baselines": (
        "CPLST",
        "CS",
        "LEML",
        "LPSR",
        "LPSRNB",
        "MLCSSP",
        "MLRF",
        "MLRFnDCG",
        "PDSparse",
        "Popularity",
        "SLEEC",
        "WSABIE",
    ),
}
_OTHERS = {
    "longtail._model_card": ("model_card",),
    "longtail._topk": ("TopK",),
    "longtail.auto": ("Auto",),
    "longtail.calibration": ("Calibration",),
    "longtail.execution": ("RayExecutor", "Stopped", "TaskLost"),
    "longtail.feedback": ("Feedback", "FeedbackStore"),
    "longtail.learning": ("learn_from_feedback", "roll_back"),
    "longtail.saving": ("DamagedFileError", "describe", "load", "save"),
    "longtail.scorers": ("scorers",),
    "longtail.tagging": ("Explanation", "Learnt", "Tag", "Tagger", "TextVectorizer"),
    "longtail.tuning": ("autotune", "tune"),
    "longtail.vocabulary": ("Concept", "Vocabulary", "read_vocabulary"),
}
MODULES = ("baselines", "datasets", "decisions", "metrics", "model_selection", "propensity")

# The module of each name.
HOMES = {name: module for table in (_ESTIMATORS, _OTHERS) for module, names in table.items() for name in names}
ESTIMATORS = tuple(name for names in _ESTIMATORS.values() for name in names)
