"""What scikit-learn asks of an estimator, without importing scikit-learn.

Its import costs more than loading a model and answering the first request (it imports scipy.stats, and pandas where
that is installed), and a saved model needs none of it. So the few methods are written here, and scikit-learn is
imported only where its own types are asked for: by its own tools, and to validate what a user passes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from typing import Any, Self

_DATA = ("self", "X", "y", "texts", "labels")


class Parameters:
    """A dataclass whose fields with ``init=True`` are its parameters, as scikit-learn's tools get and set them."""

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the parameters with their defaults."""
        return {field.name: field.default for field in fields(cls) if field.init}  # type: ignore[arg-type]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(cls._defaults())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` adds those of estimators among them as ``name__param``."""
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{inner}": item for inner, item in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of an inner estimator as ``name__param``; returns self."""
        known = self._get_param_names()
        inner: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in params.items():
            own, is_inner, rest = name.partition("__")
            if own not in known:
                raise ValueError(
                    f"Invalid parameter {own!r} for estimator {type(self).__name__}; it has {', '.join(known)}"
                )
            if is_inner:
                inner[own][rest] = value
            else:
                setattr(self, own, value)
        for own, values in inner.items():
            getattr(self, own).set_params(**values)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params(deep=False).items()
            if not _is_same(value, defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))


class Estimator(Parameters):
    """What scikit-learn's tools call of a classifier."""

    _metadata_request: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of ``predict(X)``: the share of rows whose labels are all right."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def predict(self, X: Any) -> Any:
        """Decide the labels of each row."""
        raise NotImplementedError

    def get_metadata_routing(self) -> Any:
        """Return which arguments of `fit`, `predict` and `score` are asked for, for scikit-learn's routing."""
        from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

        if "_metadata_request" in self.__dict__:
            return get_routing_for_object(self._metadata_request)
        request = MetadataRequest(owner=self)
        for method in ("fit", "predict", "score"):
            for name in _routed(getattr(type(self), method)):
                getattr(request, method).add_request(param=name, alias=None)
        return request

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Say which arguments `fit` gets from tools that route metadata; as in scikit-learn."""
        return self._set_request("fit", requests)

    def set_predict_request(self, **requests: bool | str | None) -> Self:
        """Say which arguments `predict` gets from tools that route metadata; as in scikit-learn."""
        return self._set_request("predict", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Say which arguments `score` gets from tools that route metadata; as in scikit-learn."""
        return self._set_request("score", requests)

    def _set_request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        from sklearn import get_config

        name = type(self).__name__
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                f"{name}: set_{method}_request needs sklearn.set_config(enable_metadata_routing=True) first"
            )
        known = _routed(getattr(type(self), method))
        request = self.get_metadata_routing()
        for param, alias in requests.items():
            if param not in known:
                there = f"it takes {', '.join(known)}" if known else "nothing can be requested for it"
                raise TypeError(f"{name}: {method} does not take {param}; {there}")
            getattr(request, method).add_request(param=param, alias=alias)
        self._metadata_request = request
        return self

    def __sklearn_is_fitted__(self) -> bool:
        raise NotImplementedError

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(X, y) first")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True, multi_output=False),
            transformer_tags=None,
            classifier_tags=ClassifierTags(multi_label=True),
            regressor_tags=None,
            input_tags=InputTags(sparse=True),
        )


def _is_same(value: object, default: object) -> bool:
    """Compare plain values; those of a loaded model are other objects than the defaults."""
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str) and value == default
    )


def _routed(method: Any) -> list[str]:
    """Return the arguments of a method that tools may pass on: all but the data."""
    code = method.__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name not in _DATA]
