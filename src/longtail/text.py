"""Texts to feature vectors, as vocabulary and arrays that can be saved without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._matrices import canonical_csr
from longtail._rules import Bool, Int, Nothing, check_params

RULES = {
    "min_df": (Int(1),),
    "max_features": (Nothing(), Int(1)),
    "max_ngram": (Int(1, 5),),
    "sublinear_tf": (Bool(),),
    "lowercase": (Bool(),),
}


@dataclass(kw_only=True)
class TextVectorizer:
    """Turn texts into unit-length tf-idf rows.

    Words are runs of two or more letters, digits or underscores, as in scikit-learn, whose vectorizer does the work.

    Parameters
    ----------
    min_df : int, default 2
        Words that occur in fewer texts are dropped.
    max_features : int or None, default None
        Keep only the most frequent words.
    max_ngram : int, default 1
        Also use runs of up to this many words as features.
    sublinear_tf : bool, default True
        Use 1 + log(tf) instead of tf.
    lowercase : bool, default True

    Examples
    --------
    >>> from longtail.text import TextVectorizer
    >>> TextVectorizer(min_df=1).fit(["a web server", "a web browser"]).transform(["web server"]).shape
    (1, 3)
    """

    min_df: int = 2
    max_features: int | None = None
    max_ngram: int = 1
    sublinear_tf: bool = True
    lowercase: bool = True

    vocabulary_: list[str] = field(init=False, repr=False)
    idf_: NDArray[np.float32] = field(init=False, repr=False)
    _vectorizer: Any = field(init=False, repr=False, default=None)

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn the vocabulary and its inverse document frequencies."""
        params = self.params()
        check_params("TextVectorizer", params, RULES)
        vectorizer = self._make(min_df=self.min_df, max_features=self.max_features)
        try:
            vectorizer.fit(texts)
        except ValueError as error:
            raise ValueError(
                f"TextVectorizer: {str(error).lower()} in {len(texts)} texts; lower min_df or give more text"
            ) from None
        self.vocabulary_ = [str(word) for word in vectorizer.get_feature_names_out()]
        self.idf_ = vectorizer.idf_.astype(np.float32)
        self._restore()
        return self

    def transform(self, texts: Iterable[str]) -> sp.csr_array:
        """Return one unit-length float32 CSR row per text."""
        if self._vectorizer is None:
            self._restore()
        return canonical_csr(self._vectorizer.transform(texts))

    def params(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in RULES}

    def _restore(self) -> None:
        """Build the working vectorizer from what is saved, so that a loaded model and a fitted one are the same."""
        self._vectorizer = self._make(vocabulary={word: i for i, word in enumerate(self.vocabulary_)})
        self._vectorizer.idf_ = self.idf_

    def _make(self, **settings: Any) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        return TfidfVectorizer(
            ngram_range=(1, self.max_ngram),
            sublinear_tf=self.sublinear_tf,
            lowercase=self.lowercase,
            dtype=np.float32,
            **settings,
        )
