"""The estimators of a recommended blend: for `Blend`, `best_quality`, ``longtail tune --blend`` and the benchmarks."""

from __future__ import annotations

from longtail._base import XMCClassifier


def usual_members(*, unit_rows: bool = True) -> list[XMCClassifier]:
    """Return estimators of four kinds, not fitted; the first two are the defaults of `Blend`.

    The more their mistakes differ, the better is their blend. They were chosen on training folds.

    Parameters
    ----------
    unit_rows : bool, default True
        Whether estimators that care about the lengths of rows scale them to one.
    """
    from longtail.baselines import SLEEC
    from longtail.dismec import DiSMEC
    from longtail.fastxml import FastXML
    from longtail.gbdt import GBDTSparse

    return [
        DiSMEC(unit_rows=unit_rows),
        FastXML(),
        GBDTSparse(unit_rows=unit_rows),
        # Neighbours in an embedding find other labels; beside the others, one learner and a short search are enough.
        SLEEC(unit_rows=unit_rows, n_learners=1, n_neighbours=100, n_iterations=5),
    ]
