"""The lowest probability at which a label is given, chosen to maximise a measure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longtail._topk import TopK
from longtail.calibration.pairs import Group

_N_CUTS = 200
_GREATEST_PRICE = 1e9
_N_BISECTIONS = 40


def micro_f1_thresholds(groups: list[Group], n_positives: int) -> list[float]:
    """Maximise 2·hits / (given + positives) over one prefix per group.

    Dinkelbach: for the best F, the groups maximise 2·hits − F·given each on its own; a few rounds find that F.
    """
    cuts, hits = [group.cuts for group in groups], [group.hits_at for group in groups]
    best_f = 0.0
    chosen: list[int] = []
    for _ in range(100):
        chosen = [int(np.argmax(2 * hit - best_f * cut)) for hit, cut in zip(hits, cuts, strict=True)]
        n_hits = sum(int(hit[at]) for hit, at in zip(hits, chosen, strict=True))
        n_given = sum(int(cut[at]) for cut, at in zip(cuts, chosen, strict=True))
        new_f = 2 * n_hits / max(n_given + n_positives, 1)
        if new_f <= best_f:
            break
        best_f = new_f
    return [group.score_at(int(cut[at])) for group, cut, at in zip(groups, cuts, chosen, strict=True)]


def f1_threshold(group: Group) -> float:
    best = np.argmax(2 * group.hits_at / np.maximum(group.cuts + group.n_positives, 1))
    return group.score_at(int(group.cuts[best]))


def macro_f1_threshold(group: Group, proba: TopK, is_hit: NDArray[np.bool_], positives: NDArray[np.int64]) -> float:
    """Try a few hundred thresholds for all the labels of a group; the mean F1 over labels decides.

    `proba` and `is_hit` are the pairs of the group; others have label -1.
    """
    cuts = group.cuts[np.unique(np.linspace(0, len(group.cuts) - 1, _N_CUTS).astype(np.int64))]
    is_label = proba.label_ids >= 0
    label_ids, scores, hits = proba.label_ids[is_label], proba.scores[is_label], is_hit[is_label]
    n_labels, best, best_cut = len(positives), -1.0, 0
    for cut in cuts.tolist():
        is_given = scores >= group.score_at(cut)
        given = np.bincount(label_ids[is_given], minlength=n_labels)
        found = np.bincount(label_ids[is_given & hits], minlength=n_labels)
        value = float((2 * found / np.maximum(given + positives, 1)).sum())
        if value > best:
            best, best_cut = value, cut
    return group.score_at(best_cut)


def floor_thresholds(groups: list[Group], floor: float) -> list[float]:
    """Give as many hits as possible while the share of hits among all that is given keeps the floor.

    Lagrange: for a price of falling short, the groups maximise hits + price·(hits − floor·given) each on its own; the
    least price that keeps the floor is found by bisection.
    """
    cuts, hits = [group.cuts for group in groups], [group.hits_at for group in groups]

    def choose(price: float) -> tuple[list[int], float]:
        spare = [hit - floor * cut for hit, cut in zip(hits, cuts, strict=True)]
        chosen = [int(np.argmax(hit + price * over)) for hit, over in zip(hits, spare, strict=True)]
        return chosen, sum(float(over[at]) for over, at in zip(spare, chosen, strict=True))

    low, high = 0.0, 1.0
    while choose(high)[1] < 0 and high < _GREATEST_PRICE:
        low, high = high, 2 * high
    for _ in range(_N_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if choose(middle)[1] >= 0 else (middle, high)
    best = choose(high)[0]
    return [group.score_at(int(cut[at])) for group, cut, at in zip(groups, cuts, best, strict=True)]
