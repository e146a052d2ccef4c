"""Texts to feature vectors, as vocabulary and arrays that can be saved without pickle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._matrices import csr_from_parts
from longtail._rules import Bool, Choice, Int, Nothing, Real, Rule, check_params
from longtail._threads import resolve_n_jobs
from longtail.tagging.spans import Spans, locate_characters, locate_words, lowered_with_origin

# Nothing beyond is a letter, a digit or a blank in any version of Unicode.
_END_OF_CLASSES = 0x40000
# Starting a second thread takes longer than vectorising this many texts.
_TEXTS_PER_THREAD = 64


@dataclass(frozen=True)
class Words:
    """The rule of a list of words."""

    text: str = "a list of str"

    def accepts(self, value: object) -> bool:
        return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


@dataclass(kw_only=True)
class TextVectorizer:
    """Turn texts into unit-length tf-idf rows.

    The result equals that of scikit-learn's ``TfidfVectorizer`` to the last bit, in native code that leaves Python
    free: words are runs of two or more letters, digits or underscores of any script; character n-grams, if asked for,
    are those of its ``analyzer="char_wb"``, and words and characters together share one row.

    Parameters
    ----------
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

    max_ngram: int = 1
    min_chars: int = 3
    max_chars: int = 0
    min_df: int = 2
    max_df: float = 1.0
    max_features: int | None = None
    stop_words: str | list[str] | None = None
    sublinear_tf: bool = True
    unit_rows: bool = True
    lowercase: bool = True

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "max_ngram": (Int(0, 5),),
        "min_chars": (Int(1, 20),),
        "max_chars": (Int(0, 20),),
        "min_df": (Int(1),),
        "max_df": (Real(0, 1, above=True),),
        "max_features": (Nothing(), Int(1)),
        "stop_words": (Nothing(), Choice("english"), Words()),
        "sublinear_tf": (Bool(),),
        "unit_rows": (Bool(),),
        "lowercase": (Bool(),),
    }
    _state: ClassVar[dict[str, ArraySpec]] = {
        "feature_bytes_": ArraySpec(np.uint8, ndim=1),
        "feature_ends_": ArraySpec(np.int64, ndim=1, min=1),
        "idf_": ArraySpec(np.float32, ndim=1, finite=True, min=0),
    }
    _scalars: ClassVar[dict[str, tuple[Rule, ...]]] = {"n_words_": (Int(0, 2**31 - 1),)}
    feature_bytes_: NDArray[np.uint8] = field(init=False, repr=False)
    feature_ends_: NDArray[np.int64] = field(init=False, repr=False)
    idf_: NDArray[np.float32] = field(init=False, repr=False)
    n_words_: int = field(init=False, repr=False)
    stop_words_: list[str] = field(init=False, repr=False)
    _native: _NativeParts | None = field(init=False, repr=False, compare=False, default=None)

    def fit(self, texts: Iterable[str]) -> Self:
        """Learn the vocabulary and its inverse document frequencies."""
        self.check_params()
        texts = self._prepared(texts)
        self.stop_words_ = self._chosen_stop_words()
        analyzer = self._analyzer(any(not text.isascii() for text in texts))
        most = int(self.max_df * len(texts))
        limit = -1 if self.max_features is None else self.max_features
        try:
            found = _core.learn_vocabulary(texts, analyzer, self.min_df, most, limit, _core.Control())
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        feature_bytes, feature_ends, n_rows, n_words = found
        if len(feature_ends) == 0:
            raise ValueError(
                f"TextVectorizer: no feature is left of {len(texts)} texts with min_df={self.min_df} and "
                f"max_df={self.max_df}; lower min_df, raise max_df or give more text"
            )
        self.feature_bytes_, self.feature_ends_ = feature_bytes, feature_ends
        self.n_words_ = n_words
        # Smoothed as if one more text had every feature; in float32 like scikit-learn, for equal bits.
        self.idf_ = np.log(np.float32(len(texts) + 1) / (n_rows.astype(np.float32) + np.float32(1))) + np.float32(1)
        self._native = None
        return self

    def transform(self, texts: Iterable[str], *, n_jobs: int | None = 1) -> sp.csr_array:
        """Return one float32 CSR row per text; ``n_jobs=None`` uses all CPUs, for many texts."""
        native = self._native_parts()
        texts = self._prepared(texts)
        is_ascii = all(text.isascii() for text in texts)
        n_useful = max(1, len(texts) // _TEXTS_PER_THREAD)
        n_threads = 1 if n_useful == 1 else min(resolve_n_jobs(n_jobs), n_useful)  # asking for CPUs reads files
        tf = native.tf_up_to(_greatest_count(texts), sublinear=self.sublinear_tf)
        analyzer = native.ascii_analyzer if is_ascii else native.analyzer(self)
        try:
            indptr, indices, values = native.tfidf.transform(
                texts, analyzer, tf, self.idf_, self.unit_rows, n_threads, _core.Control()
            )
        except _core.Cancelled:
            raise KeyboardInterrupt from None
        return csr_from_parts(values, indices, indptr, (len(texts), len(self.feature_ends_)))

    @property
    def vocabulary_(self) -> list[str]:
        """The features, in the order of the columns."""
        return [self.feature_name(feature_id) for feature_id in range(len(self.feature_ends_))]

    def feature_name(self, feature_id: int) -> str:
        """Return the word, words or characters that a column stands for."""
        return self.feature_names([feature_id])[0]

    def feature_names(self, feature_ids: Iterable[int]) -> list[str]:
        """Return what each of these columns stands for."""
        ids = np.fromiter(feature_ids, np.int64)
        begins = np.where(ids > 0, self.feature_ends_[np.maximum(ids - 1, 0)], 0).tolist()
        content = self.feature_bytes_.data
        edges = zip(begins, self.feature_ends_[ids].tolist(), strict=True)
        return [str(content[begin:end], "utf-8") for begin, end in edges]

    def locate(self, text: str, feature_ids: Iterable[int]) -> dict[int, Spans]:
        """Find where features occur in a text: (begin, end) in characters of the text as it was given.

        The time is linear in the length of the text plus the number of features.
        """
        ids = [int(feature_id) for feature_id in feature_ids]
        located: dict[int, Spans] = {feature_id: [] for feature_id in ids}
        words: dict[str, Spans] = {}
        grams: dict[str, Spans] = {}
        for feature_id, name in zip(ids, self.feature_names(ids), strict=True):
            (words if feature_id < self.n_words_ else grams)[name] = located[feature_id]
        lowered, origin = lowered_with_origin(text) if self.lowercase else (text, None)
        if words:
            locate_words(lowered, frozenset(self.stop_words_), words)
        if grams:
            locate_characters(lowered, grams)
        if origin is None:
            return located
        return {
            feature_id: [(origin[begin], origin[end]) for begin, end in spans] for feature_id, spans in located.items()
        }

    def params(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._rules}

    def check_params(self) -> None:
        """Raise unless every parameter is one that `fit` takes."""
        check_params("TextVectorizer", self.params(), self._rules)
        if self.max_ngram == 0 and self.max_chars == 0:
            raise ValueError("TextVectorizer: max_ngram and max_chars must not both be 0: nothing would be left")
        if 0 < self.max_chars < self.min_chars:
            raise ValueError(
                f"TextVectorizer: max_chars must be 0 or >= min_chars={self.min_chars}, got {self.max_chars}"
            )

    def check_state(self) -> None:
        """Raise ValueError unless the loaded arrays agree with each other."""
        if len(self.idf_) != len(self.feature_ends_):
            raise ValueError(
                f"TextVectorizer: idf_ has {len(self.idf_)} values, but there are {len(self.feature_ends_)} features"
            )
        try:
            self._native_parts()
            self.feature_bytes_.tobytes().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"TextVectorizer: the vocabulary must be UTF-8, {error.reason} at {error.start}") from None
        except ValueError as error:
            raise ValueError(f"TextVectorizer: {error}") from None
        is_inside = (self.feature_bytes_[self.feature_ends_[:-1]] & 0xC0) == 0x80
        if is_inside.any():
            raise ValueError(f"TextVectorizer: feature {int(is_inside.argmax())} ends within a character")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None}  # native parts are rebuilt where they are needed

    def _prepared(self, texts: Iterable[str]) -> list[str]:
        prepared = [text.lower() for text in texts] if self.lowercase else list(texts)
        for row_id, text in enumerate(prepared):
            if not text.isascii() and _has_surrogate(text):  # no UTF-8 for those; they are no letters anyway
                prepared[row_id] = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return prepared

    def _chosen_stop_words(self) -> list[str]:
        if self.stop_words == "english":
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

            return sorted(ENGLISH_STOP_WORDS)
        return sorted(self.stop_words or ())

    def _analyzer(self, any_script: bool) -> _core.TextAnalyzer:
        words, blanks = _character_classes(_END_OF_CLASSES if any_script else 0x80)
        return _core.TextAnalyzer(
            self.max_ngram, self.min_chars, self.max_chars, self.stop_words_, word_ranges=words, space_ranges=blanks
        )

    def _native_parts(self) -> _NativeParts:
        if self._native is None:
            if not hasattr(self, "feature_ends_"):
                raise ValueError("TextVectorizer: not fitted yet; call fit(texts) first")
            tfidf = _core.Tfidf(self.feature_bytes_, self.feature_ends_, self.n_words_)
            self._native = _NativeParts(tfidf, self._analyzer(any_script=False))
        return self._native


class _NativeParts:
    """What a fitted or loaded vectorizer builds on first use."""

    def __init__(self, tfidf: _core.Tfidf, ascii_analyzer: _core.TextAnalyzer) -> None:
        self.tfidf = tfidf
        self.ascii_analyzer = ascii_analyzer
        self._analyzer: _core.TextAnalyzer | None = None
        self._tf = np.zeros(0, dtype=np.float32)

    def analyzer(self, vectorizer: TextVectorizer) -> _core.TextAnalyzer:
        """Return the analyzer of all scripts, made when the first text needs it: its tables take some milliseconds."""
        if self._analyzer is None:
            self._analyzer = vectorizer._analyzer(any_script=True)
        return self._analyzer

    def tf_up_to(self, count: int, *, sublinear: bool) -> NDArray[np.float32]:
        """Return what counts from 0 on weigh; NumPy's own logarithm, because it is scikit-learn's."""
        tf = self._tf
        if len(tf) <= count:
            tf = np.arange(1 << (count + 1).bit_length(), dtype=np.float32)
            if sublinear:
                tf[1:] = np.log(tf[1:]) + np.float32(1)
            self._tf = tf
        return tf


def _greatest_count(texts: list[str]) -> int:
    """Bound how often a feature can occur in a text: a blank twice a word, where a word has at least one byte."""
    longest = max((len(text) * (1 if text.isascii() else 4) for text in texts), default=0)
    return 2 * longest + 2


@lru_cache(maxsize=2)
def _character_classes(end: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the ranges of word characters and of blanks below a code point, as `re` has them."""
    characters = np.arange(end, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    words = [edge for match in re.finditer(r"\w+", characters) for edge in match.span()]
    blanks = [edge for match in re.finditer(r"\s+", characters) for edge in match.span()]
    return np.array(words, dtype=np.int32), np.array(blanks, dtype=np.int32)


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
