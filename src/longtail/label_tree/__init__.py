"""Trees over labels: Parabel, Bonsai, XR-Linear and PLT as one estimator."""

from longtail.label_tree.estimator import LabelTree

__all__ = ["LabelTree"]
