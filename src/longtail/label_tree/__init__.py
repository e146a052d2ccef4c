"""Trees over labels: Parabel, Bonsai, XR-Linear and PLT as one estimator."""

from longtail.label_tree.estimate import Estimate
from longtail.label_tree.estimator import LabelTree

__all__ = ["Estimate", "LabelTree"]
