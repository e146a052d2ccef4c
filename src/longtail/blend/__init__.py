"""Several estimators in one: their calibrated scores, added up."""

from longtail.blend.estimator import Blend
from longtail.blend.members import usual_members
from longtail.blend.presets import best_quality, seconds_of_blend

__all__ = ["Blend", "best_quality", "seconds_of_blend", "usual_members"]
