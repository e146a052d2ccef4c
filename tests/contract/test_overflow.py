"""Numbers that overflow float32 are refused; no answer holds NaN, and no order of labels is left to chance."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail._base import XMCClassifier
from tests.contract.estimators import ESTIMATORS
from tests.fitted_state import check_loaded, with_values
from tests.models.make import make_labels, make_rows

_LARGEST = np.float32(3e38)


@pytest.fixture(params=ESTIMATORS)
def model(request: pytest.FixtureRequest) -> XMCClassifier:
    return ESTIMATORS[request.param]().fit(make_rows(), make_labels())


@pytest.mark.parametrize("is_sparse", [True, False])
def test_rows_that_could_not_be_trained_on_are_not_ranked(model: XMCClassifier, is_sparse: bool) -> None:
    X = make_rows()[:5] * np.float32(1e30)
    rows = X if is_sparse else X.toarray()
    for ask in (model.predict_top_k, model.predict, model.decision_function):
        with pytest.raises(ValueError, match=f"{type(model).__name__}: X must hold values within ±1e\\+14, got "):
            ask(rows)


def alternating(array: Any) -> Any:
    """Return the largest numbers, with signs that make sums of products overflow in both directions."""
    signs = np.where(np.arange(array.size) % 3 == 1, -1, 1).astype(array.dtype)
    return (signs * _LARGEST).astype(array.dtype).reshape(array.shape)


def test_a_loaded_model_with_the_largest_numbers_is_refused_or_answers_with_numbers(model: XMCClassifier) -> None:
    X = sp.csr_array(make_rows()[:5])
    floats = {name: array for name, array in model._fitted_arrays().items() if array.dtype.kind == "f"}
    for chosen in (*([name] for name in floats), list(floats)):
        changed = with_values(model.with_threads(1), **{name: alternating(floats[name]) for name in chosen})
        with np.errstate(all="ignore"):
            ask_everything(changed, X)


def ask_everything(model: XMCClassifier, X: sp.csr_array) -> None:
    """Check the model as loading does, and ask it; a ValueError is a fine answer."""
    with contextlib.suppress(ValueError):
        check_loaded(model)
        for top_k in (1, 3, 100):
            label_ids, scores = model.predict_top_k(X, top_k)
            assert not np.isnan(scores).any()
            for ids in label_ids:
                given = ids[ids >= 0]
                assert len(np.unique(given)) == len(given)
        assert not np.isnan(model.decision_function(X)).any()
