"""Look at a fitted state, check it as loading does, or damage it on purpose."""

from __future__ import annotations

from typing import Any

from longtail._base import XMCClassifier
from longtail._fitted import Facts, Fitted


def check_loaded(model: XMCClassifier) -> None:
    """Check the state as if it had just been read from a file."""
    fitted = model._whole()
    owner = type(model).__name__
    for name, spec in type(fitted.state).declared().arrays.items():
        spec.check_form(f"{owner}: {name}", fitted.public[name].dtype, fitted.public[name].shape)
        spec.check_values(f"{owner}: {name}", fitted.public[name])
    fitted.state.check(owner, fitted.facts)


def with_values(model: XMCClassifier, **changed: Any) -> XMCClassifier:
    """Replace fitted values, given by public name; returns the same model."""
    fitted = model._whole()
    unknown = changed.keys() - fitted.public.keys()
    assert not unknown, unknown
    values = fitted.public | changed
    model._fitted = Fitted(Facts.build(values), type(fitted.state).build(values))
    return model
