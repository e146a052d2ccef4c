"""Load small models that claim 2**31 - 1 features, and use them within 3 GiB of memory; print what fails.

A dense vector over all features would take 8 GiB; what a model may ask for is bounded by its arrays.
"""

from __future__ import annotations

import json
import resource
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail.tagging.explanations import contributions_of
from tests.contract.estimators import ESTIMATORS
from tests.models.make import make_labels, make_rows

_MOST = 2**31 - 1
_LIMIT_BYTES = 3 << 30


def try_model(path: Path) -> str:
    """Return what came of it."""
    for manifest in path.rglob("manifest.json"):
        root = json.loads(manifest.read_text())
        if "n_features_in_" in root["fitted"]:
            root["fitted"]["n_features_in_"] = _MOST
            manifest.write_text(json.dumps(root))
    try:
        model = lt.load(path, verify=False)
    except ValueError:
        return "refused"
    assert not isinstance(model, lt.Tagger)
    row = sp.csr_array((np.ones(2, np.float32), np.array([0, 5], np.int32), np.array([0, 2])), shape=(1, _MOST))
    model.predict_top_k(row, 3)
    model.predict_top_k(sp.vstack([row] * 100, format="csr"), 3)
    model.predict(row)
    contributions_of(model, row, 0)
    if hasattr(model, "remove_labels"):
        model.remove_labels([1])
        model.predict_top_k(row, 3)
    return "used"


def with_the_last_feature(path: Path) -> None:
    """Rename the largest feature of a forest: one that the file does hold."""
    arrays = json.loads((path / "manifest.json").read_text())["arrays"]
    for name in ("split_features_", "centre_indices_", "feature_ids_"):
        if name not in arrays:
            continue
        found = np.load(path / f"{name}.npy")
        np.save(path / f"{name}.npy", np.where(found == found.max(), np.int32(_MOST - 1), found))


def main() -> int:
    X, Y = make_rows(), make_labels()
    models = {name: make().fit(X, Y) for name, make in ESTIMATORS.items()}
    for name in ("FastXML", "PfastreXML", "MLRF", "LabelTree"):
        models[f"{name} with the last feature"] = ESTIMATORS[name]().fit(X, Y)
    for shape in ("plt", "parabel"):
        if hasattr(lt.LabelTree, shape):
            models[f"LabelTree {shape}"] = getattr(lt.LabelTree, shape)(n_jobs=1).fit(X, Y)
    blend = lt.Blend(first=lt.FastXML(n_trees=2, n_jobs=1), second=lt.LabelTree(n_jobs=1), n_jobs=1)
    models["Blend"] = blend.fit(X, Y)
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT_BYTES, _LIMIT_BYTES))
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models.items():
            path = Path(folder, name)
            lt.save(model, path)
            if name.endswith("last feature"):
                with_the_last_feature(path)
            try:
                outcomes[name] = try_model(path)
            except Exception as error:
                outcomes[name] = f"{type(error).__name__}: {error}"
                traceback.print_exc()
    print(json.dumps(outcomes))
    return int(not set(outcomes.values()) <= {"refused", "used"})


if __name__ == "__main__":
    raise SystemExit(main())
