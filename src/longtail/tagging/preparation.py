"""The parameters of a TextVectorizer, and what happens to texts before their features are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

from longtail import _core
from longtail._part import Part
from longtail._ranges import Between, OneOf
from longtail._rules import Bool, Choice, Int, Nothing, Real, Text, Words
from longtail.datasets.in_memory import text_list
from longtail.tagging.embeddings import find_embedding
from longtail.tagging.normalizer import Normalizer
from longtail.tagging.scripts import END_OF_CLASSES, character_classes
from longtail.tagging.stemmers import find_stemmer


@dataclass(kw_only=True, eq=False, repr=False)
class TextParameters(Part[Any]):
    """The parameters that TextVectorizer documents; the ranges are where `longtail.autotune` looks for good values."""

    tokenizer: Annotated[str, Choice("unicode", "sklearn")] = "unicode"
    max_ngram: Annotated[int, Int(0, 5), OneOf(1, 2)] = 1
    min_chars: Annotated[int, Int(1, 20)] = 3
    max_chars: Annotated[int, Int(0, 20), OneOf(0, 5)] = 0
    min_df: Annotated[int, Int(1), Between(1, 5)] = 2
    max_df: Annotated[float, Real(0, 1, above=True), OneOf(1.0, 0.5, 0.2)] = 1.0
    max_features: Annotated[int | None, Nothing(), Int(1)] = None
    stop_words: Annotated[str | list[str] | None, Nothing(), Choice("english"), Words()] = None
    sublinear_tf: Annotated[bool, Bool(), OneOf(True, False)] = True
    unit_rows: Annotated[bool, Bool()] = True
    lowercase: Annotated[bool, Bool()] = True
    strip_accents: Annotated[bool, Bool()] = False
    strip_html: Annotated[bool, Bool()] = False
    stemmer: Annotated[str | None, Nothing(), Text()] = None
    embedding: Annotated[str | None, Nothing(), Text()] = None
    embedding_weight: Annotated[float, Real(0, above=True)] = 0.5

    _absent: ClassVar[dict[str, Any]] = {
        "tokenizer": "sklearn",
        "strip_accents": False,
        "strip_html": False,
        "stemmer": None,
        "embedding": None,
        "embedding_weight": 0.5,
    }

    def check_params(self) -> None:
        """Raise unless every parameter is one that `fit` takes."""
        super().check_params()
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


class Preparation:
    """How texts are prepared and cut into features: a copy of the parameters, which nobody changes."""

    def __init__(self, parameters: TextParameters) -> None:
        self.parameters = TextParameters(**parameters.params())

    @cached_property
    def normalizer(self) -> Normalizer:
        """What prepares texts; kept, because it remembers stems."""
        how = self.parameters
        stem = None if how.stemmer is None else find_stemmer(how.stemmer)
        return Normalizer(how.lowercase, how.tokenizer == "unicode", how.strip_accents, how.strip_html, stem)

    def prepared(self, texts: Iterable[str]) -> list[str]:
        """Return the texts as they are cut into words."""
        normalize, how = self.normalizer, self.parameters
        listed = text_list(texts)
        if how.strip_html or how.stemmer is not None:
            prepared = [normalize(text) for text in listed]
        elif how.lowercase:
            prepared = [text.lower() if text.isascii() else normalize(text) for text in listed]
        else:
            prepared = [text if text.isascii() else normalize(text) for text in listed]
        for row_id, text in enumerate(prepared):
            if not text.isascii():
                prepared[row_id] = without_surrogates(text)
        return prepared

    def stop_words(self) -> list[str]:
        """Return the words to leave out, as they are spelt when they are compared."""
        how = self.parameters
        if how.stop_words == "english":
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

            words: Iterable[str] = ENGLISH_STOP_WORDS
        else:
            words = how.stop_words or ()
        if how.tokenizer == "unicode":
            words = set(map(self.normalizer, words))
        return sorted(words)

    def analyzer(self, stop_words: list[str], *, any_script: bool) -> _core.TextAnalyzer:
        """Make what cuts prepared texts into features; tables for all scripts take some milliseconds."""
        how = self.parameters
        classes = character_classes(END_OF_CLASSES if any_script else 0x80, unicode=how.tokenizer == "unicode")
        return _core.TextAnalyzer(
            how.max_ngram,
            how.min_chars,
            how.max_chars,
            stop_words,
            word_ranges=classes.words,
            space_ranges=classes.blanks,
            ideographic_ranges=classes.ideographic,
            unspaced_ranges=classes.unspaced,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"parameters": self.parameters}  # stemmers are found again where they are needed


def without_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which have no UTF-8; they are no letters anyway."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
