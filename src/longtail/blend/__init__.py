"""Several estimators in one: their calibrated scores, added up."""

from longtail.blend.estimator import Blend

__all__ = ["Blend"]
