"""The fitted state of a TextVectorizer: the vocabulary, its weights, and how texts become rows with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail import _core
from longtail._array_files import ArraySpec
from longtail._cancel import as_interrupt, check_cancelled, current_control
from longtail._csr import csr_for_users
from longtail._fitted import Names
from longtail._part import PartState
from longtail._rules import Int
from longtail._threads import resolve_n_jobs
from longtail.datasets import unit_rows
from longtail.datasets.in_memory import text_list
from longtail.tagging.embeddings import embed
from longtail.tagging.normalizer import html_parts
from longtail.tagging.pieces import Places, piece_spans
from longtail.tagging.preparation import Preparation, without_surrogates
from longtail.tagging.scripts import RUN_LENGTHS, run_pattern, word_pattern

Spans = list[tuple[int, int]]

# Starting a second thread takes longer than vectorising this many texts.
_TEXTS_PER_THREAD = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class TextFeatures(PartState):
    """The features of texts: words first, then character n-grams, each in alphabetical order."""

    feature_bytes: Annotated[NDArray[np.uint8], ArraySpec(np.uint8, ndim=1)]
    feature_ends: Annotated[NDArray[np.int64], ArraySpec(np.int64, ndim=1, min=1)]
    idf: Annotated[NDArray[np.float32], ArraySpec(np.float32, ndim=1, finite=True, min=0)]
    n_words: Annotated[int, Int(0, 2**31 - 1)]
    stop_words: Annotated[list[str], Names()]
    preparation: Preparation

    def transform(self, texts: Iterable[str], n_jobs: int | None) -> sp.csr_array:
        """Return one float32 CSR row per text."""
        how = self.preparation.parameters
        if how.embedding is not None:
            texts = text_list(texts)  # used twice
        given, texts = texts, self.preparation.prepared(texts)
        is_ascii = all(text.isascii() for text in texts)
        n_useful = max(1, len(texts) // _TEXTS_PER_THREAD)
        n_threads = 1 if n_useful == 1 else min(resolve_n_jobs(n_jobs), n_useful)  # asking for CPUs reads files
        tf = self._tf_up_to(_greatest_count(texts))
        analyzer = self._ascii_analyzer if is_ascii else self._any_analyzer
        with as_interrupt():
            indptr, indices, values = self._tfidf.transform(
                texts, analyzer, tf, self.idf, how.unit_rows, n_threads, current_control()
            )
        X = csr_for_users(values, indices, indptr, (len(texts), len(self.feature_ends)))
        return X if how.embedding is None else self._with_embedding(X, given)

    def names(self, feature_ids: Iterable[int]) -> list[str]:
        """Return what each of these columns stands for."""
        ids = np.fromiter(feature_ids, np.int64)
        n_features = len(self.feature_ends)
        sparse = ids[ids < n_features]
        begins = np.where(sparse > 0, self.feature_ends[np.maximum(sparse - 1, 0)], 0).tolist()
        content = self.feature_bytes.data
        edges = zip(begins, self.feature_ends[sparse].tolist(), strict=True)
        words = (str(content[begin:end], "utf-8") for begin, end in edges)
        return [
            next(words) if i < n_features else f"{self.preparation.parameters.embedding}[{i - n_features}]"
            for i in ids.tolist()
        ]

    def locate(self, text: str, feature_ids: Iterable[int]) -> dict[int, Spans]:
        """Find where features lie in a text: (begin, end) in characters of the text as it was given."""
        located: dict[int, Spans] = {int(feature_id): [] for feature_id in feature_ids}
        n_features = len(self.feature_ends)
        sparse = [feature_id for feature_id in located if feature_id < n_features]  # dense columns lie nowhere
        names = dict(zip(sparse, self.names(sparse), strict=True))
        words = {name: feature_id for feature_id, name in names.items() if feature_id < self.n_words}
        pieces = {name: feature_id for feature_id, name in names.items() if feature_id >= self.n_words}
        prepared, origin = self.preparation.normalizer.with_origin(without_surrogates(text))
        check_cancelled()
        places = np.concatenate([self._word_spans(prepared, words), piece_spans(prepared, pieces)], axis=1)
        if not places.shape[1]:
            return located
        ids, first, last = places
        begins, ends = map(_as_array, origin)
        # A blank beside a word has no width, and the one after the last word no character of the text.
        first_chars = np.where(first < len(begins), begins[np.minimum(first, len(begins) - 1)], ends[-1])
        last_chars = np.where(first < last, ends[last - 1], first_chars)
        order = np.lexsort((last_chars, first_chars, ids))
        spans = list(zip(first_chars[order].tolist(), last_chars[order].tolist(), strict=True))
        ids = ids[order]
        borders = np.flatnonzero(np.diff(ids, prepend=-1, append=-1))
        for begin, end in pairwise(borders.tolist()):
            located[int(ids[begin])] = spans[begin:end]
        return located

    def check_whole(self) -> None:
        """Raise ValueError unless the loaded arrays agree with each other."""
        if len(self.idf) != len(self.feature_ends):
            raise ValueError(
                f"TextVectorizer: idf_ has {len(self.idf)} values, but there are {len(self.feature_ends)} features"
            )
        try:
            self._tfidf  # noqa: B018 (its constructor checks the vocabulary)
            self.feature_bytes.tobytes().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"TextVectorizer: the vocabulary must be UTF-8, {error.reason} at {error.start}") from None
        except ValueError as error:
            raise ValueError(f"TextVectorizer: {error}") from None
        is_inside = (self.feature_bytes[self.feature_ends[:-1]] & 0xC0) == 0x80
        if is_inside.any():
            raise ValueError(f"TextVectorizer: feature {int(is_inside.argmax())} ends within a character")

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # the rest is rebuilt

    @cached_property
    def _tfidf(self) -> _core.Tfidf:
        return _core.Tfidf(self.feature_bytes, self.feature_ends, self.n_words)

    @cached_property
    def _ascii_analyzer(self) -> _core.TextAnalyzer:
        return self.preparation.analyzer(self.stop_words, any_script=False)

    @cached_property
    def _any_analyzer(self) -> _core.TextAnalyzer:
        return self.preparation.analyzer(self.stop_words, any_script=True)

    def _tf_up_to(self, count: int) -> NDArray[np.float32]:
        """Return the weights of counts from 0 to `count`; NumPy's own logarithm, because it is scikit-learn's."""
        tf: NDArray[np.float32] | None = self.__dict__.get("_tf")
        if tf is None or len(tf) <= count:
            tf = np.arange(1 << (count + 1).bit_length(), dtype=np.float32)
            if self.preparation.parameters.sublinear_tf:
                tf[1:] = np.log(tf[1:]) + np.float32(1)
            self.__dict__["_tf"] = tf
        return tf

    def _with_embedding(self, X: sp.csr_array, texts: Iterable[str]) -> sp.csr_array:
        how = self.preparation.parameters
        assert how.embedding is not None
        raw = text_list(texts)
        if how.strip_html:
            raw = ["".join(part for part, _, _ in html_parts(text)) for text in raw]
        dense = embed(how.embedding, raw) * np.float32(how.embedding_weight)
        joined = sp.hstack([X, sp.csr_array(dense)], format="csr")
        if how.unit_rows:
            joined = unit_rows(joined)
        indices = joined.indices.astype(np.int32, copy=False)
        return csr_for_users(joined.data.astype(np.float32, copy=False), indices, joined.indptr, joined.shape)

    def _word_spans(self, text: str, wanted: dict[str, int]) -> Places:
        """Return the ids of the wanted words, word n-grams and runs of scripts without blanks, with their places."""
        if not wanted:
            return np.zeros((3, 0), dtype=np.int64)
        is_unicode = self.preparation.parameters.tokenizer == "unicode"
        stops = set(self.stop_words)
        found = word_pattern(unicode=is_unicode and not text.isascii()).finditer(text)
        matches = [match for match in found if match.group() not in stops] if stops else list(found)
        words = [match.group() for match in matches]
        ids: list[int] = []
        begins: list[int] = []
        ends: list[int] = []
        for n in sorted({name.count(" ") + 1 for name in wanted}):
            check_cancelled()
            names = words if n == 1 else map(" ".join, zip(*(words[i:] for i in range(n)), strict=False))
            numbered = [wanted.get(name, -1) for name in names]
            hits = [place for place, feature_id in enumerate(numbered) if feature_id >= 0]
            ids += [numbered[place] for place in hits]
            begins += [matches[place].start() for place in hits]
            ends += [matches[place + n - 1].end() for place in hits]
        if is_unicode and not text.isascii():
            for begin, end in _run_spans(text):
                if (feature_id := wanted.get(text[begin:end], -1)) >= 0:
                    ids.append(feature_id)
                    begins.append(begin)
                    ends.append(end)
        return np.array([ids, begins, ends], dtype=np.int64)


def _run_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of all features of scripts without blanks."""
    for match in run_pattern().finditer(text):
        (shortest, longest), length = RUN_LENGTHS[match.lastindex != 1], len(match.group())
        for n in range(min(shortest, length), min(longest, length) + 1):
            for begin in range(match.start(), match.end() - n + 1):
                yield begin, begin + n


def _as_array(numbers: Sequence[int]) -> NDArray[np.int64]:
    if isinstance(numbers, range):  # an array of a text's length, without a step in Python for each
        return np.arange(numbers.start, numbers.stop)
    return np.asarray(numbers)


def _greatest_count(texts: list[str]) -> int:
    """Bound how often a feature can occur in a text: a blank twice a word, where a word has at least one byte."""
    longest = max((len(text) * (1 if text.isascii() else 4) for text in texts), default=0)
    return 2 * longest + 2
