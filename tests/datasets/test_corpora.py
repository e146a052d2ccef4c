"""Text corpora of other tools: what is in them comes out, what is wrong is named."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest

import longtail as lt

TEXTS = ["a web server", "größe: \u00e4", "no labels here"]
LABELS = [["net::web", "role::server"], ["Größe"], []]


def test_fasttext_labels_may_stand_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "train.fasttext"
    path.write_text(
        "__label__net::web __label__role::server a web server\n\n"
        "größe: __label__Größe ä\r\n"
        "  no labels here\n"
        "__label__ is a bare prefix",
        encoding="utf-8",
    )
    texts, labels = lt.datasets.read_text(path)
    assert texts == [TEXTS[0], "", *TEXTS[1:], "__label__ is a bare prefix"], "every line is a text"
    assert labels == [LABELS[0], [], *LABELS[1:], []]
    packed = tmp_path / "train.ft.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert lt.datasets.read_text(packed) == (texts, labels)


def test_annif_corpora_are_known_by_their_first_line(tmp_path: Path) -> None:
    path = tmp_path / "corpus.tsv"
    path.write_text(
        "a web server\t<http://example.org/p1> <http://example.org/p2>\n"
        'a "quoted" text\t<http://example.org/p2> <http://example.org/p2>\n'
        "nothing\t\n"
    )
    texts, labels = lt.datasets.read_text(path)
    assert texts == ["a web server", 'a "quoted" text', "nothing"]
    assert labels == [["http://example.org/p1", "http://example.org/p2"], ["http://example.org/p2"], []]
    path.write_text("one\t<u:1>\ntwo without a tab\n")
    with pytest.raises(ValueError, match=r"corpus.tsv, line 2, column 1: expected a text, a tab"):
        lt.datasets.read_text(path)


def test_a_table_with_named_columns_is_no_annif_corpus(tmp_path: Path) -> None:
    path = tmp_path / "table.tsv"
    path.write_text("text\tlabels\na web server\t<b>;c\n")
    assert lt.datasets.read_text(path) == (["a web server"], [["<b>", "c"]])
    path.write_text("no\tnames\n")
    with pytest.raises(ValueError, match="pass text_column=… for one of no, names"):
        lt.datasets.read_text(path)


def write_parquet(path: Path, columns: dict[str, Any]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path)


def test_parquet_columns_come_out(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_parquet(path, {"id": [1, 2, 3], "labels": [LABELS[0], LABELS[1], None], "text": TEXTS})
    assert lt.datasets.read_text(path) == (TEXTS, LABELS)
    write_parquet(path, {"text": TEXTS})
    assert lt.datasets.read_text(path) == (TEXTS, [[], [], []])


def test_parquet_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    write_parquet(path, {"body": TEXTS})
    with pytest.raises(ValueError, match=r"there is no column 'text' for the text; pass text_column=… for one of body"):
        lt.datasets.read_text(path)
    write_parquet(path, {"text": TEXTS, "labels": [0.5, 1.5, 2.5]})
    with pytest.raises(ValueError, match="row 0: labels must be text or whole numbers, got float"):
        lt.datasets.read_text(path)
    path.write_bytes(b"PAR1 no parquet")
    with pytest.raises(ValueError, match="is not a sound parquet file"):
        lt.datasets.read_text(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "train.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match="pip install pyarrow"):
        lt.datasets.read_text(tmp_path / "train.parquet")
