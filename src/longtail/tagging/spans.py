"""Find words and character n-grams in a text, in time linear in its length."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

Spans = list[tuple[int, int]]

_WORD = re.compile(r"\w\w+")
_NOT_BLANK = re.compile(r"\S+")
_TABLE_BITS = 16
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that every character keeps its influence on the hash


def lowered_with_origin(text: str) -> tuple[str, list[int] | None]:
    """Lower a text; return also where each character comes from if the lengths differ: "İ" becomes two characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered, None
    origin = [at for at, character in enumerate(text) for _ in character.lower()]
    return lowered, [*origin, len(text)]


def locate_words(text: str, stop_words: frozenset[str], wanted: dict[str, Spans]) -> None:
    """Append to each wanted word or run of words where it occurs; stop words are skipped within runs."""
    matches = [match for match in _WORD.finditer(text) if match.group() not in stop_words]
    words = [match.group() for match in matches]
    for n_words in sorted({name.count(" ") + 1 for name in wanted}):
        runs = words if n_words == 1 else map(" ".join, zip(*(words[i:] for i in range(n_words)), strict=False))
        for first, name in enumerate(runs):
            if (spans := wanted.get(name)) is not None:
                spans.append((matches[first].start(), matches[first + n_words - 1].end()))


def locate_characters(text: str, wanted: dict[str, Spans]) -> None:
    """Append to each wanted run of characters where it occurs, in words padded with one blank on either side.

    A wanted run has blanks only at its ends, so all words can be searched as one string with a blank between them.
    Windows whose hash no wanted run has are skipped without leaving NumPy; the others are compared in full.
    """
    pieces = list(_NOT_BLANK.finditer(text))
    joined = f" {' '.join([piece.group() for piece in pieces])} "
    origin = _origin_of_joined([piece.start() for piece in pieces], [piece.end() for piece in pieces])
    codes = _codes(joined)
    by_size: dict[int, list[str]] = {}
    for name in wanted:
        by_size.setdefault(len(name), []).append(name)
    for size, names in by_size.items():
        if size > len(joined):
            continue
        is_hash_of_name = np.zeros(1 << _TABLE_BITS, dtype=bool)
        is_hash_of_name[_window_hashes(_codes("".join(names)), size)[::size]] = True
        for first in np.flatnonzero(is_hash_of_name[_window_hashes(codes, size)]).tolist():
            spans = wanted.get(joined[first : first + size])
            if spans is not None:
                # A blank belongs to no word: the span begins after it or ends before it.
                begin = first + (joined[first] == " ")
                end = first + size - (joined[first + size - 1] == " ")
                spans.append((origin[begin], origin[max(begin, end)]))


def _origin_of_joined(begins: list[int], ends: list[int]) -> list[int]:
    """Return where each character of the joined words is in the text; a blank is where its left word ends."""
    if not begins:
        return [0, 0, 0]
    sizes = np.array(ends) - np.array(begins) + 1
    joined_begins = np.cumsum(sizes) - sizes + 1
    origin = np.repeat(np.array(begins) - joined_begins, sizes) + np.arange(1, sizes.sum() + 1)
    return [0, *origin.tolist(), ends[-1]]


def _codes(text: str) -> NDArray[np.uint64]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)


def _window_hashes(codes: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """Hash each run of `size` characters to a place in the table."""
    n_windows = len(codes) - size + 1
    hashes = np.zeros(n_windows, dtype=np.uint64)
    for at in range(size):
        hashes *= _MULTIPLIER
        hashes += codes[at : at + n_windows]
    hashes *= _MULTIPLIER
    hashes >>= np.uint64(64 - _TABLE_BITS)
    return hashes
