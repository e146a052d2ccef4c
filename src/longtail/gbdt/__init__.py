"""GBDT-SPARSE: boosted trees whose leaves hold a few labels."""

from longtail.gbdt.estimator import GBDTSparse, Split, TreeVote

__all__ = ["GBDTSparse", "Split", "TreeVote"]
