"""Find character n-grams in a text, all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Every blank that a regular expression's \s matches is below; what lies above looks up the last entry.
_N_CODES = 0x3002
_IS_BLANK = np.array([chr(code).isspace() for code in range(_N_CODES)])
_BLANK = ord(" ")
# Hashes are looked up in a table of this many bits: of the n-grams that are not wanted, few pass.
_TABLE_BITS = 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def piece_spans(text: str, wanted: dict[str, int]) -> Iterator[tuple[str, int, int]]:
    """Yield the wanted character n-grams with their places; a blank before or after a word has none of its own.

    N-grams are those of each word with a blank on both sides. All places are hashed in one go and only those whose hash
    is that of a wanted n-gram are looked at, so that the cost hardly depends on how many are wanted.
    """
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for name in wanted:
        # Within a word there is no blank.
        if name == " " or not (name == "  " or " " in name[1:-1]):
            by_length[len(name)].append(name)
    if not by_length:
        return
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    is_blank = np.concatenate(([True], _IS_BLANK[np.minimum(codes, _N_CODES - 1)], [True]))
    padded = np.where(is_blank, _BLANK, np.concatenate(([0], codes, [0]))).astype("<u4")
    content = padded.tobytes().decode("utf-32-le")
    for n, names in by_length.items():
        if " " in names:  # a blank between two words belongs to both
            yield from _blanks(is_blank)
        for at in _candidates(padded, n, names).tolist():
            name = content[at : at + n]
            if name in wanted and name != " ":
                # `at` counts from the blank before the text. Blanks at the ends of the n-gram have no place.
                yield name, at if name[0] == " " else at - 1, at + n - 2 if name[-1] == " " else at + n - 1


def _candidates(padded: NDArray[np.uint32], n: int, names: list[str]) -> NDArray[np.int64]:
    """Return the places whose n-gram may be among the names."""
    n_places = len(padded) - n + 1
    if n_places <= 0:
        return np.zeros(0, dtype=np.int64)
    table = np.zeros(1 << _TABLE_BITS, dtype=bool)
    lengths = np.frombuffer("".join(names).encode("utf-32-le"), np.uint32).reshape(len(names), n)
    table[_hashes([lengths[:, i] for i in range(n)])] = True
    return np.flatnonzero(table[_hashes([padded[i : i + n_places] for i in range(n)])])


def _hashes(columns: list[NDArray[np.uint32]]) -> NDArray[np.uint64]:
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:  # arithmetic of arrays wraps around
        found = (found + column) * _FACTOR
    return found >> np.uint64(64 - _TABLE_BITS)


def _blanks(is_blank: NDArray[np.bool_]) -> Iterator[tuple[str, int, int]]:
    """Yield the blank before and the blank after each word."""
    begins = np.flatnonzero(is_blank[:-1] & ~is_blank[1:])
    ends = np.flatnonzero(~is_blank[:-1] & is_blank[1:])
    for place in np.sort(np.concatenate((begins, ends))).tolist():
        yield " ", place, place
