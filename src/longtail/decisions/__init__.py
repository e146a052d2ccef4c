"""Which labels, if rare ones count? Rankings that serve a measure, from calibrated probabilities."""

from longtail.decisions.ranking import candidates_for, rank
from longtail.decisions.utilities import UTILITIES, Utility, parse_utility

__all__ = ["UTILITIES", "Utility", "candidates_for", "parse_utility", "rank"]
