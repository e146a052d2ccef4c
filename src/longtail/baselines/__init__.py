"""Baselines that the papers compare with."""

from longtail.baselines.compressed_sensing import CS
from longtail.baselines.cplst import CPLST
from longtail.baselines.leml import LEML
from longtail.baselines.lpsr import LPSR, LPSRNB
from longtail.baselines.ml_cssp import MLCSSP
from longtail.baselines.popularity import Popularity

__all__ = ["CPLST", "CS", "LEML", "LPSR", "LPSRNB", "MLCSSP", "Popularity"]
