"""Hostile parts of a calibrated tagger: each is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from tests.attacks.test_model_attacks import Attack, array, names, put, set_item, within

TEXTS = ["web server", "web browser", "mail server", "chess"] * 3
LABELS = [["net", "serve"], ["net"], ["mail", "serve"], ["game"]] * 3
PART = "estimator/calibration_"


@pytest.fixture
def make() -> Callable[[Path], Path]:
    def saved(folder: Path) -> Path:
        tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1), blocked=["game"]).fit(TEXTS, LABELS)
        tagger.calibrate(TEXTS, LABELS).evaluate(TEXTS, LABELS)
        lt.save(tagger, folder / "m")
        return folder / "m"

    return saved


ATTACKS: dict[str, tuple[Attack, str]] = {
    "a label more": (
        array(f"{PART}/map_of_label_", lambda maps: np.append(maps, maps[:1])),
        "map_of_label_ has 5 labels, but label_counts_ has 4",
    ),
    "a threshold that is not there": (
        array(f"{PART}/map_of_label_", set_item(0, 7)),
        "must name one of 1 thresholds",
    ),
    "no thresholds": (array(f"{PART}/thresholds_", lambda found: found[:0]), "must name one of 0 thresholds"),
    "a threshold that is no number": (
        array(f"{PART}/thresholds_", set_item(0, np.nan)),
        "must hold finite numbers",
    ),
    "log-odds that are no number": (array(f"{PART}/log_odds_", set_item((0, 0), np.inf)), "must hold finite"),
    "a surface that falls": (array(f"{PART}/log_odds_", lambda z: np.array(z[:, ::-1])), "must not fall"),
    "fewer knots": (array(f"{PART}/score_knots_", lambda found: found[:1]), "two or more rising numbers"),
    "an axis that turns back": (array(f"{PART}/count_knots_", lambda found: found[::-1].copy()), "rising numbers"),
    "a surface of another shape": (array(f"{PART}/log_odds_", lambda z: z[:, :1].copy()), "must have shape"),
    "slopes of other labels": (array(f"{PART}/row_slopes_", lambda found: found[:, :2]), "row_slopes_ has 2 labels"),
    "an unknown measure": (within("parameters", PART, measure="eval"), "measure must be one of"),
    "a power of 7": (within("fitted", PART, balanced_power_=7.0), "balanced_power_ must be a number"),
    "an error of 200 %": (within("fitted", PART, ece_=2.0), r"ece_ must be a number in \[0, 1\]"),
    "metrics in words": (
        within("fitted", metrics_={"P@1": "good"}),
        "metrics_ must be an object of at most 1000 numbers",
    ),
    "metrics as a list": (within("fitted", metrics_=[1]), "metrics_ must be an object of at most 1000 numbers"),
    "many metrics": (within("fitted", metrics_={str(i): 1.0 for i in range(2000)}), "must be an object of at most"),
    "the vectorizer as calibration": (put(PART, klass="TextVectorizer"), "is not known"),
    "blocked labels that are numbers": (names("blocked", b"1\n", 1), "one JSON string"),
    "missing examples": (
        lambda folder: (folder / "example_texts_.jsonl").unlink(),
        "example_texts_.jsonl: is missing",
    ),
}


@pytest.mark.parametrize(("attack", "message"), ATTACKS.values(), ids=ATTACKS)
def test_a_hostile_calibrated_tagger_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], attack: Attack, message: str
) -> None:
    folder = make(tmp_path)
    assert isinstance(lt.load(folder, verify=True), lt.Tagger)
    attack(folder)
    with pytest.raises(ValueError, match=message) as caught:
        lt.load(folder, verify=False)
    assert str(folder) in str(caught.value)
