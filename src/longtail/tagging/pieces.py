"""Find character n-grams in a text, all at once."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from longtail._cancel import check_cancelled

# Feature ids, begins and ends: three rows of int64.
Places: TypeAlias = NDArray[np.int64]

# Every blank that a regular expression's \s matches is below; what lies above looks up the last entry.
_N_CODES = 0x3002
_IS_BLANK = np.array([chr(code).isspace() for code in range(_N_CODES)])
_BLANK = ord(" ")
# Hashes are looked up in a table of this many bits: of the n-grams that are not wanted, few pass.
_TABLE_BITS = 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def piece_spans(text: str, wanted: dict[str, int]) -> Places:
    """Return the ids of the wanted character n-grams with their places; a blank beside a word has no width.

    N-grams are those of each word with a blank on both sides. All places are hashed in one go and only those whose hash
    is that of a wanted n-gram are looked at, so that the cost hardly depends on how many are wanted.
    """
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for name in wanted:
        # Within a word there is no blank.
        if name != " " and name != "  " and " " not in name[1:-1]:
            by_length[len(name)].append(name)
    found = [np.zeros((3, 0), dtype=np.int64)]
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    is_blank = np.concatenate(([True], _IS_BLANK[np.minimum(codes, _N_CODES - 1)], [True]))
    padded = np.where(is_blank, _BLANK, np.concatenate(([0], codes, [0]))).astype("<u4")
    for n, names in by_length.items():
        check_cancelled()
        places, hits = _found(padded, n, sorted(names))
        ids = np.array([wanted[name] for name in sorted(names)], dtype=np.int64)[hits]
        # Places count from the blank before the text. Blanks at the ends of the n-gram have no place.
        begins = places - ~is_blank[places]
        ends = places + n - 1 - is_blank[places + n - 1]
        found.append(np.stack([ids, begins, ends]))
    if " " in wanted:  # a blank between two words belongs to both
        edges = np.flatnonzero(is_blank[:-1] != is_blank[1:])
        found.append(np.stack([np.full(len(edges), wanted[" "]), edges, edges]))
    return np.concatenate(found, axis=1)


def _found(padded: NDArray[np.uint32], n: int, names: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places whose n-gram is one of the names, which are sorted, and which one it is."""
    n_places = len(padded) - n + 1
    if n_places <= 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    table = np.zeros(1 << _TABLE_BITS, dtype=bool)
    letters = np.frombuffer("".join(names).encode("utf-32-le"), np.uint32).reshape(len(names), n)
    table[_hashes([letters[:, i] for i in range(n)])] = True
    places = np.flatnonzero(table[_hashes([padded[i : i + n_places] for i in range(n)])])
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, n)[places])
    grams = windows.view(f"<U{n}").reshape(-1)
    listed = letters.copy().view(f"<U{n}").reshape(-1)
    at = np.minimum(np.searchsorted(listed, grams), len(names) - 1)
    is_hit = listed[at] == grams
    return places[is_hit], at[is_hit]


def _hashes(columns: list[NDArray[np.uint32]]) -> NDArray[np.uint64]:
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:  # arithmetic of arrays wraps around
        found = (found + column) * _FACTOR
    return found >> np.uint64(64 - _TABLE_BITS)
