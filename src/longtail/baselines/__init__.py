"""Baselines that the papers compare with."""

from longtail.baselines.compressed_sensing import CS
from longtail.baselines.cplst import CPLST
from longtail.baselines.leml import LEML
from longtail.baselines.lpsr import LPSR, LPSRNB
from longtail.baselines.ml_cssp import MLCSSP
from longtail.baselines.mlrf import MLRF, MLRFnDCG
from longtail.baselines.pd_sparse import PDSparse
from longtail.baselines.popularity import Popularity
from longtail.baselines.sleec import SLEEC
from longtail.baselines.wsabie import WSABIE

__all__ = [
    "CPLST",
    "CS",
    "LEML",
    "LPSR",
    "LPSRNB",
    "MLCSSP",
    "MLRF",
    "SLEEC",
    "WSABIE",
    "MLRFnDCG",
    "PDSparse",
    "Popularity",
]
