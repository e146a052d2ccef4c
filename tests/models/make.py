"""Make the stored models of today's format: once for each format, and never again.

    python -m tests.models.make

What lies in ``format-N`` is what longtail of that time wrote; it stays as it is, and must load for ever. A model that
is there already is left alone: a class that is new, or a new format, adds to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail.saving.upgrades import FORMAT

HERE = Path(__file__).parent
TOP_K = 4


def make_rows() -> sp.csr_array:
    """Return forty rows of eight features, the same for ever."""
    X = np.zeros((40, 8), np.float32)
    for row in range(40):
        X[row, row % 8] = 1
        X[row, row * 3 % 7] += 0.5
    return sp.csr_array(X)


def make_labels() -> sp.csr_array:
    """Return their six labels: label j goes with feature j, label 5 is never there."""
    X = make_rows().toarray()
    return sp.csr_array((X[:, :6] >= [1, 1, 0.5, 0.5, 1.5, 9]).astype(np.float32))


def make_models() -> dict[str, Any]:
    """Fit one small model for each case that the format knows; a new estimator adds its own."""
    X, Y = make_rows(), make_labels()
    animals = np.array(["ant", "bé\ne", "cat"])[np.arange(40) % 3]
    return {
        "popularity-sparse": lt.Popularity(n_jobs=1).fit(X, Y),
        "popularity-dense": lt.Popularity(n_jobs=1, random_state=7).fit(X.toarray(), Y.toarray().astype(np.int8)),
        "popularity-classes": lt.Popularity(n_jobs=1).fit(X, np.arange(40) % 3 * 10),
        "popularity-names": lt.Popularity(n_jobs=1).fit(X, animals),
        "dismec": lt.DiSMEC(n_jobs=1).fit(X, Y),
        "dismec-int8": lt.DiSMEC(weight_type="int8", n_jobs=1).fit(X, Y),
        "fastxml": lt.FastXML(n_trees=3, n_jobs=1).fit(X, Y),
        "pfastxml": lt.PfastXML(n_trees=3, n_jobs=1).fit(X, Y),
        "pfastrexml": lt.PfastreXML(n_trees=3, n_jobs=1).fit(X, Y),
        "gbdt": lt.GBDTSparse(n_trees=4, min_leaf_size=2, n_components=4, n_jobs=1).fit(X, Y),
        "gbdt-dense": lt.GBDTSparse(n_trees=4, min_leaf_size=2, n_jobs=1).fit(X.toarray(), Y),
        "label-tree": lt.LabelTree(n_trees=2, max_leaf_size=2, fan_out=2, n_jobs=1).fit(X, Y),
        "label-tree-int8": lt.LabelTree(weight_type="int8", leaves="exact", max_leaf_size=2, n_jobs=1).fit(X, Y),
        "leml": lt.LEML(n_components=3, n_jobs=1).fit(X, Y),
        "tagger": make_tagger(),
    }


def make_tagger() -> lt.Tagger:
    """Fit a Tagger with a blocked label and a calibration."""
    labels = [[name for name in text.split() if len(name) > 2] for text in make_texts()]
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1), blocked=["mail"])
    tagger.fit(make_texts(), labels).calibrate(make_texts(), labels)
    return tagger


def make_texts() -> list[str]:
    """Return forty short texts, the same for ever."""
    words = ["web", "sérver", "mail", "game", "to"]
    return [f"{words[i % 5]} {words[i * 3 % 4]} {words[i * i % 5]}" for i in range(40)]


def ask(model: Any) -> dict[str, Any]:
    """Return what a model answers, as JSON values."""
    if isinstance(model, lt.Tagger):
        by = None if model.calibration_ is None else "precision"
        tags = [tag for row in model.tag(make_texts(), top_k=3, utility=by) for tag in row]
        names = [tag.label for tag in tags]
        return {"names": names, "scores": [number for tag in tags for number in (tag.score, tag.proba)]}
    label_ids, scores = model.predict_top_k(make_rows(), top_k=TOP_K)
    predicted = model.predict(make_rows())
    predicted = predicted.toarray() if sp.issparse(predicted) else predicted
    return {
        "label_ids": label_ids.tolist(),
        "scores": scores.astype(float).tolist(),
        "predicted": predicted.tolist(),
        "predicted_dtype": predicted.dtype.name,
    }


def main() -> None:
    """Store what is not there yet."""
    for name, model in make_models().items():
        path = HERE / f"format-{FORMAT}" / name
        if path.exists():
            continue
        path.parent.mkdir(exist_ok=True)
        lt.save(model, path)
        path.with_suffix(".json").write_text(json.dumps(ask(model)) + "\n")
        print(path)


if __name__ == "__main__":
    main()
