"""Texts with label names as other tools keep them: fastText, Annif, and plain lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from longtail.datasets._lines import in_utf8, numbered_lines
from longtail.datasets._streams import read_blocks
from longtail.datasets.text_data import Described, TextData, text_data

LABEL_PREFIX = "__label__"
# fastText itself splits at these bytes and no others: a no-break space belongs to the word or label around it.
_FASTTEXT_BLANKS = re.compile(r"[ \t\v\f\r\0]+")
_ANNIF_LABEL = re.compile(r"<([^<>\s]+)>|\S+")


def read_fasttext(name: str, lines: Iterable[tuple[int, str]]) -> TextData:
    """Read lines ``__label__a __label__b the text``; labels may stand anywhere, and every line is a text."""
    texts: list[str] = []
    labels: list[list[str]] = []
    for _, line in lines:
        words = [word for word in _FASTTEXT_BLANKS.split(line) if word]
        found = [word.removeprefix(LABEL_PREFIX) for word in words if word.startswith(LABEL_PREFIX)]
        found = [label for label in found if label]
        if found:
            line = " ".join(word for word in words if not word.startswith(LABEL_PREFIX))
        texts.append(line.strip(" \t\v\f\r\0"))
        labels.append(found)
    how = Described("from fastText lines", f"after {LABEL_PREFIX!r}", f"no word begins with {LABEL_PREFIX!r}")
    return text_data(name, texts, labels, None, how)


def read_lines(name: str, lines: Iterable[tuple[int, str]]) -> TextData:
    """Read one text per line, without labels."""
    texts = [line for _, line in lines]
    way = "plain lines have none; use another format to give labels"
    return text_data(name, texts, [[] for _ in texts], None, Described("from lines", "", way))


def read_annif(name: str, lines: Iterable[tuple[int, str]]) -> TextData:
    """Read lines ``text<TAB><uri> <uri>``."""
    texts: list[str] = []
    labels: list[list[str]] = []
    for number, line in lines:
        if not line.strip():
            continue
        text, tab, subjects = line.partition("\t")
        if not tab:
            raise ValueError(f"{name}, line {number}, column 1: expected a text, a tab and its subjects in <…>")
        texts.append(text)
        labels.append(_subjects(subjects))
    return text_data(name, texts, labels, None, Described("from an Annif corpus", "in <…>", "no line has subjects"))


def is_annif_line(line: str) -> bool:
    """Whether a line is a text, a tab and subjects in <…>, as in Annif's corpora, and not a line of column names."""
    cells = line.split("\t")
    return len(cells) == 2 and cells[1].lstrip().startswith("<") and "text" not in cells


def is_annif_folder(folder: Path) -> bool:
    """Whether a directory holds full texts, as Annif keeps them: ``*.txt``, with subjects beside them or not."""
    return not (folder / "manifest.json").exists() and any(folder.glob("*.txt"))


def read_annif_folder(folder: Path, encoding: str | None, max_text_bytes: int) -> TextData:
    """Read ``name.txt`` with ``name.tsv`` (``<uri>TABlabel`` per line) or ``name.key`` (a label per line)."""
    texts: list[str] = []
    labels: list[list[str]] = []
    n_without = 0
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise ValueError(f"{folder}: expected full texts as *.txt with subjects in *.tsv or *.key, got no .txt file")
    for path in paths:
        texts.append(_whole(path, encoding, max_text_bytes))
        subjects = next((other for ending in (".tsv", ".key") if (other := path.with_suffix(ending)).exists()), None)
        n_without += subjects is None
        labels.append([] if subjects is None else list(_subjects_in(subjects, encoding, max_text_bytes)))
    how = Described(
        f"from {folder / '*.txt'}" + (f", {n_without:,} without subjects" if n_without else ""),
        "from .tsv and .key",
        "put the subjects of name.txt into name.tsv or name.key",
    )
    return text_data(str(folder), texts, labels, [path.stem for path in paths], how)


def _whole(path: Path, encoding: str | None, max_bytes: int) -> str:
    data = b""
    for block in in_utf8(str(path), read_blocks(path), encoding):
        data += block
        if len(data) > max_bytes:
            raise ValueError(f"{path}: the text is longer than {max_bytes} bytes; pass max_line_bytes=N to allow it")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not valid UTF-8 at byte {error.start}: {error.reason}; pass encoding=…") from None


def _subjects_in(path: Path, encoding: str | None, max_line_bytes: int) -> Iterator[str]:
    name = str(path)
    for _, line in numbered_lines(name, in_utf8(name, read_blocks(path), encoding), max_line_bytes):
        if not line.strip():
            continue
        if path.suffix == ".key":
            yield line.strip()
        else:
            yield from _subjects(line.split("\t")[0])


def _subjects(text: str) -> list[str]:
    return [match.group(1) or match.group() for match in _ANNIF_LABEL.finditer(text)]
