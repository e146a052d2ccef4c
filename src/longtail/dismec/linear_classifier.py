"""What estimators with one weight vector per label share: the weights, and what each feature adds to a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._contributions import Contributions
from longtail._fitted import Fitted
from longtail._matrices import Matrix
from longtail._rules import Int, check_value
from longtail.dismec.index import label_major
from longtail.dismec.lookup import places_of_label


class LinearClassifier(XMCClassifier):
    """An estimator whose state has a `WeightIndex` named index."""

    def label_weights(self, label_id: int) -> tuple[NDArray[np.int32], NDArray[np.float32], float]:
        """Return the weights of one label: feature ids (increasing), weights, and the bias added to its score."""
        fitted = self._whole()
        check_value(type(self).__name__, "label_id", label_id, (Int(0, fitted.facts.n_labels - 1),))
        index = fitted.state.index
        places = np.flatnonzero(index.label_ids == label_id)
        features = (np.searchsorted(index.indptr, places, side="right") - 1).astype(np.int32)
        return features, index.weights_at(places), float(index.biases[label_id])

    @property
    def coef_(self) -> sp.csr_array:
        """The weights as a sparse float32 matrix (n_labels, n_features)."""
        fitted = self._whole()
        return label_major(fitted.state.index, fitted.facts.n_labels)

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """What is added to each label's score, float32 (n_labels,)."""
        return np.asarray(self._whole().state.index.biases)

    def _contributions(self, fitted: Fitted[Any], x_row: Matrix, label_id: int) -> Contributions:
        """A feature adds its value times its weight, and the bias is the rest of the score: exact."""
        index = fitted.state.index
        row = sp.csr_array(x_row)
        places = places_of_label(index.indptr, index.label_ids, row.indices, label_id)
        weights = np.zeros(row.nnz)
        weights[places >= 0] = index.weights_at(places[places >= 0])
        values, bias = weights * row.data, float(index.biases[label_id])
        return Contributions(row.indices, values, bias, bias + float(values.sum()), exact=True)
