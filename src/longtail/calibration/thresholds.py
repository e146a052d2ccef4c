"""The lowest probability at which a label is given, chosen to maximise a measure."""

from __future__ import annotations

import numpy as np

from longtail.calibration.pairs import Group, Pairs

_N_CUTS = 200
_GREATEST_PRICE = 1e9
_N_BISECTIONS = 40


def micro_f1_thresholds(groups: list[Group], n_positives: int) -> list[float]:
    """Maximise 2·hits / (given + positives) over one prefix per group.

    Dinkelbach: for the best F, the groups maximise 2·hits − F·given each on its own; a few rounds find that F.
    """
    cuts = [group.cuts() for group in groups]
    hits = [np.concatenate([[0], np.cumsum(group.hits)])[cut] for group, cut in zip(groups, cuts, strict=True)]
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
    cuts = group.cuts()
    hits = np.concatenate([[0], np.cumsum(group.hits)])[cuts]
    return group.score_at(int(cuts[np.argmax(2 * hits / np.maximum(cuts + group.n_positives, 1))]))


def macro_f1_threshold(group: Group, pairs: Pairs) -> float:
    """Try a few hundred thresholds for all the labels of a group; the mean F1 over labels decides."""
    cuts = group.cuts()
    cuts = cuts[np.unique(np.linspace(0, len(cuts) - 1, _N_CUTS).astype(np.int64))]
    best, best_cut = -1.0, 0
    hit_labels = np.where(group.hits, group.label_ids, -1)
    for cut in cuts.tolist():
        given = np.bincount(group.label_ids[:cut], minlength=pairs.n_labels)
        hits = np.bincount(hit_labels[:cut] + 1, minlength=pairs.n_labels + 1)[1:]
        value = float((2 * hits / np.maximum(given + pairs.positives, 1)).sum())
        if value > best:
            best, best_cut = value, cut
    return group.score_at(best_cut)


def floor_thresholds(groups: list[Group], floor: float) -> list[float]:
    """Give as many hits as possible while the share of hits among all that is given keeps the floor.

    Lagrange: for a price of falling short, the groups maximise hits + price·(hits − floor·given) each on its own; the
    least price that keeps the floor is found by bisection.
    """
    cuts = [group.cuts() for group in groups]
    hits = [np.concatenate([[0], np.cumsum(group.hits)])[cut] for group, cut in zip(groups, cuts, strict=True)]

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
