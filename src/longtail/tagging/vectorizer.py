"""Texts to feature vectors, as vocabulary and arrays that can be saved without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._words import counted
from longtail.datasets.in_memory import text_list
from longtail.tagging.embeddings import embed
from longtail.tagging.preparation import Preparation, TextParameters
from longtail.tagging.text_features import Spans, TextFeatures


@dataclass(kw_only=True, eq=False, repr=False)
class TextVectorizer(TextParameters):
    """Turn texts into unit-length tf-idf rows.

    For ASCII text the result equals that of scikit-learn's ``TfidfVectorizer`` to the last bit, in native code that
    leaves Python free: words are runs of two or more letters, digits or underscores; character n-grams, if asked for,
    are those of its ``analyzer="char_wb"``, and words and characters together share one row. It is a scikit-learn
    transformer and works in a ``Pipeline``.

    Parameters
    ----------
    tokenizer : "unicode" or "sklearn", default "unicode"
        "unicode" is for all languages: one spelling for composed, decomposed and full-width letters, full case
        folding, marks belong to words, and scripts without blanks between words are cut into short runs of
        characters: 1 and 2 of Chinese and Japanese, 2 to 4 of Thai, Lao, Khmer and Burmese. "sklearn" is what
        scikit-learn does with any text.
    max_ngram : int, default 1
        Also use runs of up to this many words as features; 0 uses no words.
    min_chars, max_chars : int, default 3 and 0
        Use runs of this many characters within words as features; ``max_chars=0`` uses none.
    min_df : int, default 2
        Features that occur in fewer texts are dropped.
    max_df : float in (0, 1], default 1.0
        Features that occur in a greater share of the texts are dropped.
    max_features : int or None, default None
        Keep only the most frequent features (ties by spelling).
    stop_words : None, "english" or a list of words, default None
        Words to leave out; "english" is scikit-learn's list.
    sublinear_tf : bool, default True
        Use 1 + log(tf) instead of tf.
    unit_rows : bool, default True
        Scale every row to length 1.
    lowercase : bool, default True
    strip_accents : bool, default False
        Read "café" as "cafe".
    strip_html : bool, default False
        Leave out tags, comments, scripts and styles, and replace entities.
    stemmer : str, optional
        A language of the Snowball stemmers, such as "english" or "finnish", to reduce words to their stems (needs
        ``pip install 'longtail[stemmer]'``).
    embedding : str, optional
        Dense columns beside the words: "wordllama" is the mean word vector from the table in that package (256
        columns; ``pip install 'longtail[embedding]'``), other names are those given to `register_embedding`.
    embedding_weight : float, default 0.5
        Length of the embedding's part of a row; that of the words is 1, before the whole is scaled.

    Attributes
    ----------
    vocabulary_ : list of str, the features; words first, then character n-grams, each in alphabetical order
    idf_ : float32 array (n_features,)
    stop_words_ : list of str, the words that were left out

    Examples
    --------
    >>> from longtail.tagging.vectorizer import TextVectorizer
    >>> vectorizer = TextVectorizer(min_df=1).fit(["a web server", "a web browser"])
    >>> vectorizer.vocabulary_
    ['browser', 'server', 'web']
    >>> vectorizer.transform(["web server"]).shape
    (1, 3)
    """

    _State: ClassVar[type[TextFeatures]] = TextFeatures
    _how_to_fit: ClassVar[str] = "fit(texts)"

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Learn the vocabulary and its inverse document frequencies; `y` is ignored."""
        self.check_params()
        preparation = Preparation(self)
        texts = preparation.prepared(texts)
        stop_words = preparation.stop_words()
        analyzer = preparation.analyzer(stop_words, any_script=any(not text.isascii() for text in texts))
        most = int(self.max_df * len(texts))
        limit = -1 if self.max_features is None else self.max_features
        try:
            found = _core.learn_vocabulary(texts, analyzer, self.min_df, most, limit, _core.Control())
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        feature_bytes, feature_ends, n_rows, n_words = found
        if len(feature_ends) == 0:
            raise ValueError(
                f"TextVectorizer: no feature is left of {counted(len(texts), 'text')} with min_df={self.min_df} and "
                f"max_df={self.max_df}; lower min_df, raise max_df or give more text"
            )
        # Smoothed as if one more text had every feature; in float32 like scikit-learn, for equal bits.
        idf = np.log(np.float32(len(texts) + 1) / (n_rows.astype(np.float32) + np.float32(1))) + np.float32(1)
        self._fitted = TextFeatures(
            feature_bytes=feature_bytes,
            feature_ends=feature_ends,
            idf=idf,
            n_words=n_words,
            stop_words=stop_words,
            preparation=preparation,
        )
        return self

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> sp.csr_array:
        """Learn the vocabulary and return the rows of the same texts."""
        texts = text_list(texts)
        return self.fit(texts).transform(texts)

    def transform(self, texts: Iterable[str], *, n_jobs: int | None = 1) -> sp.csr_array:
        """Return one float32 CSR row per text; ``n_jobs=None`` uses all CPUs, for many texts."""
        return self._whole().transform(texts, n_jobs)

    def with_new_features(self, texts: Iterable[str], n_rows: int) -> tuple[TextVectorizer, NDArray[np.int64]]:
        """Return a copy that also knows the features of more texts; old features and their idf stay as they are.

        Parameters
        ----------
        texts : list of str
            New features must occur in `min_df` of them. None is added beyond `max_features`.
        n_rows : int
            Texts that the old features were learnt from.

        Returns
        -------
        vectorizer : TextVectorizer
        places : int64 array, for each new column the old column that it lies before
        """
        state = self._whole()
        prepared = state.preparation.prepared(texts)
        analyzer = state.preparation.analyzer(state.stop_words, any_script=any(not text.isascii() for text in prepared))
        found = _core.learn_vocabulary(prepared, analyzer, self.min_df, len(prepared), -1, _core.Control())
        feature_bytes, feature_ends, n_texts, n_words = found
        names, old = _cut(feature_bytes, feature_ends), _cut(state.feature_bytes, state.feature_ends)
        known = (set(old[: state.n_words]), set(old[state.n_words :]))
        fresh = [i for i, name in enumerate(names) if name not in known[i >= n_words]]
        if self.max_features is not None:  # the most frequent ones, like in fit
            n_left = max(0, self.max_features - len(old))
            fresh = sorted(sorted(fresh, key=lambda i: (-int(n_texts[i]), names[i]))[:n_left])
        n_new_words = sum(i < n_words for i in fresh)
        parts = (old[: state.n_words], [names[i] for i in fresh[:n_new_words]], old[state.n_words :])
        features = [*parts[0], *parts[1], *parts[2], *(names[i] for i in fresh[n_new_words:])]
        idf = np.log(np.float32(n_rows + len(prepared) + 1) / (n_texts[fresh].astype(np.float32) + np.float32(1)))
        places = np.repeat([state.n_words, len(old)], [n_new_words, len(fresh) - n_new_words]).astype(np.int64)
        grown = TextVectorizer(**self.params())
        grown._fitted = replace(
            state,
            feature_bytes=np.frombuffer(b"".join(features), dtype=np.uint8),
            feature_ends=np.cumsum([len(name) for name in features], dtype=np.int64),
            idf=np.insert(state.idf, places, idf + np.float32(1)),
            n_words=state.n_words + n_new_words,
        )
        return grown, places

    def rows_without_words(self, X: sp.csr_array) -> NDArray[np.bool_]:
        """Say which rows of `transform` have no feature at all: no word of such a text was in the training texts."""
        empty: NDArray[np.bool_] = self.n_known(X) == 0
        return empty

    def n_known(self, X: sp.csr_array) -> NDArray[np.int64]:
        """Count the words and n-grams of the vocabulary in each row of `transform`."""
        state = self._whole()
        is_sparse = state.preparation.parameters.embedding is None
        words = X if is_sparse else sp.csr_array(X)[:, : len(state.feature_ends)]
        counts: NDArray[np.int64] = np.diff(words.indptr).astype(np.int64)
        return counts

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the features as an array, for scikit-learn; `input_features` is ignored."""
        self._whole()
        return np.array(self.feature_names(range(self.n_features_)), dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Accept scikit-learn's default output only: data frames cannot hold sparse rows."""
        if transform not in (None, "default"):
            raise ValueError(
                f"TextVectorizer: set_output must be 'default', got {transform!r}; a data frame of "
                "n_texts × n_features would not fit into memory"
            )
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(string=True, two_d_array=False),
        )

    @property
    def vocabulary_(self) -> list[str]:
        """The features, in the order of the columns."""
        state: TextFeatures = self._fitted
        return state.names(range(len(state.feature_ends)))

    @property
    def n_features_(self) -> int:
        """The number of columns of `transform`: of the vocabulary and of the embedding."""
        state: TextFeatures = self._fitted
        embedding = state.preparation.parameters.embedding
        n_dense = 0 if embedding is None else embed(embedding, [""]).shape[1]
        return len(state.feature_ends) + n_dense

    def feature_name(self, feature_id: int) -> str:
        """Return the word, words or characters that a column stands for, or the number of a dense column."""
        return self.feature_names([feature_id])[0]

    def feature_names(self, feature_ids: Iterable[int]) -> list[str]:
        """Return what each of these columns stands for."""
        return self._whole().names(feature_ids)

    def locate(self, text: str, feature_ids: Iterable[int]) -> dict[int, Spans]:
        """Find where features lie in a text: (begin, end) in characters of the text as it was given.

        The text is gone through once for each length of features, however many they are.
        """
        return self._whole().locate(text, feature_ids)

    def _build(self, values: Mapping[str, Any]) -> TextFeatures:
        return TextFeatures.build({**values, "preparation_": Preparation(self)})

    def _whole(self) -> TextFeatures:
        state: TextFeatures = super()._whole()
        return state


def _cut(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[bytes]:
    whole = content.tobytes()
    return [whole[begin:end] for begin, end in pairwise([0, *ends.tolist()])]
