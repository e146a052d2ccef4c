"""Stemmers by language, from the package snowballstemmer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache


@lru_cache(maxsize=8)
def find_stemmer(language: str) -> Callable[[str], str]:
    """Return the function that reduces a word of a language to its stem."""
    try:
        import snowballstemmer
    except ImportError:
        raise ImportError(
            f"TextVectorizer: stemmer={language!r} needs snowballstemmer; pip install 'longtail[stemmer]'"
        ) from None
    known = snowballstemmer.algorithms()
    if language not in known:
        raise ValueError(f"TextVectorizer: stemmer must be one of {', '.join(sorted(known))}, got {language!r}")
    stem: Callable[[str], str] = snowballstemmer.stemmer(language).stemWord
    return stem
