"""Which labels, if rare ones count? Rankings that serve a measure, from calibrated probabilities."""

from longtail.decisions.proposals import Proposals, Threshold, check_max_loss, check_utility, choose
from longtail.decisions.ranking import candidates_for, rank, rank_rows
from longtail.decisions.utilities import UTILITIES, Utility, parse_utility

__all__ = [
    "UTILITIES",
    "Proposals",
    "Threshold",
    "Utility",
    "candidates_for",
    "check_max_loss",
    "check_utility",
    "choose",
    "parse_utility",
    "rank",
    "rank_rows",
]
