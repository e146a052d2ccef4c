"""Compressed input that unpacks to far more than its size is refused, and the message says how to allow it."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, save_npz

from longtail import datasets
from longtail.datasets import _limits

BOMB = gzip.compress((b" " * (1 << 20) + b"\n") * 20, 9)  # 20 MiB in 20 KB


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.fasttext.gz", "a.svm.gz", "a.txt.gz"])
def test_a_gzip_bomb_is_refused_with_the_way_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    header = {"csv": b"text\n", "txt": b"100000000 1 1\n"}.get(name.split(".")[1], b"")
    path.write_bytes(gzip.compress(header) + BOMB)
    read = datasets.read if name in ("a.svm.gz", "a.txt.gz") else datasets.read_text
    with pytest.raises(ValueError, match=r"the limit of 16,777,216; if you trust the file, pass max_unpacked_bytes=N"):
        read(path)


def test_the_limit_can_be_raised_and_lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.svm.gz"
    path.write_bytes(BOMB)
    X, _ = datasets.read(path, max_unpacked_bytes=30 << 20)
    assert X.shape[0] == 20
    monkeypatch.setenv(_limits.VARIABLE, str(30 << 20))
    X, _ = datasets.read(path)
    assert X.shape[0] == 20
    monkeypatch.setenv(_limits.VARIABLE, "1000")
    with pytest.raises(ValueError, match="unpack to more than the limit of 1,000"):
        datasets.read(path)
    monkeypatch.setenv(_limits.VARIABLE, "1 GB")
    with pytest.raises(ValueError, match="LONGTAIL_MAX_UNPACKED_BYTES must be a number of bytes >= 1, got '1 GB'"):
        datasets.read(path)
    with pytest.raises(ValueError, match="max_unpacked_bytes must be None or an int >= 1, got 0"):
        datasets.read(path, max_unpacked_bytes=0)


def test_text_that_shrinks_well_is_read_without_asking(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    line = b'{"text": "a web server for small machines", "labels": ["web"]}\n'
    path.write_bytes(gzip.compress(line * 50_000))  # 200 to 1, but small
    assert len(datasets.read_text(path).texts) == 50_000


def test_an_npz_bomb_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "X.trn.npz"
    save_npz(path, csr_array((5_000_000, 3), dtype=np.float32))
    save_npz(tmp_path / "Y.trn.npz", csr_array((5_000_000, 3), dtype=np.float32))
    assert path.stat().st_size < 200_000
    with pytest.raises(ValueError, match=r"X\.trn\.npz: [\d,]+ compressed bytes unpack to more than the limit"):
        datasets.read_npz(path)
    X, _ = datasets.read_npz(path, max_unpacked_bytes=1 << 30)
    assert X.shape == (5_000_000, 3)


def test_the_rows_of_a_csc_matrix_count_too(tmp_path: Path) -> None:
    matrix = csc_array((np.ones(1, np.float32), [5], [0, 1]), shape=(2_000_000_000, 1))
    for name in ("X.npz", "Y.npz"):
        save_npz(tmp_path / name, matrix)
    with pytest.raises(ValueError, match="unpack to more than the limit"):
        datasets.read_npz(tmp_path / "X.npz")


def test_members_that_are_not_read_do_not_count(tmp_path: Path) -> None:
    for name in ("X.npz", "Y.npz"):
        save_npz(tmp_path / name, csr_array(np.eye(2, dtype=np.float32)))
        with zipfile.ZipFile(tmp_path / name, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("notes", bytes(20 << 20))
    X, _ = datasets.read_npz(tmp_path / "X.npz")
    assert X.shape == (2, 2)
