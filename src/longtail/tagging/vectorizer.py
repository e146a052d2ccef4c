"""Texts to feature vectors, as vocabulary and arrays that can be saved without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import as_interrupt, current_control
from longtail._estimator import Parameters
from longtail._matrices import csr_from_parts
from longtail._ranges import Between, OneOf, Range
from longtail._rules import Bool, Choice, Int, Nothing, Real, Rule, Text, check_params
from longtail._threads import resolve_n_jobs
from longtail.datasets import unit_rows
from longtail.datasets.in_memory import text_list
from longtail.tagging.embeddings import embed, find_embedding
from longtail.tagging.normalizer import Normalizer, html_parts
from longtail.tagging.pieces import piece_spans
from longtail.tagging.scripts import END_OF_CLASSES, RUN_LENGTHS, character_classes, run_pattern, word_pattern
from longtail.tagging.stemmers import find_stemmer

Spans = list[tuple[int, int]]

# Starting a second thread takes longer than vectorising this many texts.
_TEXTS_PER_THREAD = 64


@dataclass(frozen=True)
class Words:
    """The rule of a list of words."""

    text: str = "a list of str"

    def accepts(self, value: object) -> bool:
        return isinstance(value, list | tuple | set | frozenset) and all(isinstance(word, str) for word in value)


@dataclass(kw_only=True, repr=False)
class TextVectorizer(Parameters):
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

    tokenizer: str = "unicode"
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
    strip_accents: bool = False
    strip_html: bool = False
    stemmer: str | None = None
    embedding: str | None = None
    embedding_weight: float = 0.5

    _rules: ClassVar[dict[str, tuple[Rule, ...]]] = {
        "tokenizer": (Choice("unicode", "sklearn"),),
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
        "strip_accents": (Bool(),),
        "strip_html": (Bool(),),
        "stemmer": (Nothing(), Text()),
        "embedding": (Nothing(), Text()),
        "embedding_weight": (Real(0, above=True),),
    }
    # Where `longtail.autotune` looks for good values.
    _ranges: ClassVar[dict[str, Range]] = {
        "max_ngram": OneOf(1, 2),
        "max_chars": OneOf(0, 5),
        "min_df": Between(1, 5),
        "max_df": OneOf(1.0, 0.5, 0.2),
        "sublinear_tf": OneOf(True, False),
    }
    # Parameters that came later, and what models saved without them do.
    _absent: ClassVar[dict[str, Any]] = {
        "tokenizer": "sklearn",
        "strip_accents": False,
        "strip_html": False,
        "stemmer": None,
        "embedding": None,
        "embedding_weight": 0.5,
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
    _normalize: Normalizer | None = field(init=False, repr=False, compare=False, default=None)

    def fit(self, texts: Iterable[str], y: Any = None) -> Self:
        """Learn the vocabulary and its inverse document frequencies; `y` is ignored."""
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

    def fit_transform(self, texts: Iterable[str], y: Any = None) -> sp.csr_array:
        """Learn the vocabulary and return the rows of the same texts."""
        texts = text_list(texts)
        return self.fit(texts).transform(texts)

    def transform(self, texts: Iterable[str], *, n_jobs: int | None = 1) -> sp.csr_array:
        """Return one float32 CSR row per text; ``n_jobs=None`` uses all CPUs, for many texts."""
        native = self._native_parts()
        if self.embedding is not None:
            texts = text_list(texts)  # used twice
        given, texts = texts, self._prepared(texts)
        is_ascii = all(text.isascii() for text in texts)
        n_useful = max(1, len(texts) // _TEXTS_PER_THREAD)
        n_threads = 1 if n_useful == 1 else min(resolve_n_jobs(n_jobs), n_useful)  # asking for CPUs reads files
        tf = native.tf_up_to(_greatest_count(texts), sublinear=self.sublinear_tf)
        analyzer = native.ascii_analyzer if is_ascii else native.analyzer(self)
        with as_interrupt():
            indptr, indices, values = native.tfidf.transform(
                texts, analyzer, tf, self.idf_, self.unit_rows, n_threads, current_control()
            )
        if len(indices) <= np.iinfo(np.int32).max:  # scikit-learn's tools want both index arrays of one type
            indptr = indptr.astype(np.int32)
        X = csr_from_parts(values, indices, indptr, (len(texts), len(self.feature_ends_)))
        return X if self.embedding is None else self._with_embedding(X, given)

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
        prepared = self._prepared(texts)
        analyzer = self._analyzer(any(not text.isascii() for text in prepared))
        found = _core.learn_vocabulary(prepared, analyzer, self.min_df, len(prepared), -1, _core.Control())
        feature_bytes, feature_ends, n_texts, n_words = found
        names, old = _cut(feature_bytes, feature_ends), _cut(self.feature_bytes_, self.feature_ends_)
        known = (set(old[: self.n_words_]), set(old[self.n_words_ :]))
        fresh = [i for i, name in enumerate(names) if name not in known[i >= n_words]]
        if self.max_features is not None:  # the most frequent ones, like in fit
            n_left = max(0, self.max_features - len(old))
            fresh = sorted(sorted(fresh, key=lambda i: (-int(n_texts[i]), names[i]))[:n_left])
        n_new_words = sum(i < n_words for i in fresh)
        parts = (old[: self.n_words_], [names[i] for i in fresh[:n_new_words]], old[self.n_words_ :])
        features = [*parts[0], *parts[1], *parts[2], *(names[i] for i in fresh[n_new_words:])]
        idf = np.log(np.float32(n_rows + len(prepared) + 1) / (n_texts[fresh].astype(np.float32) + np.float32(1)))
        places = np.repeat([self.n_words_, len(old)], [n_new_words, len(fresh) - n_new_words]).astype(np.int64)
        grown = TextVectorizer(**self.params())
        grown.feature_bytes_ = np.frombuffer(b"".join(features), dtype=np.uint8)
        grown.feature_ends_ = np.cumsum([len(name) for name in features], dtype=np.int64)
        grown.idf_ = np.insert(self.idf_, places, idf + np.float32(1))
        grown.n_words_ = self.n_words_ + n_new_words
        grown.stop_words_ = self.stop_words_
        return grown, places

    def rows_without_words(self, X: sp.csr_array) -> NDArray[np.bool_]:
        """Say which rows of `transform` have no feature at all: no word of such a text was in the training texts."""
        empty: NDArray[np.bool_] = self.n_known(X) == 0
        return empty

    def n_known(self, X: sp.csr_array) -> NDArray[np.int64]:
        """Count the words and n-grams of the vocabulary in each row of `transform`."""
        words = X if self.embedding is None else sp.csr_array(X)[:, : len(self.feature_ends_)]
        counts: NDArray[np.int64] = np.diff(words.indptr).astype(np.int64)
        return counts

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the features as an array, for scikit-learn; `input_features` is ignored."""
        self._native_parts()
        return np.array(self.feature_names(range(self.n_features_)), dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Accept scikit-learn's default output only: data frames cannot hold sparse rows."""
        if transform not in (None, "default"):
            raise ValueError(
                f"TextVectorizer: set_output must be 'default', got {transform!r}; a data frame of "
                "n_texts × n_features would not fit into memory"
            )
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "feature_ends_")

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
        return [self.feature_name(feature_id) for feature_id in range(len(self.feature_ends_))]

    @property
    def n_features_(self) -> int:
        """The number of columns of `transform`: of the vocabulary and of the embedding."""
        n_dense = 0 if self.embedding is None else embed(self.embedding, [""]).shape[1]
        return len(self.feature_ends_) + n_dense

    def feature_name(self, feature_id: int) -> str:
        """Return the word, words or characters that a column stands for, or the number of a dense column."""
        return self.feature_names([feature_id])[0]

    def feature_names(self, feature_ids: Iterable[int]) -> list[str]:
        """Return what each of these columns stands for."""
        ids = np.fromiter(feature_ids, np.int64)
        n_features = len(self.feature_ends_)
        sparse = ids[ids < n_features]
        begins = np.where(sparse > 0, self.feature_ends_[np.maximum(sparse - 1, 0)], 0).tolist()
        content = self.feature_bytes_.data
        edges = zip(begins, self.feature_ends_[sparse].tolist(), strict=True)
        words = (str(content[begin:end], "utf-8") for begin, end in edges)
        return [next(words) if i < n_features else f"{self.embedding}[{i - n_features}]" for i in ids.tolist()]

    def locate(self, text: str, feature_ids: Iterable[int]) -> dict[int, Spans]:
        """Find where features lie in a text: (begin, end) in characters of the text as it was given.

        The text is gone through once for each length of features, however many they are.
        """
        located: dict[int, Spans] = {int(feature_id): [] for feature_id in feature_ids}
        n_features = len(self.feature_ends_)
        sparse = [feature_id for feature_id in located if feature_id < n_features]  # dense columns lie nowhere
        names = dict(zip(sparse, self.feature_names(sparse), strict=True))
        words = {name: feature_id for feature_id, name in names.items() if feature_id < self.n_words_}
        pieces = {name: feature_id for feature_id, name in names.items() if feature_id >= self.n_words_}
        prepared, (begins, ends) = self._normalizer().with_origin(_without_surrogates(text))
        for wanted, spans in ((words, self._word_spans(prepared, words)), (pieces, piece_spans(prepared, pieces))):
            for name, begin, end in spans:
                if begin < end:
                    place = begins[begin], ends[end - 1]
                else:  # a blank beside a word has no width, and the one after the last word no character of the text
                    place = (begins[begin] if begin < len(begins) else ends[-1],) * 2
                located[wanted[name]].append(place)
        for found in located.values():
            found.sort()
        return located

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
        if self.stemmer is not None:
            find_stemmer(self.stemmer)
        if self.embedding is not None:
            find_embedding(self.embedding)

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
        return {**self.__dict__, "_native": None, "_normalize": None}  # rebuilt where they are needed

    def _prepared(self, texts: Iterable[str]) -> list[str]:
        normalize = self._normalizer()
        listed = text_list(texts)
        if self.strip_html or self.stemmer is not None:
            prepared = [normalize(text) for text in listed]
        elif self.lowercase:
            prepared = [text.lower() if text.isascii() else normalize(text) for text in listed]
        else:
            prepared = [text if text.isascii() else normalize(text) for text in listed]
        for row_id, text in enumerate(prepared):
            if not text.isascii():
                prepared[row_id] = _without_surrogates(text)
        return prepared

    def _with_embedding(self, X: sp.csr_array, texts: Iterable[str]) -> sp.csr_array:
        assert self.embedding is not None
        raw = text_list(texts)
        if self.strip_html:
            raw = ["".join(part for part, _, _ in html_parts(text)) for text in raw]
        dense = embed(self.embedding, raw) * np.float32(self.embedding_weight)
        joined = sp.hstack([X, sp.csr_array(dense)], format="csr")
        if self.unit_rows:
            joined = unit_rows(joined)
        indices = joined.indices.astype(np.int32, copy=False)
        return csr_from_parts(joined.data.astype(np.float32, copy=False), indices, joined.indptr, joined.shape)

    def _normalizer(self) -> Normalizer:
        """Return what prepares texts; kept while the parameters stay, because it remembers stems."""
        stem = None if self.stemmer is None else find_stemmer(self.stemmer)
        made = Normalizer(self.lowercase, self.tokenizer == "unicode", self.strip_accents, self.strip_html, stem)
        if made != self._normalize:
            self._normalize = made
        return self._normalize or made

    def _chosen_stop_words(self) -> list[str]:
        if self.stop_words == "english":
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

            words: Iterable[str] = ENGLISH_STOP_WORDS
        else:
            words = self.stop_words or ()
        if self.tokenizer == "unicode":  # as the words of texts are spelt when they are compared
            words = set(map(self._normalizer(), words))
        return sorted(words)

    def _analyzer(self, any_script: bool) -> _core.TextAnalyzer:
        classes = character_classes(END_OF_CLASSES if any_script else 0x80, unicode=self.tokenizer == "unicode")
        return _core.TextAnalyzer(
            self.max_ngram,
            self.min_chars,
            self.max_chars,
            self.stop_words_,
            word_ranges=classes.words,
            space_ranges=classes.blanks,
            ideographic_ranges=classes.ideographic,
            unspaced_ranges=classes.unspaced,
        )

    def _word_spans(self, text: str, wanted: dict[str, int]) -> Iterator[tuple[str, int, int]]:
        """Yield the wanted words, word n-grams and runs of scripts without blanks, with their places."""
        is_unicode = self.tokenizer == "unicode"
        stops = set(self.stop_words_)
        found = word_pattern(unicode=is_unicode and not text.isascii()).finditer(text)
        matches = [match for match in found if match.group() not in stops] if stops else list(found)
        words = [match.group() for match in matches]
        for n in sorted({name.count(" ") + 1 for name in wanted}):
            names = words if n == 1 else map(" ".join, zip(*(words[i:] for i in range(n)), strict=False))
            for first, name in enumerate(names):
                if name in wanted:
                    yield name, matches[first].start(), matches[first + n - 1].end()
        if not is_unicode or text.isascii():
            return
        for match in run_pattern().finditer(text):
            (shortest, longest), length = RUN_LENGTHS[match.lastindex != 1], len(match.group())
            for n in range(min(shortest, length), min(longest, length) + 1):
                for begin in range(match.start(), match.end() - n + 1):
                    if text[begin : begin + n] in wanted:
                        yield text[begin : begin + n], begin, begin + n

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


def _cut(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[bytes]:
    whole = content.tobytes()
    return [whole[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def _greatest_count(texts: list[str]) -> int:
    """Bound how often a feature can occur in a text: a blank twice a word, where a word has at least one byte."""
    longest = max((len(text) * (1 if text.isascii() else 4) for text in texts), default=0)
    return 2 * longest + 2


def _without_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which have no UTF-8; they are no letters anyway."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
