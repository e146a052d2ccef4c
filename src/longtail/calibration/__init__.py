"""Probabilities from scores, and the probability from which a label is given, learnt on held-out rows."""

from longtail.calibration.errors import Reliability, brier_score, expected_calibration_error, log_loss, reliability
from longtail.calibration.held_out import FEWER_SHARE, MOST_RANKED, further_fits, held_out_share, ranked_labels
from longtail.calibration.model import Calibration, Measure
from longtail.calibration.pairs import find_hits

__all__ = [
    "FEWER_SHARE",
    "MOST_RANKED",
    "Calibration",
    "Measure",
    "Reliability",
    "brier_score",
    "expected_calibration_error",
    "find_hits",
    "further_fits",
    "held_out_share",
    "log_loss",
    "ranked_labels",
    "reliability",
]
