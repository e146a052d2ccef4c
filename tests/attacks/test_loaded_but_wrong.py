"""Well-formed models whose values contradict each other: each was loaded once, and answered wrongly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail._base import XMCClassifier
from tests.contract.estimators import ESTIMATORS
from tests.fitted_state import with_values
from tests.models.make import make_labels, make_rows


def fitted(name: str) -> XMCClassifier:
    return ESTIMATORS[name]().fit(make_rows(), make_labels())


def loaded(model: XMCClassifier, path: Path, **changed: Any) -> Any:
    """Save the model with changed values, with right checksums, and load it."""
    lt.save(with_values(model, **changed), path)
    return lt.load(path, verify=True)


@pytest.mark.parametrize("name", ["LEML", "CPLST", "MLCSSP", "WSABIE", "CS"])
def test_a_label_is_seen_once(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    seen = model.seen_label_ids_.copy()
    seen[1] = seen[0]
    with pytest.raises(ValueError, match=f"{name}: seen_label_ids_ must .*the file is damaged"):
        loaded(model, tmp_path / "m", seen_label_ids_=seen)


def test_a_label_is_ranked_once(tmp_path: Path) -> None:
    model = fitted("Popularity")
    ranking = model.ranking_.copy()
    ranking[1] = ranking[0]
    with pytest.raises(ValueError, match="Popularity: ranking_ must name a label once; the file is damaged"):
        loaded(model, tmp_path / "m", ranking_=ranking)


@pytest.mark.parametrize("name", ["FastXML", "PfastXML", "PfastreXML"])
def test_a_leaf_without_weight_is_refused(name: str, tmp_path: Path) -> None:
    """A label with the sum 0 would be ranked once for each tree."""
    model = fitted(name)
    with pytest.raises(ValueError, match=r"leaf_values_\.npy must hold finite numbers >= 1e-38, got 0\.0 at 0"):
        loaded(model, tmp_path / "m", leaf_values_=np.zeros_like(model.leaf_values_))


@pytest.mark.parametrize(("name", "unused"), [("DiSMEC", "index_codes_"), ("LabelTree", "codes_")])
def test_codes_beside_whole_weights_are_refused(name: str, unused: str, tmp_path: Path) -> None:
    codes = np.ones(3, np.int8)
    with pytest.raises(ValueError, match=f"{name}: {unused} must be empty where weights are float32, got 3 entries"):
        loaded(fitted(name), tmp_path / "m", **{unused: codes})


def test_whole_weights_beside_codes_are_refused(tmp_path: Path) -> None:
    model = ESTIMATORS["LabelTree"]().set_params(weight_type="int8").fit(make_rows(), make_labels())
    with pytest.raises(ValueError, match="LabelTree: weights_ must be empty where weights are int8, got 3 entries"):
        loaded(model, tmp_path / "m", weights_=np.ones(3, np.float32))


def test_exact_weights_that_are_not_those_of_the_codes_are_refused(tmp_path: Path) -> None:
    model = ESTIMATORS["DiSMEC"]().set_params(weight_type="int8").fit(make_rows(), make_labels())
    n_exact = len(model.index_weights_)
    weights = np.ones(n_exact + 1, np.float32)
    rule = f"DiSMEC: index_weights_ must have an entry for each of the {n_exact} codes that are 0, or none .* got"
    with pytest.raises(ValueError, match=f"{rule} {n_exact + 1} entries"):
        loaded(model, tmp_path / "m", index_weights_=weights)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_without_labels_is_refused(name: str, tmp_path: Path) -> None:
    lt.save(fitted(name), tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    root = json.loads(manifest.read_text())
    root["fitted"]["n_labels_"] = 0
    manifest.write_text(json.dumps(root))
    with pytest.raises(ValueError, match=r"n_labels_ must be an int in \[1, 2147483647\], got 0"):
        lt.load(tmp_path / "m")


def test_a_model_cannot_ask_for_threads(tmp_path: Path) -> None:
    """A manifest with 2,147,483,647 of them took 3.7 GB."""
    lt.save(fitted("FastXML"), tmp_path / "m")
    manifest = tmp_path / "m" / "manifest.json"
    root = json.loads(manifest.read_text())
    root["parameters"]["n_jobs"] = 2**31 - 1
    manifest.write_text(json.dumps(root))
    model = lt.load(tmp_path / "m")
    assert isinstance(model, lt.FastXML)
    assert model.n_jobs is None
    model.predict_top_k(make_rows())
