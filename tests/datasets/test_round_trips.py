"""What is written is read back: every format, any data."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from longtail import datasets
from tests.datasets.strategies import assert_same, data_sets

_names = itertools.count()
relaxed = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fresh(folder: Path, name: str) -> Path:
    """Name a file that no earlier example has used."""
    (folder / str(number := next(_names))).mkdir()
    return folder / str(number) / name


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz", "trn_X_Xf.txt", "X.trn.npz", "rows.csr"])
@relaxed
@given(data=data_sets())
def test_any_data_set_survives_write_and_read(tmp_path, name, data):
    X, Y = data
    path = fresh(tmp_path, name)
    datasets.write(path, X, Y)
    read_X, read_Y = datasets.read(path)
    assert_same(read_X, X)
    assert_same(read_Y, Y)


@pytest.mark.parametrize("one_based", [False, True])
@relaxed
@given(data=data_sets())
def test_any_data_set_survives_svmlight_when_the_widths_are_given(tmp_path, one_based, data):
    X, Y = data
    path = fresh(tmp_path, "rows.svm")
    datasets.write_svmlight(path, X, Y, one_based=one_based)
    read_X, read_Y = datasets.read_svmlight(
        path, one_based=one_based, n_features=X.shape[1], n_labels=Y.shape[1], n_jobs=1
    )
    assert_same(read_X, X)
    assert_same(read_Y, Y)


@relaxed
@given(
    rows=st.lists(st.tuples(st.text(max_size=30), st.lists(st.text(max_size=5), max_size=4, unique=True)), max_size=6)
)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_any_texts_survive_jsonl(tmp_path, name, rows):
    texts, labels = [text for text, _ in rows], [names for _, names in rows]
    path = fresh(tmp_path, name)
    datasets.write_jsonl(path, texts, labels)
    assert datasets.read_text(path) == (texts, labels)


@relaxed
@given(data=data_sets(widths=(0, 1, 7, 300)))  # CSC takes memory for every column
def test_scipy_reads_the_npz_files_and_we_read_what_scipy_writes(tmp_path, data):
    X, Y = data
    path = fresh(tmp_path, "X.trn.npz")
    datasets.write_npz(path, X, Y)
    assert_same(sp.csr_array(sp.load_npz(path)), X)
    for matrix, name in ((X, "X.tst.npz"), (Y, "Y.tst.npz")):
        sp.save_npz(path.with_name(name), sp.csc_matrix(matrix.astype(np.float64)))
    read_X, read_Y = datasets.read_npz(path.with_name("X.tst.npz"))
    assert_same(read_X, X)
    assert_same(read_Y, Y)


def test_scikit_learn_reads_our_svmlight_and_we_read_its(tmp_path):
    X = sp.random_array((40, 30), density=0.2, format="csr", dtype=np.float32, rng=np.random.default_rng(1))
    Y = sp.random_array((40, 9), density=0.2, format="csr", rng=np.random.default_rng(2))
    Y.data[:] = 1
    datasets.write_svmlight(tmp_path / "ours.svm", X, Y)
    read_X, label_ids = load_svmlight_file(
        tmp_path / "ours.svm", multilabel=True, zero_based=True, n_features=30, dtype=np.float32
    )
    assert (read_X != X).nnz == 0
    assert [sorted(map(int, ids)) for ids in label_ids] == [row.indices.tolist() for row in Y]
    dump_svmlight_file(X, Y, str(tmp_path / "theirs.svm"), multilabel=True, zero_based=False)
    read_X, read_Y = datasets.read_svmlight(tmp_path / "theirs.svm", one_based=True, n_features=30, n_labels=9)
    assert_same(read_X, X)
    assert_same(read_Y, Y.astype(np.float32))


def test_written_text_is_the_same_for_any_number_of_threads(tmp_path):
    X = sp.random_array((5000, 50), density=0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(3))
    Y = sp.random_array((5000, 20), density=0.1, format="csr", rng=np.random.default_rng(4))
    for n_jobs in (1, 4):
        datasets.write_xmc(tmp_path / f"{n_jobs}.txt.gz", X, Y, n_jobs=n_jobs)
    assert (tmp_path / "1.txt.gz").read_bytes() == (tmp_path / "4.txt.gz").read_bytes()


def test_writers_take_dense_float64_and_unsorted_matrices(tmp_path):
    unsorted = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    datasets.write_xmc(tmp_path / "rows.txt", unsorted, np.array([[True, False]]))
    assert (tmp_path / "rows.txt").read_text() == "1 3 2\n0 0:2 2:4\n"
    assert unsorted.indices.tolist() == [2, 0, 2], "the caller's matrix is left alone"


@pytest.mark.parametrize("name", ["rows.txt", "rows.svm", "X.npz", "rows.csr", "rows.jsonl"])
def test_nothing_is_replaced_unless_asked(tmp_path, name):
    def write(**options):
        if name.endswith(".jsonl"):
            datasets.write_jsonl(tmp_path / name, ["a"], [["b"]], **options)
        else:
            datasets.write(tmp_path / name, np.eye(2), np.eye(2), **options)

    write()
    with pytest.raises(FileExistsError, match="overwrite"):
        write()
    write(overwrite=True)


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz", "rows.svm", "X.npz"])
def test_a_failed_write_leaves_neither_file_nor_rest(tmp_path, name):
    class FullError(Exception):
        pass

    def fail(*_, **__):
        raise FullError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longtail.datasets.xmc.write_rows", fail)
        patch.setattr("longtail.datasets.svmlight.write_rows", fail)
        patch.setattr("scipy.sparse.save_npz", fail)
        with pytest.raises(FullError):
            datasets.write(tmp_path / name, np.eye(2), np.eye(2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.array([[np.nan]]), np.eye(1), "X: value 0 is NaN or infinite"),
        (np.array([[1e300]]), np.eye(1), "X: value 0 is NaN or infinite"),
        (np.eye(2), np.eye(3), "same number of rows, got 2 and 3"),
        (np.ones(3), np.eye(3), "two dimensions"),
    ],
)
def test_writers_refuse_what_no_reader_could_give_back(tmp_path, X, Y, message):
    with pytest.raises(ValueError, match=message):
        datasets.write(tmp_path / "rows.txt", X, Y)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("X", [np.array([["a"]]), sp.csr_array(np.array([[1j]]))])
def test_writers_refuse_what_is_no_real_number(tmp_path, X):
    with pytest.raises(TypeError, match="X must hold real numbers"):
        datasets.write(tmp_path / "rows.txt", X, np.eye(1))


def test_names_with_unknown_endings_are_refused_with_the_known_ones(tmp_path):
    (tmp_path / "rows.xyz").write_text("")
    for call in (lambda p: datasets.read(p), lambda p: datasets.write(p, np.eye(1), np.eye(1))):
        with pytest.raises(ValueError, match=r"'\.xyz' is known; rows of numbers: \.txt.*texts: \.jsonl, .*\.feather"):
            call(tmp_path / "rows.xyz")
    with pytest.raises(ValueError, match=r"\.jsonl is a format of texts, .* use \.txt"):
        datasets.read(tmp_path / "rows.jsonl")


def test_the_directory_is_mapped_read_only_and_names_its_kind(tmp_path):
    datasets.write(tmp_path / "rows.csr", np.eye(3), np.eye(3))
    X, Y = datasets.read(tmp_path / "rows.csr")
    for matrix in (X, Y):
        assert not matrix.indices.flags.writeable
        assert not matrix.data.flags.writeable
        assert not matrix.data.flags.owndata
    manifest = json.loads((tmp_path / "rows.csr" / "manifest.json").read_text())
    assert manifest["kind"] == "csr-directory"
    assert (X @ np.ones(3)).tolist() == [1, 1, 1]
