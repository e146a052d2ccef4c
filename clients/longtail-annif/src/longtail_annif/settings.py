"""A project's configuration, read as parameters of a Tagger."""

import json
import re
from typing import Any

import longtail as lt
from longtail.saving import make_estimator

# Settings that Annif itself reads.
_ANNIF = {
    "access", "allow_learn", "analyzer", "backend", "description", "language", "limit", "name", "project", "transform",
    "vocab",
}  # fmt: skip
_OWN = {"estimator", "ngram"}
_NATIVE_ANALYZER = re.compile(r"simple|snowball\((\w+)\)")


def make_tagger(params: dict[str, Any], n_jobs: int | None = None) -> lt.Tagger:
    """Make the Tagger that a project describes; a wrong value raises ValueError."""
    values = {name: _parsed(value) for name, value in params.items() if name not in _ANNIF | _OWN}
    text_params = {name: value for name, value in values.items() if name in lt.TextVectorizer().get_params()}
    if "ngram" in params:  # Annif's word for it
        text_params.setdefault("max_ngram", _parsed(params["ngram"]))
    native = _NATIVE_ANALYZER.fullmatch(params.get("analyzer", ""))
    if native and native[1]:
        text_params.setdefault("stemmer", native[1])
    estimator = make_estimator(params.get("estimator", "DiSMEC"), {"n_jobs": n_jobs})
    known = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in values.items() if name in known})
    return lt.Tagger(estimator, lt.TextVectorizer(**text_params))


def read_limit(params: dict[str, Any]) -> int:
    """Return how many subjects a project suggests; anything but a whole number >= 1 raises ValueError."""
    value = _parsed(params["limit"])
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"limit must be a whole number >= 1, got {params['limit']!r}; change it in the project")
    return value


def unknown_settings(params: dict[str, Any]) -> list[str]:
    """List settings that neither Annif nor the model knows."""
    tagger = make_tagger(params)
    known = _ANNIF | _OWN | tagger.estimator.get_params(deep=False).keys() | tagger.vectorizer.get_params().keys()
    return sorted(params.keys() - known)


def needs_analyzer(params: dict[str, Any]) -> bool:
    """Say whether words must come from Annif's analyzer, because the vectorizer has nothing like it."""
    spec = params.get("analyzer")
    return bool(spec) and _NATIVE_ANALYZER.fullmatch(spec) is None


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value.lower() if value in ("True", "False") else value)
    except ValueError:
        return None if value in ("None", "") else value
