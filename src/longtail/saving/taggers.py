"""How taggers are stored: names, and the models that they own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from longtail._array_files.specs import shown
from longtail._rules import DataNote, Instance, Int, Nothing, Numbers, Real, Rule, check_value
from longtail.saving.parts import Expected, Parts, Storage, check_distinct, check_keys, check_length
from longtail.tagging import Tagger, history
from longtail.tagging.name_matching import N_WEIGHTS
from longtail.tagging.state import TaggerState
from longtail.vocabulary import Vocabulary

_MAX_COLUMNS = 100
_OPTIONAL = ("evaluated_on_", "lineage_", "name_weights_", "text_columns_")
_NAMES = frozenset({"label_names_", "blocked", "example_texts_"})
_MODELS: dict[str, tuple[Rule, ...]] = {
    "estimator": (Instance("XMCClassifier"),),
    "vectorizer": (Instance("TextVectorizer"), Nothing()),
    "calibration_": (Instance("Calibration"), Nothing()),
}


def take_apart(tagger: Tagger) -> Parts:
    """Collect the names, and the models that a tagger owns."""
    state = tagger._whole()
    optional = {
        "evaluated_on_": state.evaluated_on,
        "text_columns_": state.text_columns,
        "name_weights_": None if state.name_weights is None else state.name_weights.tolist(),
        "lineage_": None if state.lineage is None else asdict(state.lineage),
    }
    return Parts(
        fitted={"metrics_": state.metrics, **{name: value for name, value in optional.items() if value is not None}},
        names={
            "label_names_": state.label_names,
            "blocked": sorted(tagger._blocked()),
            "example_texts_": state.example_texts,
        }
        | ({} if state.vocabulary is None else {"vocabulary_": state.vocabulary.to_lines()})
        | ({"changes_": history.to_lines(state.changes)} if state.changes else {})
        | ({} if state.label_columns is None else {"label_columns_": state.label_columns}),
        models={"estimator": state.estimator, "vectorizer": state.vectorizer},
    )


def expect(cls: type[Tagger], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Say what a tagger needs."""
    check_keys(f'{owner}: "fitted"', fitted, ("metrics_",), _OPTIONAL)
    check_value(f'{owner}: "fitted"', "metrics_", fitted["metrics_"], (Numbers(),))
    if "evaluated_on_" in fitted:
        check_value(f'{owner}: "fitted"', "evaluated_on_", fitted["evaluated_on_"], (DataNote(),))
    if "text_columns_" in fitted:
        _check_columns(f'{owner}: "fitted": text_columns_', fitted["text_columns_"])
    weights = fitted.get("name_weights_", [0.0] * N_WEIGHTS)
    if not isinstance(weights, list) or len(weights) != N_WEIGHTS:
        raise ValueError(f'{owner}: "name_weights_" must be a list of {N_WEIGHTS} numbers')
    for weight in weights:
        check_value(f'{owner}: "fitted"', "name_weights_", weight, (Real(),))
    if "lineage_" in fitted:
        _check_lineage(f'{owner}: "fitted": lineage_', fitted["lineage_"])
    return Expected(
        names=_NAMES, optional_names=frozenset({"vocabulary_", "changes_", "label_columns_"}), models=_MODELS
    )


def put_together(cls: type[Tagger], parts: Parts) -> Tagger:
    """Make the tagger; its parts must fit each other."""
    check_keys('"parameters" of Tagger', parts.parameters, ())
    estimator, label_names = parts.models["estimator"], parts.names["label_names_"]
    vectorizer, calibration = parts.models.get("vectorizer"), parts.models.get("calibration_")
    check_length("label_names_", label_names, estimator.n_labels_)
    check_distinct("label_names_", label_names)
    check_distinct("label_columns_", parts.names.get("label_columns_", []))
    if vectorizer is not None:
        check_length("the vocabulary", range(vectorizer.n_features_), estimator.n_features_in_)
    if calibration is not None:  # taggers of the first 0.2 builds kept it beside the estimator
        check_length("map_of_label_", calibration.map_of_label_, estimator.n_labels_)
        estimator._calibrate_with(calibration)
    tagger = cls(blocked=parts.names["blocked"])
    metrics = {name: float(value) for name, value in parts.fitted["metrics_"].items()}
    state = TaggerState(estimator, vectorizer, label_names, parts.names["example_texts_"], metrics)
    weights = parts.fitted.get("name_weights_")
    state = replace(
        state,
        evaluated_on=parts.fitted.get("evaluated_on_"),
        text_columns=parts.fitted.get("text_columns_"),
        label_columns=parts.names.get("label_columns_"),
        vocabulary=Vocabulary.from_lines(parts.names["vocabulary_"]) if "vocabulary_" in parts.names else None,
        name_weights=None if weights is None else np.array(weights, dtype=np.float64),
        changes=history.from_lines(parts.names.get("changes_", ())),
        lineage=history.Lineage(**parts.fitted["lineage_"]) if "lineage_" in parts.fitted else None,
    )
    tagger._put(state)
    return tagger


def _check_lineage(owner: str, lineage: Any) -> None:
    if not isinstance(lineage, dict) or not isinstance(lineage.get("base"), str):
        raise ValueError(f"{owner} must be an object with base, the version of a model, got {shown(lineage)}")
    check_keys(owner, lineage, ("base", "upto"))
    check_value(owner, "upto", lineage["upto"], (Int(0),))


def _check_columns(owner: str, columns: Any) -> None:
    if not isinstance(columns, dict) or not 1 <= len(columns) <= _MAX_COLUMNS:
        raise ValueError(f"{owner} must be an object of 1 to {_MAX_COLUMNS} columns, got {shown(columns)}")
    for name, weight in columns.items():
        check_value(owner, shown(name), weight, (Int(1, 20),))


STORAGE = Storage(take_apart, expect, put_together)
