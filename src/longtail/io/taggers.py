"""How taggers and their vectorizers are stored: vocabulary, weights and label names, nothing pickled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longtail._rules import Instance, check_params
from longtail.io.parts import Expected, Parts, Storage, check_distinct, check_keys, check_length
from longtail.tagger import Tagger
from longtail.text import TextVectorizer


def take_tagger_apart(tagger: Tagger) -> Parts:
    """Collect the label names, and the two models that a tagger owns."""
    if not tagger.label_names_:
        raise ValueError("Tagger: not fitted yet; call fit(texts, labels) before saving it")
    models = {"estimator": tagger.estimator, "vectorizer": tagger.vectorizer}
    return Parts(names={"label_names_": tagger.label_names_}, models=models)


def expect_tagger(cls: type[Tagger], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Say what a tagger needs."""
    check_keys(f'{owner}: "fitted"', fitted, ())
    models = {"estimator": (Instance("XMCClassifier"),), "vectorizer": (Instance("TextVectorizer"),)}
    return Expected(names=frozenset({"label_names_"}), models=models)


def put_tagger_together(cls: type[Tagger], parts: Parts) -> Tagger:
    """Make the tagger; its parts must fit each other."""
    check_keys('"parameters" of Tagger', parts.parameters, ())
    estimator, vectorizer, label_names = (
        parts.models["estimator"],
        parts.models["vectorizer"],
        parts.names["label_names_"],
    )
    check_length("label_names_", label_names, estimator.n_labels_)
    check_distinct("label_names_", label_names)
    check_length("the vocabulary", vectorizer.feature_ends_, estimator.n_features_in_)
    tagger = cls(estimator, vectorizer)
    tagger.label_names_ = label_names
    return tagger


def take_vectorizer_apart(vectorizer: TextVectorizer) -> Parts:
    """Collect vocabulary and weights."""
    return Parts(
        parameters=vectorizer.params(),
        fitted={name: getattr(vectorizer, name) for name in vectorizer._scalars},
        arrays={name: getattr(vectorizer, name) for name in vectorizer._state},
    )


def expect_vectorizer(cls: type[TextVectorizer], owner: str, fitted: Mapping[str, Any]) -> Expected:
    """Say what a vectorizer needs."""
    check_keys(f'{owner}: "fitted"', fitted, cls._scalars)
    check_params(f'{owner}: "fitted"', fitted, cls._scalars)
    return Expected(cls._state)


def put_vectorizer_together(cls: type[TextVectorizer], parts: Parts) -> TextVectorizer:
    """Make the vectorizer from vocabulary and weights."""
    check_keys('"parameters" of TextVectorizer', parts.parameters, cls._rules)
    vectorizer = cls(**parts.parameters)
    vectorizer.check_params()
    for name, value in {**parts.fitted, **parts.arrays}.items():
        setattr(vectorizer, name, value)
    vectorizer.check_state()
    return vectorizer


TAGGER = Storage(take_tagger_apart, expect_tagger, put_tagger_together)
VECTORIZER = Storage(take_vectorizer_apart, expect_vectorizer, put_vectorizer_together)
