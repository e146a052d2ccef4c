"""npz files and CSR directories that lie: refused with a message, never a crash, never a pickle."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.datasets import read, read_csr_directory, read_npz, write_csr_directory, write_npz

X = sp.csr_array(np.array([[0, 1.5, 0], [2, 0, 3]], dtype=np.float32))
Y = sp.csr_array(np.array([[1, 0], [1, 1]], dtype=np.float32))


def parts_of(matrix) -> dict[str, object]:
    return {
        "format": np.array(b"csr"),
        "shape": np.array(matrix.shape),
        "indptr": matrix.indptr,
        "indices": matrix.indices,
        "data": matrix.data,
    }


def save_pair(tmp_path, **changes):
    np.savez(tmp_path / "Y.npz", **parts_of(Y))
    kept = {name: part for name, part in (parts_of(X) | changes).items() if part is not None}
    np.savez(tmp_path / "X.npz", **kept)
    return tmp_path / "X.npz"


def test_a_pair_of_any_number_type_is_read(tmp_path):
    path = save_pair(
        tmp_path,
        format=np.array("csr"),
        indptr=X.indptr.astype(np.uint64),
        indices=X.indices.astype(">i8"),
        data=X.data.astype(">f8"),
    )
    read_X, read_Y = read_npz(path)
    assert (read_X != X).nnz == 0
    assert (read_Y != Y).nnz == 0
    assert read_X.dtype == np.float32


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": None}, "not a sound npz"),
        ({"format": np.array("coo")}, "must be csr or csc, got 'coo'"),
        ({"format": np.array(7)}, "must hold text"),
        ({"shape": np.array([2])}, "shape"),
        ({"shape": np.array([2.0, 3.0])}, "must hold integers"),
        ({"shape": np.array([-2, 3])}, "impossible"),
        ({"shape": np.array([2, 2**62])}, "at most 2147483647 columns"),
        ({"shape": np.array([2**61, 3])}, "indptr must rise"),
        ({"shape": np.array([2, 2])}, "indices must lie within 0 .. 1"),
        ({"indices": np.array([-1, 0, 2])}, "indices must lie within"),
        ({"indices": np.array([2**63, 0, 2], dtype=np.uint64)}, "too large"),
        ({"indices": np.array([1, 0])}, "data has shape"),
        ({"indptr": np.array([0, 1])}, "indptr must rise"),
        ({"indptr": np.array([0, 5, 3])}, "indptr must rise"),
        ({"indptr": np.array([0, 2**63 + 1, 3], dtype=np.uint64)}, "too large"),
        ({"indptr": np.array([1, 1, 3])}, "indptr must rise"),
        ({"indptr": np.array([[0, 1, 3]])}, "indptr has shape"),
        ({"data": np.array([1, 2, np.nan])}, "NaN or infinite"),
        ({"data": np.array([1, 2, 1e300])}, "NaN or infinite"),
        ({"data": np.array([1j, 2, 3])}, "must hold real numbers"),
        ({"data": np.array(["a", "b", "c"])}, "must hold real numbers"),
        ({"data": np.array([Bomb(), 2, 3], dtype=object)}, "must hold real numbers"),
    ],
)
def test_npz_files_that_lie_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message) as raised:
        read(save_pair(tmp_path, **changes))
    assert "X.npz" in str(raised.value)


def test_npz_headers_that_claim_more_than_there_is_are_refused_before_memory_is_taken(tmp_path):
    path = save_pair(tmp_path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i4", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members["indices.npy"] = header.getvalue() + bytes(12)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match="indices claims 4000000000000 bytes, but there are 12"):
        read_npz(path)


def test_an_npz_that_is_a_pickle_or_no_archive_is_refused(tmp_path):
    path = save_pair(tmp_path)
    for data in (pickle.dumps(Bomb()), b"", b"PK\x03\x04junk", path.read_bytes()[:-30], path.read_bytes()[:100]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="not a sound npz"):
            read_npz(path)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_in_an_npz_is_refused_or_harmless(tmp_path, data):
    path = save_pair(tmp_path)
    packed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(packed)
    try:
        found, _ = read_npz(path)
    except ValueError:
        return
    assert found.shape[0] == 2


def test_names_of_npz_files_must_show_their_partner(tmp_path):
    with pytest.raises(ValueError, match="must begin with X"):
        write_npz(tmp_path / "train.npz", X, Y)
    write_npz(tmp_path / "train.npz", X, Y, tmp_path / "labels.npz")
    assert (read_npz(tmp_path / "train.npz", tmp_path / "labels.npz")[0] != X).nnz == 0
    write_npz(tmp_path / "X.npz", X, Y)
    write_npz(tmp_path / "X.other.npz", X[:1], Y[:1])
    with pytest.raises(ValueError, match=r"has 2 rows, but .* has 1"):
        read_npz(tmp_path / "X.npz", tmp_path / "Y.other.npz")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("kind", "model", "not a CSR directory"),
        ("format", 2, "update longtail"),
        ("n_rows", 3, "x_indptr must have 4 entries, got 3"),
        ("n_rows", -1, "whole numbers"),
        ("n_rows", "2", "whole numbers"),
        ("n_rows", 2**70, "whole number"),
        ("n_features", 2, "X: index 2 of row 1 is outside"),
        ("n_features", 2**40, "2147483647"),
        ("n_labels", 1, "Y: index 1 of row 1 is outside"),
    ],
)
def test_csr_directories_whose_manifest_lies_are_refused(tmp_path, key, value, message):
    write_csr_directory(tmp_path / "rows", X, Y)
    manifest = tmp_path / "rows" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=message):
        read_csr_directory(tmp_path / "rows")


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("x_indptr", 1, 2**62, "indptr must not decrease nor pass"),
        ("x_indices", 0, -5, "outside"),
        ("x_indices", 1, 2, "sorted and distinct"),
        ("x_values", 0, np.inf, "NaN or infinite"),
        ("y_indices", 2, 77, "outside"),
        ("y_values", 0, 2, "y_values"),
    ],
)
def test_csr_directories_with_wrong_values_are_refused(tmp_path, name, at, value, message):
    write_csr_directory(tmp_path / "rows", X, Y)
    array = np.load(tmp_path / "rows" / f"{name}.npy", mmap_mode="r+")
    array[at] = value
    array.flush()
    del array
    with pytest.raises(ValueError, match=message):
        read_csr_directory(tmp_path / "rows", verify=False)
    with pytest.raises(ValueError, match="SHA-256"):
        read_csr_directory(tmp_path / "rows")


def test_a_flipped_sign_in_a_csr_directory_is_found(tmp_path):
    write_csr_directory(tmp_path / "rows", X, Y)
    values = tmp_path / "rows" / "x_values.npy"
    data = bytearray(values.read_bytes())
    data[-1] ^= 0x80
    values.write_bytes(data)
    with pytest.raises(ValueError, match=r"x_values.*has changed: SHA-256"):
        read(tmp_path / "rows")
