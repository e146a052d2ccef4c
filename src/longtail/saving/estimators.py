"""How estimators are stored: parameters, scalars, arrays and inner models as their class declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from longtail._array_files import ArraySpec
from longtail._array_files.specs import DTYPES, shown
from longtail._base import XMCClassifier
from longtail._fitted import Declared, Facts, Fitted
from longtail._rules import Choice, Nothing, check_params
from longtail.saving.parts import Expected, Parts, Storage, check_distinct, check_keys, check_length
from longtail.saving.registry import find_class, name_of

# The dtypes of y that come back, and as what classes of that dtype are stored; None: as names.
_Y_DTYPES: dict[str, str | None] = {
    **{name: name for name in DTYPES},
    "bool": "uint8",
    "float16": "float32",
    "str": None,
    "object": None,
}
# Facts that a model need not have, such as measures.
_OPTIONAL = frozenset(name for name, rules in Facts.declared().scalars.items() if Nothing() in rules)
# How many threads trained it is not a part of a model: the same bytes for any number.
_OF_THIS_MACHINE = frozenset({"n_jobs"})


def take_apart(model: XMCClassifier) -> Parts:
    """Collect parameters and fitted state."""
    fitted = model._whole()
    facts = fitted.facts
    if facts.verification is not None:
        facts.verification.wait()  # damaged arrays must not get new checksums
    y_dtype = _y_dtype_name(type(model).__name__, facts)
    arrays, scalars, models, names = (
        {name: fitted.public[name] for name in found} for found in declared_by(type(model))
    )
    scalars = {name: value for name, value in scalars.items() if value is not None or name not in _OPTIONAL}
    parts = Parts(_plain_params(model), scalars | {"y_dtype_": y_dtype}, arrays, names, models)
    if facts.feature_names_in is not None:
        parts.names["feature_names_in_"] = [str(name) for name in facts.feature_names_in]
    if facts.classes is not None:
        stored_as = _Y_DTYPES[y_dtype]
        if stored_as is None:
            parts.names["classes_"] = facts.classes.tolist()
        else:
            parts.arrays["classes_"] = facts.classes.astype(stored_as)
    return parts


def declared_by(cls: type[XMCClassifier]) -> Declared:
    """Return what a file must hold: the facts of every estimator, and the estimator's own state."""
    facts, own = Facts.declared(), cls._State.declared()
    return Declared(
        facts.arrays | own.arrays, facts.scalars | own.scalars, facts.models | own.models, facts.names | own.names
    )


def expect(cls: type[XMCClassifier], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Check the scalars and return what else the class needs."""
    declared = declared_by(cls)
    rules = declared.scalars | {"y_dtype_": (Choice(*_Y_DTYPES),)}
    check_keys(f'{owner}: "fitted"', fitted, rules.keys() - _OPTIONAL, _OPTIONAL)
    check_params(f'{owner}: "fitted"', fitted, {name: rules[name] for name in fitted})
    stored_as = _Y_DTYPES[fitted["y_dtype_"]]
    arrays = dict(declared.arrays)
    names = frozenset(declared.names)
    if fitted["y_kind_"] != "classes":
        if stored_as is None:
            raise ValueError(f'{owner}: "fitted": y_dtype_ of a matrix must be numeric, got {fitted["y_dtype_"]!r}')
    elif stored_as is None:
        names |= {"classes_"}
    else:
        greatest = 1 if fitted["y_dtype_"] == "bool" else None
        arrays["classes_"] = ArraySpec(stored_as, shape=(fitted["n_labels_"],), finite=True, max=greatest)
    return Expected(arrays, names, optional_names=frozenset({"feature_names_in_"}), models=declared.models)


def put_together(cls: type[XMCClassifier], parts: Parts) -> XMCClassifier:
    """Make the estimator and set its fitted state; check everything that its class asks for."""
    model = _made(cls, parts.parameters)
    values: dict[str, Any] = dict.fromkeys(declared_by(cls).models)
    for found in (parts.fitted, parts.arrays, parts.names, parts.models, _classes_of(parts)):
        values.update(found)
    if "feature_names_in_" in parts.names:
        check_length("feature_names_in_", parts.names["feature_names_in_"], values["n_features_in_"])
        values["feature_names_in_"] = np.array(parts.names["feature_names_in_"], dtype=object)
    facts = replace(Facts.build(values), verification=parts.verification)
    check_length("label_counts_", facts.label_counts, facts.n_labels)
    if facts.label_counts.max(initial=0) > facts.n_rows:
        raise ValueError(f"label_counts_: a label cannot be on more than the {facts.n_rows} rows of training")
    if facts.calibration is not None:
        check_length("label_counts_ of calibration_", facts.calibration.label_counts_, facts.n_labels)
    state = cls._State.build(values)
    state.check(cls.__name__, facts)
    model._fitted = Fitted(facts, state)
    return model


def _classes_of(parts: Parts) -> dict[str, Any]:
    """Return y_dtype_ and, for a model of 1-D classes, classes_."""
    dtype = np.dtype(parts.fitted["y_dtype_"])
    if "classes_" in parts.names:
        check_length("classes_", parts.names["classes_"], parts.fitted["n_labels_"])
        check_distinct("classes_", parts.names["classes_"])
        classes = np.array(parts.names["classes_"], dtype=dtype)
        return {"classes_": classes, "y_dtype_": classes.dtype}
    if "classes_" in parts.arrays:
        return {"classes_": parts.arrays["classes_"].astype(dtype), "y_dtype_": dtype}
    return {"y_dtype_": dtype}


def _made(cls: type[XMCClassifier], parameters: Mapping[str, Any]) -> XMCClassifier:
    names = set(cls._get_param_names())
    parameters = {**cls._absent, **parameters}  # older models lack what came later
    check_keys(f'"parameters" of {cls.__name__}', parameters, names - _OF_THIS_MACHINE, optional=names)
    own = {name: _parameter(value) for name, value in parameters.items() if name not in _OF_THIS_MACHINE}
    model = cls(**own)
    check_params(cls.__name__, model.get_params(deep=False), cls._rules)
    return model


def _parameter(value: Any) -> Any:
    """Return a parameter from its JSON; an object stands for an estimator, not fitted, with parameters of its own."""
    if not isinstance(value, dict):
        return value
    check_keys("a parameter", value, ("class", "parameters"))
    cls, kind = find_class("a parameter", value["class"])
    if kind != "estimator" or not isinstance(value["parameters"], dict):
        raise ValueError(f"a parameter must be a number, a word or an estimator, got {shown(value)}")
    return _made(cls, value["parameters"])


def _plain_params(model: XMCClassifier) -> dict[str, Any]:
    params = model.get_params(deep=False)
    return {name: _plain(model, name, value) for name, value in params.items() if name not in _OF_THIS_MACHINE}


def _plain(model: XMCClassifier, name: str, value: Any) -> Any:
    """Return a parameter as JSON values."""
    if value is None or isinstance(value, bool | int | float | str | np.number | np.bool_):
        return value
    if isinstance(value, XMCClassifier):
        return {"class": name_of(value), "parameters": _plain_params(value)}
    raise TypeError(f"{type(model).__name__}: parameter {name} cannot be saved: it holds a {type(value).__name__}")


def _y_dtype_name(owner: str, facts: Facts) -> str:
    dtype = facts.y_dtype
    name = "str" if dtype.kind == "U" else dtype.name
    is_text = name == "str" or facts.classes is None or all(isinstance(value, str) for value in facts.classes)
    if name not in _Y_DTYPES or (name == "object" and not is_text):
        raise TypeError(f"{owner}: classes must be numbers or str to be saved, got dtype {dtype}")
    return name


STORAGE = Storage(take_apart, expect, put_together)
