"""Gzip and pipes: what arrives in pieces is read as a file is, and damage is told."""

import gzip
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from longtail.datasets import read_xmc, unit_rows, write_xmc
from longtail.datasets._streams import ahead, read_blocks

TEXT = b"3 4 3\n0,2 0:0.5 3:2\n 1:1\n1 2:3\n"


def write(tmp_path, data: bytes):
    path = tmp_path / "rows.txt.gz"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT, mtime=0),
        gzip.compress(TEXT[:11], mtime=0) + gzip.compress(TEXT[11:], mtime=0),
        gzip.compress(TEXT, mtime=0) + bytes(1000),
        gzip.compress(b"", mtime=0) + gzip.compress(TEXT, mtime=0) + gzip.compress(b"", mtime=0),
    ],
    ids=["plain", "gzip", "two-members", "zero-padded", "empty-members"],
)
def test_all_that_gzip_accepts_is_read(tmp_path, data, n_jobs):
    X, Y = read_xmc(write(tmp_path, data), n_jobs=n_jobs)
    assert X.toarray().tolist() == [[0.5, 0, 0, 2], [0, 1, 0, 0], [0, 0, 3, 0]]
    assert Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(TEXT, mtime=0)[:-9], "ends early"),
        (gzip.compress(TEXT, mtime=0)[:5], "ends early"),
        (gzip.compress(TEXT, mtime=0)[:-5] + b"xxxxx", "not a sound gzip file"),
        (gzip.compress(TEXT, mtime=0) + b"junk", "not a sound gzip file"),
        (b"\x1f\x8b" + b"\xff" * 50, "not a sound gzip file"),
        (gzip.compress(TEXT.replace(b"3:2", b"9:2"), mtime=0), "line 2, column 11: feature id is 9"),
    ],
)
def test_damaged_gzip_is_refused_with_the_name_of_the_file(tmp_path, data, message, n_jobs):
    path = write(tmp_path, data)
    n_threads = threading.active_count()
    with pytest.raises(ValueError, match=message) as raised:
        read_xmc(path, n_jobs=n_jobs)
    assert str(path) in str(raised.value)
    assert threading.active_count() == n_threads


def test_a_lie_about_the_length_in_the_last_bytes_of_gzip_costs_no_memory(tmp_path):
    # The claim is only a hint for the layout of arrays; zlib itself then notices it.
    with pytest.raises(ValueError, match="not a sound gzip file"):
        read_xmc(write(tmp_path, gzip.compress(TEXT, mtime=0)[:-4] + b"\xff\xff\xff\xff"))


def test_a_pipe_is_read_as_a_stream(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(TEXT,))
    writer.start()
    X, _ = read_xmc(pipe)
    writer.join()
    assert X.nnz == 4


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_ends_the_wait_for_a_slow_pipe(tmp_path, n_jobs):
    code = "import sys; from longtail.datasets import read_xmc; read_xmc(sys.argv[1], n_jobs=int(sys.argv[2]))"
    os.mkfifo(tmp_path / "pipe")
    with (
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "pipe", str(n_jobs)], stderr=subprocess.PIPE, text=True
        ) as process,
        (tmp_path / "pipe").open("wb") as pipe,  # opens when the reader does
    ):
        pipe.write(b"1000000000000 1 1\n")
        pipe.flush()
        while process.poll() is None:  # one that comes just before Python begins to wait is not noticed by Python
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        assert "KeyboardInterrupt" in process.stderr.read()


def test_a_missing_file_and_a_directory_are_ordinary_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_xmc(tmp_path / "none.txt")
    with pytest.raises(OSError):
        read_xmc(tmp_path)


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, "2"])
def test_n_jobs_is_checked(tmp_path, n_jobs):
    with pytest.raises((ValueError, TypeError), match="n_jobs must be None or an int >= 1"):
        read_xmc(write(tmp_path, TEXT), n_jobs=n_jobs)
    with pytest.raises((ValueError, TypeError), match="n_jobs must be None or an int >= 1"):
        write_xmc(tmp_path / "out.txt", np.eye(1), np.eye(1), n_jobs=n_jobs)


def test_a_consumer_that_stops_ends_the_thread_that_reads_ahead(tmp_path):
    path = write(tmp_path, gzip.compress(bytes(20_000_000)))
    n_threads = threading.active_count()
    blocks = ahead(read_blocks(path))
    next(blocks)
    assert threading.active_count() == n_threads + 1
    blocks.close()
    assert threading.active_count() == n_threads


def test_unit_rows_have_length_one_and_zero_rows_stay():
    X = np.zeros((3, 4), dtype=np.float32)
    X[0, 1], X[0, 3], X[2, 0] = 3, -4, 1e-30
    from scipy.sparse import csr_array

    expected = [[0, np.float32(0.6), 0, np.float32(-0.8)], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert unit_rows(X).tolist() == expected
    sparse = unit_rows(csr_array(X))
    assert sparse.toarray().tolist() == expected
    assert sparse.dtype == np.float32
    assert unit_rows(csr_array((0, 3))).shape == (0, 3)


def test_unit_rows_of_many_entries_agree_with_numpy():
    from scipy.sparse import random_array

    X = random_array((30_000, 100), density=0.8, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    scaled = unit_rows(X)
    dense = X.toarray().astype(np.float64)
    np.testing.assert_allclose(scaled.toarray(), dense / np.linalg.norm(dense, axis=1, keepdims=True), rtol=1e-6)


def test_gzip_is_read_where_no_thread_can_be_started(tmp_path, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    path = write(tmp_path, gzip.compress(TEXT, mtime=0))
    assert b"".join(ahead(read_blocks(path))) == TEXT
    assert read_xmc(path, n_jobs=1)[0].shape == (3, 4)
