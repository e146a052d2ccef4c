"""Texts with label names as other tools keep them: fastText files, Annif's TSV corpora, parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longtail.datasets._lines import numbered_lines

_LABEL = "__label__"
_ANNIF_LABEL = re.compile(r"<([^<>\s]+)>|\S+")


def read_fasttext(path: Path, max_line_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """Yield text and labels of each line ``__label__a __label__b the text``; labels may stand anywhere."""
    for _, line in numbered_lines(path, max_line_bytes):
        if not line.strip():
            continue
        words = line.split()
        labels = [word.removeprefix(_LABEL) for word in words if word.startswith(_LABEL) and word != _LABEL]
        if labels:
            line = " ".join(word for word in words if not word.startswith(_LABEL))
        yield line.strip(), labels


def read_annif(path: Path, max_line_bytes: int) -> Iterator[tuple[str, list[str]]]:
    """Yield text and labels of each line ``text<TAB><uri> <uri>``; the first line may name the columns."""
    for number, line in numbered_lines(path, max_line_bytes):
        if not line.strip():
            continue
        text, tab, subjects = line.partition("\t")
        if not tab:
            raise ValueError(f"{path}, line {number}, column 1: expected a text, a tab and its subjects in <…>")
        found = [match.group(1) or match.group() for match in _ANNIF_LABEL.finditer(subjects)]
        yield text, found


def is_annif(path: Path, max_line_bytes: int) -> bool:
    """Tell whether a .tsv file has no line of column names but texts with subjects in <…>, as Annif has them."""
    _, line = next(numbered_lines(path, max_line_bytes), (0, ""))
    names = line.rstrip("\r").split("\t")
    if "text" in names:
        return False
    return len(names) == 2 and names[1].lstrip().startswith("<")


def read_parquet(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the columns ``text`` (string) and ``labels`` (list of strings) of a parquet file."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(f"{path}: reading parquet needs pyarrow; pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(path)
    except Exception as error:  # pyarrow's own classes, not worth an import here
        raise ValueError(f"{path} is not a sound parquet file: {error}") from None
    names = file.schema_arrow.names
    if "text" not in names:
        raise ValueError(f"{path}: expected a column text (and labels), got {', '.join(names)}")
    columns = [name for name in ("text", "labels") if name in names]
    row = 0
    for batch in file.iter_batches(batch_size=1024, columns=columns):
        texts = batch.column("text").to_pylist()
        labels: list[Any] = batch.column("labels").to_pylist() if "labels" in columns else [[]] * len(texts)
        for text, found in zip(texts, labels, strict=True):
            found = [] if found is None else found
            if not isinstance(text, str) or not isinstance(found, list) or not all(isinstance(n, str) for n in found):
                raise ValueError(f"{path}, row {row}: text must be a string and labels a list of strings")
            yield text, found
            row += 1
