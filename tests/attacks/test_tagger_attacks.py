"""Hostile parts of a calibrated tagger: each is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from tests.attacks.test_model_attacks import Attack, array, names, put, set_item, within

TEXTS = ["web server", "web browser", "mail server", "chess"] * 3
LABELS = [["net", "serve"], ["net"], ["mail", "serve"], ["game"]] * 3


@pytest.fixture
def make() -> Callable[[Path, Any], Path]:
    def saved(folder: Path, method: Any) -> Path:
        tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1), blocked=["game"]).fit(TEXTS, LABELS)
        tagger.calibrate(TEXTS, LABELS, method=method).evaluate(TEXTS, LABELS)
        lt.save(tagger, folder / "m")
        return folder / "m"

    return saved


ISOTONIC: dict[str, tuple[Attack, str]] = {
    "a label more": (
        array("calibration_/map_of_label_", lambda maps: np.append(maps, maps[:1])),
        "map_of_label_ must have 4 entries, got 5",
    ),
    "a map that is not there": (array("calibration_/map_of_label_", set_item(0, 7)), "must name one of 1 maps"),
    "no maps": (array("calibration_/thresholds_", lambda found: found[:0]), "must name one of 0 maps"),
    "a threshold that is no number": (
        array("calibration_/thresholds_", set_item(0, np.nan)),
        "must hold finite numbers",
    ),
    "a probability above 1": (
        array("calibration_/knot_proba_", set_item(0, 1.5)),
        "must hold finite numbers >= 0 and <= 1",
    ),
    "knots beyond the end": (array("calibration_/knot_ends_", set_item(0, 2**40)), "speaks of 1099511627776 knots"),
    "fewer knots": (array("calibration_/knot_scores_", lambda found: found[:1]), "knots, got 1 scores"),
    "a curve that turns back": (array("calibration_/knot_scores_", lambda found: found[::-1].copy()), "must rise"),
    "another method": (within("parameters", "calibration_", method="sigmoid"), "sigmoid maps and no others"),
    "an unknown method": (within("parameters", "calibration_", method="eval"), "method must be one of"),
    "an error of 200 %": (within("fitted", "calibration_", ece_=2.0), r"ece_ must be a number in \[0, 1\]"),
    "metrics in words": (within("fitted", metrics_={"P@1": "good"}), "'P@1' must be a number, got 'good'"),
    "metrics as a list": (within("fitted", metrics_=[1]), '"metrics_" must be an object of numbers'),
    "many metrics": (within("fitted", metrics_={str(i): 1.0 for i in range(2000)}), "must be an object of numbers"),
    "the vectorizer as calibration": (put("calibration_", klass="TextVectorizer"), "is not known"),
    "blocked labels that are numbers": (names("blocked", b"1\n", 1), "one JSON string"),
    "missing examples": (
        lambda folder: (folder / "example_texts_.jsonl").unlink(),
        "example_texts_.jsonl: is missing",
    ),
}
SIGMOID: dict[str, tuple[Attack, str]] = {
    "an infinite slope": (
        array("calibration_/coefficients_", lambda found: found * np.inf),
        "must hold finite numbers",
    ),
    "three coefficients": (
        array("calibration_/coefficients_", lambda _: np.ones((1, 3))),
        r"shape \(any, 2\), got \(1, 3\)",
    ),
    "too many sigmoids": (
        array("calibration_/coefficients_", lambda found: np.vstack([found, found])),
        "and no others",
    ),
}
ALL = [("isotonic", *attack) for attack in ISOTONIC.values()] + [("sigmoid", *attack) for attack in SIGMOID.values()]


@pytest.mark.parametrize(("method", "attack", "message"), ALL, ids=[*ISOTONIC, *SIGMOID])
def test_a_hostile_calibrated_tagger_is_refused(
    tmp_path: Path, make: Callable[[Path, Any], Path], method: str, attack: Attack, message: str
) -> None:
    folder = make(tmp_path, method)
    assert isinstance(lt.load(folder, verify=True), lt.Tagger)
    attack(folder)
    with pytest.raises(ValueError, match=message) as caught:
        lt.load(folder)
    assert str(folder) in str(caught.value)
