"""Probabilities from scores, and the probability from which a label is given, learnt on held-out rows."""

from longtail.calibration.errors import Reliability, brier_score, expected_calibration_error, log_loss, reliability
from longtail.calibration.model import Calibration, Measure
from longtail.calibration.pairs import find_hits

__all__ = [
    "Calibration",
    "Measure",
    "Reliability",
    "brier_score",
    "expected_calibration_error",
    "find_hits",
    "log_loss",
    "reliability",
]
