"""How many labels? Scores to probabilities, and the score from which a label is given, learnt on held-out rows."""

from longtail.calibration.errors import Reliability, expected_calibration_error, reliability
from longtail.calibration.model import Calibration, Measure, Method
from longtail.calibration.pairs import find_hits

__all__ = [
    "Calibration",
    "Measure",
    "Method",
    "Reliability",
    "expected_calibration_error",
    "find_hits",
    "reliability",
]
