"""How many rows to hold out for a calibration."""

from __future__ import annotations

# So many rows tell whether a ranking loses half a point of precision.
_ENOUGH_ROWS = 10_000
_LEAST_SHARE = 0.2
_GREATEST_SHARE = 0.4
# Of the rows that are not held out, for a model with fewer rows that shows how scores change with their number.
FEWER_SHARE = 0.25

# Labels per row that a calibration sees, and how many for each label that a row has: nearly all that are ever right.
MOST_RANKED = 50
_LEAST_RANKED = 30
_RANKED_PER_LABEL = 15


def ranked_labels(n_entries: int, n_rows: int) -> int:
    """Return how many labels of each held-out row ``fit(..., calibrate=True)`` ranks: 30 to 50.

    Examples
    --------
    >>> from longtail.calibration import ranked_labels
    >>> ranked_labels(1_000, 1_000), ranked_labels(20_000, 1_000)
    (30, 50)
    """
    return min(MOST_RANKED, max(_LEAST_RANKED, round(_RANKED_PER_LABEL * n_entries / max(1, n_rows))))


def held_out_share(n_rows: int) -> float:
    """Return the share of the rows that ``fit(..., calibrate=True)`` holds out: 0.4 of few rows, 0.2 of many.

    With few rows, what the default ranking loses or gains is hard to tell from noise: more rows must judge. With many
    rows, the second model should be as similar to the first one as it can.

    Examples
    --------
    >>> from longtail.calibration import held_out_share
    >>> held_out_share(5_000), held_out_share(1_000_000)
    (0.4, 0.2)
    """
    return min(_GREATEST_SHARE, max(_LEAST_SHARE, _ENOUGH_ROWS / max(1, n_rows)))


def further_fits(n_rows: int) -> float:
    """Return how many times the rows ``fit(..., calibrate=True)`` trains on in addition.

    Examples
    --------
    >>> from longtail.calibration import further_fits
    >>> further_fits(5_000)
    0.75
    """
    return round((1 - held_out_share(n_rows)) * (1 + FEWER_SHARE), 6)
