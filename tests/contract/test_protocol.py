"""No code asks for the class of a model: what it needs to know is in the protocol."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail._base import XMCClassifier
from longtail._model import Model
from longtail.tagging import takes_texts
from tests.contract.estimators import ESTIMATORS

SOURCES = Path(lt.__file__).parent
# Where users' objects come in, a class is the rule that they must keep; scorers also take scikit-learn's pipelines.
ENTRANCES = {"saving/models.py", "saving/estimators.py", "tagging/tagger.py", "scorers.py"}


def test_no_module_asks_whether_a_model_is_of_some_class() -> None:
    question = re.compile(
        r"isinstance\([^)]*\b(Tagger|Auto|DiSMEC|LabelTree|FastXML|Blend|XMCClassifier)\b"
        r"|hasattr\((model|estimator|tagger)\b|inspect\.signature\((model|loaded|estimator)"
    )
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in SOURCES.rglob("*.py")
        if path.relative_to(SOURCES).as_posix() not in ENTRANCES
        for line in path.read_text().splitlines()
        if question.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_answers_for_itself(name: str) -> None:
    estimator: XMCClassifier = ESTIMATORS[name]()
    X, Y = np.eye(4, dtype=np.float32), np.eye(4)
    assert estimator.resolve(X, Y) is estimator
    assert estimator.with_parts() is estimator
    assert estimator._can_add_labels == hasattr(estimator, "add_labels")
    assert estimator._can_correct_labels == hasattr(estimator, "correct_labels")
    assert not takes_texts(estimator)
    rows, labels = estimator.checked_pairs(X.tolist(), Y)
    assert rows.shape == labels.shape == (4, 4)


def test_fitted_models_keep_the_protocol() -> None:
    X, names = np.eye(4, dtype=np.float32), [["a"], ["b"], ["a"], ["b"]]
    of_vectors = lt.Tagger(lt.Popularity(n_jobs=1), None).fit(X, names)
    of_texts = lt.Tagger(lt.Popularity(n_jobs=1)).fit(["one two", "two one", "one", "two"], names)
    for model in (lt.Popularity(n_jobs=1).fit(X, np.eye(4)), of_vectors, of_texts):
        assert isinstance(model, Model)
        assert takes_texts(model) == (model is of_texts)
    assert not takes_texts("a path")


def test_auto_chooses_when_the_data_is_known() -> None:
    X, Y = np.eye(30, dtype=np.float32), np.eye(30)
    assert type(lt.Auto(n_jobs=1).resolve(X, Y)).__name__ == type(lt.Auto(n_jobs=1).choose(X, Y).estimator).__name__
    assert lt.Auto(n_jobs=1).with_parts().get_params()["n_jobs"] == 1
