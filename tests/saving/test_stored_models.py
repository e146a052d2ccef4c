"""Models of every format that there ever was load, and answer what they answered when they were stored."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail.saving.upgrades import FORMAT
from tests.models.make import HERE, ask

MODELS = sorted(path.parent for path in HERE.glob("format-*/*/manifest.json"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_stored_model_answers_as_it_did(path: Path, tmp_path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    is_old_calibration = path.parent.name == "format-1" and path.name == "tagger"
    with pytest.warns(UserWarning, match="call calibrate") if is_old_calibration else nullcontext():
        loaded = lt.load(path, verify=True)
    lt.save(loaded, tmp_path / "again")
    for number, model in enumerate((loaded, lt.load(tmp_path / "again", verify=True))):
        found = ask(model)
        if is_old_calibration:  # probabilities of format 1 are gone; every other number is a score
            found["scores"] = found["scores"][::2]
            expected["scores"] = expected["scores"] if number else expected["scores"][::2]
        np.testing.assert_allclose(found.pop("scores"), expected["scores"], rtol=1e-5, atol=1e-6)
        assert found == {key: value for key, value in expected.items() if key != "scores"}


def test_every_format_has_a_stored_model_and_a_line_in_the_docs() -> None:
    assert {path.parent.name for path in MODELS} == {f"format-{number}" for number in range(1, FORMAT + 1)}
    page = (HERE.parents[1] / "docs" / "format.md").read_text()
    for number in range(1, FORMAT + 1):
        assert f"\n| {number} | " in page
