"""Classes of characters: letters of words, blanks, and scripts that put no blanks between words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ranges = NDArray[np.int32]

# Nothing beyond is a letter, a digit or a blank in any version of Unicode.
END_OF_CLASSES = 0x40000
_END_OF_MARKS = 0x20000
# Han, its iteration marks and numerals, kana, and the letters of Bopomofo: first and last code point.
_IDEOGRAPHIC = (
    *((0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3041, 0x3096), (0x3099, 0x309A), (0x309D, 0x309F)),
    *((0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x3105, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF)),
    *((0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF)),
)
# Thai, Lao, Burmese, Khmer, and relatives that are written alike; their digits are left to words.
_UNSPACED = (
    *((0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E81, 0x0ECF), (0x0EDC, 0x0EDF), (0x1000, 0x103F), (0x1050, 0x108F)),
    *((0x109A, 0x109D), (0x1780, 0x17D3), (0x17D7, 0x17D7), (0x17DC, 0x17DD), (0x1950, 0x1974), (0x1980, 0x19C9)),
    *((0x1A20, 0x1A7C), (0xA9E0, 0xA9EF), (0xA9FA, 0xA9FE), (0xAA60, 0xAA7F)),
)


class Classes(NamedTuple):
    """Ranges of code points: begin, end, begin, end, …, half-open."""

    words: Ranges
    blanks: Ranges
    ideographic: Ranges
    unspaced: Ranges


@lru_cache(maxsize=4)
def character_classes(end: int, *, unicode: bool) -> Classes:
    """Return the classes below a code point, as `re` has them; with `unicode`, marks belong to words.

    `re` has no combining marks among its word characters, which cuts words of Hindi, Thai or Hebrew to pieces.
    """
    characters = np.arange(end, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
    is_word = _where(r"\w", characters)
    blanks = _edges(_where(r"\s", characters))
    none = np.zeros(0, dtype=np.int32)
    if not unicode or end <= 0x80:
        return Classes(_edges(is_word), blanks, none, none)
    for code_point in range(0x300, min(end, _END_OF_MARKS)):
        if not is_word[code_point] and unicodedata.category(characters[code_point])[0] == "M":
            is_word[code_point] = True
    return Classes(
        _edges(is_word), blanks, _edges(is_word & _within(_IDEOGRAPHIC, end)), _edges(is_word & _within(_UNSPACED, end))
    )


@lru_cache(maxsize=2)
def word_pattern(*, unicode: bool) -> re.Pattern[str]:
    """Return what matches one word of a script with blanks: a run of two or more word characters."""
    if not unicode:
        return re.compile(r"\w\w+")
    classes = character_classes(END_OF_CLASSES, unicode=True)
    is_word = _flags(classes.words) & ~_flags(classes.ideographic) & ~_flags(classes.unspaced)
    return re.compile(f"[{_in_brackets(_edges(is_word))}]{{2,}}")


@lru_cache(maxsize=1)
def run_pattern() -> re.Pattern[str]:
    """Return what matches a run of ideographs or kana (group 1) or of another script without blanks (group 2)."""
    classes = character_classes(END_OF_CLASSES, unicode=True)
    return re.compile(f"([{_in_brackets(classes.ideographic)}]+)|([{_in_brackets(classes.unspaced)}]+)")


# How many characters the features of such runs have: of group 1 and 2 of `run_pattern`, as the native analyzer has it.
RUN_LENGTHS = ((1, 2), (2, 4))


def _where(pattern: str, characters: str) -> NDArray[np.bool_]:
    found = np.zeros(len(characters), dtype=np.bool_)
    for match in re.finditer(f"{pattern}+", characters):
        found[match.start() : match.end()] = True
    return found


def _within(ranges: tuple[tuple[int, int], ...], end: int) -> NDArray[np.bool_]:
    found = np.zeros(end, dtype=np.bool_)
    for first, last in ranges:
        found[first : last + 1] = True
    return found


def _flags(ranges: Ranges) -> NDArray[np.bool_]:
    found = np.zeros(END_OF_CLASSES, dtype=np.bool_)
    for begin, end in ranges.reshape(-1, 2).tolist():
        found[begin:end] = True
    return found


def _edges(flags: NDArray[np.bool_]) -> Ranges:
    padded = np.concatenate([[False], flags, [False]])
    return np.flatnonzero(padded[1:] != padded[:-1]).astype(np.int32)


def _in_brackets(ranges: Ranges) -> str:
    pairs = ranges.reshape(-1, 2).tolist()
    return "".join(f"\\U{begin:08x}-\\U{end - 1:08x}" for begin, end in pairs)
