"""Every estimator joins the contract suite by one line here: a small instance that trains in well under a second."""

from __future__ import annotations

from collections.abc import Callable

import longtail as lt
from longtail._base import XMCClassifier

ESTIMATORS: dict[str, Callable[[], XMCClassifier]] = {
    "DiSMEC": lambda: lt.DiSMEC(n_jobs=1),
    "GBDTSparse": lambda: lt.GBDTSparse(n_trees=20, min_leaf_size=2, l2=1.0, shrinkage=0.5, n_components=8, n_jobs=1),
    "LEML": lambda: lt.LEML(n_components=5, l2=0.1, n_jobs=1),
    "LabelTree": lambda: lt.LabelTree(max_leaf_size=4, fan_out=4, n_jobs=1),
    "FastXML": lambda: lt.FastXML(n_trees=5, n_jobs=1),
    "PfastXML": lambda: lt.PfastXML(n_trees=5, n_jobs=1),
    "PfastreXML": lambda: lt.PfastreXML(n_trees=5, n_jobs=1),
    "CPLST": lambda: lt.CPLST(n_components=5, l2=0.1, n_jobs=1),
    "CS": lambda: lt.CS(n_components=30, l2=0.1, n_steps=6, n_jobs=1),
    "MLCSSP": lambda: lt.MLCSSP(n_components=5, l2=0.1, n_jobs=1),
    "LPSR": lambda: lt.LPSR(max_leaf_size=30, n_jobs=1),
    "LPSRNB": lambda: lt.LPSRNB(max_leaf_size=30, n_jobs=1),
    "WSABIE": lambda: lt.WSABIE(n_components=10, n_epochs=20, n_jobs=1),
    "SLEEC": lambda: lt.SLEEC(
        n_learners=2, cluster_size=40, n_components=5, n_neighbours=5, n_graph_neighbours=10, l2=0.1, n_jobs=1
    ),
    "MLRF": lambda: lt.MLRF(n_trees=4, n_jobs=1),
    "MLRFnDCG": lambda: lt.MLRFnDCG(n_trees=4, n_jobs=1),
    "PDSparse": lambda: lt.PDSparse(n_jobs=1),
    "Popularity": lambda: lt.Popularity(n_jobs=1),
    # Calibrated by every fit.
    "Blend": lambda: lt.Blend(first=lt.DiSMEC(n_jobs=1), second=lt.LabelTree(n_jobs=1), n_jobs=1),
}
