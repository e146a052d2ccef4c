"""How estimators are stored: parameters, scalars, arrays and inner models as their class declares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from longtail._array_files import ArraySpec
from longtail._array_files.specs import DTYPES, shown
from longtail._base import XMCClassifier
from longtail._rules import Choice, check_params
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
# How many threads trained it is not a part of a model: the same bytes for any number.
_OF_THIS_MACHINE = frozenset({"n_jobs"})


def take_apart(model: XMCClassifier) -> Parts:
    """Collect parameters and fitted state."""
    model._check_fitted()
    y_dtype = _y_dtype_name(model)
    parts = Parts(
        parameters=_plain_params(model),
        fitted={name: getattr(model, name) for name in model._scalars} | {"y_dtype_": y_dtype},
        arrays={name: getattr(model, name) for name in model._state},
        models={name: getattr(model, name) for name in model._models},
    )
    if hasattr(model, "feature_names_in_"):
        parts.names["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    if model.y_kind_ == "classes":
        stored_as = _Y_DTYPES[y_dtype]
        if stored_as is None:
            parts.names["classes_"] = model.classes_.tolist()
        else:
            parts.arrays["classes_"] = model.classes_.astype(stored_as)
    return parts


def expect(cls: type[XMCClassifier], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Check the scalars and say what else the class needs."""
    rules = cls._scalars | {"y_dtype_": (Choice(*_Y_DTYPES),)}
    check_keys(f'{owner}: "fitted"', fitted, rules)
    check_params(f'{owner}: "fitted"', fitted, rules)
    stored_as = _Y_DTYPES[fitted["y_dtype_"]]
    if fitted["y_kind_"] != "classes":
        if stored_as is None:
            raise ValueError(f'{owner}: "fitted": y_dtype_ of a matrix must be numeric, got {fitted["y_dtype_"]!r}')
        return Expected(cls._state, optional_names=frozenset({"feature_names_in_"}), models=cls._models)
    classes = {}
    if stored_as is not None:
        greatest = 1 if fitted["y_dtype_"] == "bool" else None
        classes["classes_"] = ArraySpec(stored_as, shape=(fitted["n_labels_"],), finite=True, max=greatest)
    return Expected(
        arrays=cls._state | classes,
        names=frozenset() if classes else frozenset({"classes_"}),
        optional_names=frozenset({"feature_names_in_"}),
        models=cls._models,
    )


def put_together(cls: type[XMCClassifier], parts: Parts) -> XMCClassifier:
    """Make the estimator and set its fitted state; check everything that its class asks for."""
    model = _made(cls, parts.parameters)
    for name in cls._scalars:
        setattr(model, name, parts.fitted[name])
    for name in cls._state:
        setattr(model, name, parts.arrays[name])
    for name in cls._models:
        setattr(model, name, parts.models.get(name))
    model.y_dtype_ = np.dtype(parts.fitted["y_dtype_"])
    if "classes_" in parts.names:
        check_length("classes_", parts.names["classes_"], model.n_labels_)
        check_distinct("classes_", parts.names["classes_"])
        model.classes_ = np.array(parts.names["classes_"], dtype=model.y_dtype_)
        model.y_dtype_ = model.classes_.dtype
    elif "classes_" in parts.arrays:
        model.classes_ = parts.arrays["classes_"].astype(model.y_dtype_)
    if "feature_names_in_" in parts.names:
        check_length("feature_names_in_", parts.names["feature_names_in_"], model.n_features_in_)
        model.feature_names_in_ = np.array(parts.names["feature_names_in_"], dtype=object)
    check_length("label_counts_", model.label_counts_, model.n_labels_)
    if model.label_counts_.max(initial=0) > model.n_rows_:
        raise ValueError(f"label_counts_: a label cannot be on more than the {model.n_rows_} rows of training")
    model._check_state()
    return model


def _made(cls: type[XMCClassifier], parameters: Mapping[str, Any]) -> XMCClassifier:
    names = set(cls._get_param_names())
    check_keys(f'"parameters" of {cls.__name__}', parameters, names - _OF_THIS_MACHINE, optional=names)
    model = cls(**{name: _parameter(value) for name, value in parameters.items()})
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


def _y_dtype_name(model: XMCClassifier) -> str:
    dtype = model.y_dtype_
    name = "str" if dtype.kind == "U" else dtype.name
    is_text = name == "str" or all(isinstance(value, str) for value in getattr(model, "classes_", np.empty(0)))
    if name not in _Y_DTYPES or (name == "object" and not is_text):
        raise TypeError(f"{type(model).__name__}: classes must be numbers or str to be saved, got dtype {dtype}")
    return name


STORAGE = Storage(take_apart, expect, put_together)
