"""Reading the XMC text format: the irregularities of real files, and an error with its place for the rest."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from longtail.datasets import read_xmc


def read(tmp_path: Path, text: str | bytes, **options):
    path = tmp_path / "rows.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_xmc(path, **options)


def dense(tmp_path: Path, text: str | bytes) -> tuple[list[list[float]], list[list[float]]]:
    X, Y = read(tmp_path, text)
    return X.toarray().tolist(), Y.toarray().tolist()


def test_a_small_file_gives_sorted_float32_csr_and_ones(tmp_path):
    X, Y = read(tmp_path, "3 4 3\n0,2 0:0.5 3:-1e-2\n1 2:7\n2,1\n")
    assert X.toarray().tolist() == [[0.5, 0, 0, np.float32(-0.01)], [0, 0, 7, 0], [0, 0, 0, 0]]
    assert Y.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 1]]
    assert X.dtype == Y.dtype == np.float32
    assert X.indices.dtype == Y.indices.dtype == np.int32
    assert X.has_canonical_format
    assert Y.has_canonical_format


def test_features_may_be_unsorted_and_repeated_ones_are_added_up(tmp_path):
    X, _ = dense(tmp_path, "1 5 1\n0 4:1 1:2 4:0.25 0:3 1:-2\n")
    assert X == [[3, 0, 0, 0, 1.25]]


def test_repeated_labels_count_once(tmp_path):
    assert dense(tmp_path, "1 1 4\n3,1,3,1 0:1\n")[1] == [[0, 1, 0, 1]]


def test_a_line_that_begins_with_a_blank_or_a_feature_has_no_labels(tmp_path):
    X, Y = dense(tmp_path, "3 2 2\n 0:1\n1:2\n\t1:3\n")
    assert X == [[1, 0], [0, 2], [0, 3]]
    assert Y == [[0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "2 3 2\r\n0,1 0:1 2:2\r\n1 1:3\r\n",
        "2 3 2\n0,1 0:1 2:2\n1 1:3",
        "2 3 2  \n0,1 0:1 2:2  \n1 1:3 \t \n",
        "2 3 2\n0,1  0:1\t2:2\n1   1:3\n",
        "2 3 2\n0,1 0:1 2:2\n1 1:3\n\n \n\r\n",
        "\ufeff2 3 2\n0,1 0:1 2:2\n1 1:3\n",
        "2 3 2\n0,1 0:1.0 2:+2\n1 1:3.\n",
        "2 3 2\n0,1 0:1e0 2:0.2E1\n1 1:30e-1\n",
    ],
    ids=[
        "crlf",
        "no-last-newline",
        "trailing-blanks",
        "many-blanks",
        "blank-end",
        "bom",
        "plain",
        "exponents",
    ],
)
def test_what_real_files_do_to_lines_and_numbers_does_not_matter(tmp_path, text):
    assert dense(tmp_path, text) == ([[1, 0, 2], [0, 3, 0]], [[1, 1], [0, 1]])


def test_rows_without_labels_and_features_are_rows(tmp_path):
    X, Y = read(tmp_path, "4 2 2\n\n \n1\n0:1\n")
    assert X.shape == (4, 2)
    assert np.diff(X.indptr).tolist() == [0, 0, 0, 1]
    assert np.diff(Y.indptr).tolist() == [0, 0, 1, 0]


def test_gzip_is_recognised_by_content(tmp_path):
    text = b"1 2 2\n0,1 1:0.5\n"
    assert dense(tmp_path, gzip.compress(text)) == dense(tmp_path, text)


def test_two_file_layout_joins_features_and_labels(tmp_path):
    (tmp_path / "trn_X_Xf.txt").write_text("3 4\n0:1 3:2\n\n2:0.5\n")
    (tmp_path / "trn_X_Y.txt").write_text("3 2\n0:1 1:1.00000\n1:1\n0:0 1:1\n")
    X, Y = read_xmc(tmp_path / "trn_X_Xf.txt", tmp_path / "trn_X_Y.txt")
    assert X.toarray().tolist() == [[1, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0.5, 0]]
    assert Y.toarray().tolist() == [[1, 1], [0, 1], [0, 1]]
    assert Y.nnz == 4


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "empty"),
        ("\n", 1, 1, "0 numbers"),
        ("2 3\n0 0:1\n", 1, 1, "other half"),
        ("1 2 3 4\n", 1, 1, "4 numbers"),
        ("1 two 3\n", 1, 3, "no count"),
        ("-1 2 3\n", 1, 1, "no count"),
        ("1 -2 3\n", 1, 3, "no count"),
        ("1 2.5 3\n", 1, 3, "no count"),
        ("99999999999999999999 1 1\n", 1, 1, "too large"),
        ("1 2147483648 1\n", 1, 3, "2147483647"),
        ("1000000000000 5 5\n0 1:1\n", 3, 1, "ends after 1 rows, but its header promises 1000000000000"),
        ("1 5 5\n0 1:1\n1 2:1\n", 3, 1, "more rows than the 1"),
        ("1 5 5\n0 5:1\n", 2, 3, "feature id is 5, outside 0 .. 4"),
        ("1 5 5\n5 1:1\n", 2, 1, "label id is 5, outside 0 .. 4"),
        ("1 5 5\n0,77777777777777777777 1:1\n", 2, 3, "label id is too large, outside 0 .. 4"),
        ("1 0 0\n 0:1\n", 2, 2, "feature id is 0, but there are none"),
        ("1 5 5\n0, 1:1\n", 2, 3, "expected a label id, got a blank"),
        ("1 5 5\n0,,1 1:1\n", 2, 3, "expected a label id, got ','"),
        ("1 5 5\n0;1 1:1\n", 2, 2, "expected ',' or a blank after a label id, got ';'"),
        ("1 5 5\n-1 1:1\n", 2, 1, "got '-'"),
        ("1 5 5\n0 1\n", 2, 4, "expected ':' after a feature id, got the end of the line"),
        ("1 5 5\n0 1 2:1\n", 2, 4, "expected ':' after a feature id, got a blank"),
        ("1 5 5\n0 1:\n", 2, 5, "expected a finite decimal number"),
        ("1 5 5\n0 1:x\n", 2, 5, "got 'x'"),
        ("1 5 5\n0 1:1x\n", 2, 6, "expected a blank after a value, got 'x'"),
        ("1 5 5\n0 1:1:2\n", 2, 6, "got ':'"),
        ("1 5 5\n0 1:nan\n", 2, 5, "got 'n'"),
        ("1 5 5\n0 1:inf\n", 2, 5, "got 'i'"),
        ("1 5 5\n0 1:-inf\n", 2, 5, "finite decimal"),
        ("1 5 5\n0 1:1e39\n", 2, 5, "too large for float32"),
        ("1 5 5\n0 1:1e999999999999\n", 2, 5, "too large for float32"),
        ("1 5 5\n0 1:1e\n", 2, 6, "finite decimal"),
        ("1 5 5\n0 1:0x10\n", 2, 6, "got 'x'"),
        ("1 5 5\n0 1:1.2.3\n", 2, 8, "got '.'"),
        ("1 5 5\n0 1:3e38 1:3e38\n", 2, 1, "repeated feature 1"),
        ("1 5 5\n0 1:1 # 2\n", 2, 7, "got '#'"),
        ("2 5 5\n0 1:1\n0 1:\x002\n", 3, 5, "byte 0x00"),
        ("2 5 5\n0 1:1\n0 \xe9\n", 3, 3, "byte 0xc3"),
        ("1 5 5\n0 1:1\r2:1\n", 2, 6, "carriage return"),
    ],
)
def test_errors_name_file_line_and_column(tmp_path, text, line, column, message):
    with pytest.raises(ValueError) as raised:
        read(tmp_path, text)
    assert f"rows.txt, line {line}, column {column}: " in str(raised.value)
    assert message in str(raised.value)
    # A stream is cut elsewhere than a file, and says the same.
    with pytest.raises(ValueError) as raised_by_stream:
        read(tmp_path, gzip.compress(text.encode()))
    assert str(raised_by_stream.value) == str(raised.value)


def test_shared_data_sets_are_read_the_same_from_file_and_stream_with_any_number_of_threads(tmp_path, shared_data):
    packed = shared_data("eurlex/eurlex_test.txt.gz")
    plain = tmp_path / "eurlex_test.txt"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    X, Y = read_xmc(packed, n_jobs=1)
    assert X.shape == (3809, 5000)
    assert Y.shape == (3809, 3993)
    assert int((np.diff(Y.indptr) == 0).sum()) == 6
    for path, n_jobs in ((packed, 2), (plain, 1), (plain, 2), (plain, 7)):
        other_X, other_Y = read_xmc(path, n_jobs=n_jobs)
        for one, other in ((X, other_X), (Y, other_Y)):
            assert one.indptr.tobytes() == other.indptr.tobytes()
            assert one.indices.tobytes() == other.indices.tobytes()
            assert one.data.tobytes() == other.data.tobytes()
