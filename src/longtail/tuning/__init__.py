"""Search for good parameters on held-out rows."""

from longtail._ranges import Between, OneOf, Range
from longtail.tuning.blend import BlendTuning, autotune_blend
from longtail.tuning.budget import Autotuning, autotune
from longtail.tuning.log import Trial
from longtail.tuning.trials import Tuning, tune

__all__ = [
    "Autotuning",
    "Between",
    "BlendTuning",
    "OneOf",
    "Range",
    "Trial",
    "Tuning",
    "autotune",
    "autotune_blend",
    "tune",
]
