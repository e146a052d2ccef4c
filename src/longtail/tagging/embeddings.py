"""Dense vectors of texts beside tf-idf: a table of word vectors that a package carries, or any function, by name."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Embedding = Callable[[list[str]], Any]

_WORD = re.compile(r"\w+")
_MAX_HEADER_BYTES = 1 << 20
_MAX_REMEMBERED = 1 << 18
_registered: dict[str, Embedding] = {}


def register_embedding(name: str, function: Embedding) -> None:
    """Make a function known by a name, for ``TextVectorizer(embedding=name)``.

    A saved model keeps the name only: register the same function again before it is loaded.

    Parameters
    ----------
    name : str
    function : callable
        Takes a list of texts and returns one row of numbers per text, such as the ``encode`` of a
        sentence-transformers model.

    Examples
    --------
    >>> import longtail as lt
    >>> from longtail.tagging import register_embedding
    >>> register_embedding("length", lambda texts: [[len(text)] for text in texts])
    >>> vectorizer = lt.TextVectorizer(min_df=1, embedding="length").fit(["a web server"])
    >>> vectorizer.transform(["web"]).shape
    (1, 3)
    """
    if not isinstance(name, str) or not name or name in _BUILT_IN:
        raise ValueError(f"register_embedding: name must be a new name, got {name!r}")
    if not callable(function):
        raise TypeError(f"register_embedding: function must be callable, got {function!r}")
    _registered[name] = function


def find_embedding(name: str) -> Embedding:
    """Return the function with a name."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    if name not in _registered:
        known = ", ".join(sorted([*_BUILT_IN, *_registered]))
        raise ValueError(
            f"TextVectorizer: embedding must be one of {known}, got {name!r}; "
            f"call longtail.tagging.register_embedding({name!r}, function) first"
        )
    return _registered[name]


def embed(name: str, texts: list[str]) -> Vectors:
    """Return one unit-length row per text; rows of zeros stay."""
    vectors = np.asarray(find_embedding(name)(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise ValueError(
            f"TextVectorizer: embedding {name!r} must return one row per text, got shape {vectors.shape} for "
            f"{len(texts)} texts"
        )
    if not np.isfinite(vectors).all():
        raise ValueError(f"TextVectorizer: embedding {name!r} returned NaN or infinity")
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    scaled: Vectors = (vectors / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
    return scaled


class WordVectors:
    """Mean vectors of the word pieces of a text, from a table of pieces and the merges that make them (BPE)."""

    def __init__(self, table: Vectors, ids: dict[str, int], ranks: dict[tuple[str, str], int]) -> None:
        self._table, self._ids, self._ranks = table, ids, ranks
        self._words: dict[str, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text."""
        result = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        for row, text in enumerate(texts):
            counts: dict[str, int] = {}
            for word in _WORD.findall(text.lower()):
                counts[word] = counts.get(word, 0) + 1
            if counts:
                vectors = np.stack([self._vector(word) for word in counts])
                result[row] = np.array(list(counts.values()), dtype=np.float32) @ vectors
        return result

    def _vector(self, word: str) -> Vectors:
        found = self._words.get(word)
        if found is None:
            ids = [self._ids[piece] for piece in self.pieces(word) if piece in self._ids]
            found = self._table[ids].astype(np.float32).sum(axis=0)
            if len(self._words) >= _MAX_REMEMBERED:
                self._words.clear()
            self._words[word] = found
        return found

    def pieces(self, word: str) -> list[str]:
        """Cut a word by byte pair encoding: join the neighbours whose merge was learnt first, until none is left."""
        pieces = ["▁", *word[:64]]  # longer ones are no words, and cutting takes quadratic time
        while len(pieces) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(pieces)]
            best = min(ranks)
            if best == len(self._ranks):
                break
            at = ranks.index(best)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return pieces


@lru_cache(maxsize=1)
def _wordllama() -> WordVectors:
    """Read the table that the package wordllama carries; its code is not imported."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "TextVectorizer: embedding='wordllama' needs the package wordllama; pip install 'longtail[embedding]'"
        )
    folder = Path(spec.submodule_search_locations[0])
    table = read_table(folder / "weights" / "l2_supercat_256.safetensors", "embedding.weight")
    model = json.loads((folder / "tokenizers" / "l2_supercat_tokenizer_config.json").read_text(encoding="utf-8"))[
        "model"
    ]
    merges = (tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"])
    return WordVectors(table, model["vocab"], {(left, right): rank for rank, (left, right) in enumerate(merges)})


def read_table(path: Path, name: str) -> Vectors:
    """Read one float16 matrix of a safetensors file; it is mapped, not loaded."""
    size = path.stat().st_size
    with path.open("rb") as file:
        (n_header,) = struct.unpack("<Q", file.read(8))
        if n_header > min(_MAX_HEADER_BYTES, size):
            raise ValueError(f"{path} is not a sound safetensors file: its header claims {n_header} bytes")
        entry = json.loads(file.read(n_header)).get(name)
    if not isinstance(entry, dict) or entry.get("dtype") != "F16" or len(entry.get("shape", ())) != 2:
        raise ValueError(f"{path}: expected a float16 matrix {name!r}, got {entry}")
    (n_rows, n_columns), (begin, end) = entry["shape"], entry["data_offsets"]
    if end - begin != 2 * n_rows * n_columns or 8 + n_header + end > size:
        raise ValueError(f"{path}: {name!r} does not lie within the file")
    table: Any = np.memmap(path, "<f2", "r", 8 + n_header + begin, (n_rows, n_columns))
    return table  # type: ignore[no-any-return]


_BUILT_IN: dict[str, Callable[[], Embedding]] = {"wordllama": _wordllama}
