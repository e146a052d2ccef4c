"""DiSMEC++: exact one-vs-all linear classifiers, thirty-two labels a pass."""

from longtail.dismec.estimator import DiSMEC

__all__ = ["DiSMEC"]
