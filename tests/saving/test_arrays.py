"""Directories of arrays: what is written comes back, mapped; what exists is not lost."""

import errno
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from longtail import _os
from longtail._array_files import ArraySpec, publish, read_arrays, write_arrays
from longtail._array_files.npy import read_header, write_header
from longtail._array_files.specs import DTYPES

ARRAYS = {
    "weights_": np.arange(6, dtype=np.float32).reshape(2, 3),
    "children_": np.array([1, 2, -1], np.int32),
    "nothing_": np.zeros((0, 5), np.int64),
}
SPECS = {
    "weights_": ArraySpec(np.float32, shape=(None, 3), finite=True),
    "children_": ArraySpec(np.int32, ndim=1, min=-1, max=2),
    "nothing_": ArraySpec(np.int64, ndim=2),
}


def test_arrays_and_meta_come_back(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {"kind": "test", "n_labels": np.int64(3), "é": [1.5, None, "ü"]})
    meta, arrays = read_arrays(tmp_path / "a", SPECS, verify=True)
    assert meta == {"kind": "test", "n_labels": 3, "é": [1.5, None, "ü"]}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name], strict=True)


def test_arrays_are_mapped_aligned_and_read_only(tmp_path):
    large = np.arange(30_000, dtype=np.int64).reshape(3, -1)
    write_arrays(tmp_path / "a", {**ARRAYS, "large_": large}, {})
    _, arrays = read_arrays(tmp_path / "a", {**SPECS, "large_": ArraySpec(np.int64)})
    for array in arrays.values():
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="cannot set WRITEABLE flag to True"):
            array.flags.writeable = True
    assert arrays["large_"].ctypes.data % 64 == 0
    assert "large_.npy" in Path("/proc/self/maps").read_text()
    last_row = arrays.pop("large_")[2]
    del array
    np.testing.assert_array_equal(last_row, large[2])
    del last_row
    assert "large_.npy" not in Path("/proc/self/maps").read_text()


def test_mapped_arrays_hold_no_descriptors(tmp_path):
    write_arrays(tmp_path / "a", {"large_": np.zeros(30_000)}, {})
    before = len(list(Path("/proc/self/fd").iterdir()))
    _kept = [read_arrays(tmp_path / "a", {"large_": ArraySpec(np.float64)}) for _ in range(10)]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_any_memory_layout_is_stored_in_c_order(tmp_path):
    table = np.arange(12, dtype=np.float64).reshape(3, 4)
    odd = {
        "fortran": np.asfortranarray(table),
        "strided": table[::2, ::-1],
        "big_endian": table.astype(">f8"),
    }
    write_arrays(tmp_path / "a", odd, {})
    _, arrays = read_arrays(tmp_path / "a", {name: ArraySpec(np.float64, ndim=2) for name in odd})
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, odd[name])


def test_numpy_reads_what_longtail_writes(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {})
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(np.load(tmp_path / "a" / f"{name}.npy"), array, strict=True)


@given(
    array=st.sampled_from(sorted(DTYPES)).flatmap(
        lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
    )
)
def test_the_header_is_understood_by_both_sides(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    np.save(path, np.ascontiguousarray(array).reshape(array.shape))
    start = path.read_bytes()
    dtype, shape, offset = read_header("a", start)
    assert (dtype, shape, len(start) - offset) == (array.dtype, array.shape, array.nbytes)
    assert read_header("b", write_header(array.dtype, array.shape))[:2] == (dtype, shape)


def test_the_same_arrays_give_the_same_bytes(tmp_path):
    for name in "ab":
        write_arrays(tmp_path / name, ARRAYS, {"n": 1})
    assert _contents(tmp_path / "a") == _contents(tmp_path / "b")


def test_what_exists_is_not_overwritten_unless_asked(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {"version": 1})
    with pytest.raises(FileExistsError, match="a exists; pass overwrite=True to replace it"):
        write_arrays(tmp_path / "a", ARRAYS, {"version": 2})
    assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 1}
    write_arrays(tmp_path / "a", ARRAYS, {"version": 2}, overwrite=True)
    assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 2}
    assert _names(tmp_path) == ["a"]


def test_mapped_arrays_outlive_the_replacement_of_their_directory(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {})
    _, old = read_arrays(tmp_path / "a", SPECS)
    write_arrays(tmp_path / "a", {"other": np.zeros(3, np.int8)}, {}, overwrite=True)
    for name, array in old.items():
        np.testing.assert_array_equal(array, ARRAYS[name])


def test_a_loaded_directory_can_be_written_over_itself(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {})
    _, arrays = read_arrays(tmp_path / "a", SPECS)
    write_arrays(tmp_path / "a", arrays, {}, overwrite=True)
    for name, array in read_arrays(tmp_path / "a", SPECS, verify=True)[1].items():
        np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize("entry", ["notes.txt", "sub/thesis.tex", ".hidden/x", "a.npy.bak"])
def test_overwrite_never_removes_what_longtail_did_not_write(tmp_path, entry):
    write_arrays(tmp_path / "a", ARRAYS, {})
    (tmp_path / "a" / entry).parent.mkdir(exist_ok=True)
    (tmp_path / "a" / entry).write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by longtail; move it away"):
        write_arrays(tmp_path / "a", ARRAYS, {}, overwrite=True)
    assert (tmp_path / "a" / entry).read_text() == "mine"


def test_overwrite_refuses_a_directory_without_a_manifest(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "table.npy").write_text("mine")
    with pytest.raises(FileExistsError, match="home was not written by longtail"):
        write_arrays(tmp_path / "home", ARRAYS, {}, overwrite=True)


def test_overwrite_refuses_files_and_links(tmp_path):
    (tmp_path / "file").write_text("mine")
    write_arrays(tmp_path / "a", ARRAYS, {})
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(FileExistsError, match="file is a file, not a directory that longtail wrote"):
        write_arrays(tmp_path / "file", ARRAYS, {}, overwrite=True)
    with pytest.raises(FileExistsError, match="link is a symbolic link"):
        write_arrays(tmp_path / "link", ARRAYS, {}, overwrite=True)
    assert read_arrays(tmp_path / "link", SPECS)  # the caller's own link may be read


def test_an_empty_directory_is_filled_when_asked(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(FileExistsError):
        write_arrays(tmp_path / "a", ARRAYS, {})
    write_arrays(tmp_path / "a", ARRAYS, {}, overwrite=True)
    assert read_arrays(tmp_path / "a", SPECS)


def test_a_failed_write_leaves_no_trace(tmp_path):
    write_arrays(tmp_path / "a", ARRAYS, {"version": 1})
    with pytest.raises(TypeError, match=r"array 'bad' must have .* a dtype of int8, .*; got object \(1,\)"):
        write_arrays(tmp_path / "a", {**ARRAYS, "bad": np.array([{}])}, {}, overwrite=True)
    assert _names(tmp_path) == ["a"]
    assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 1}


def test_what_a_reader_would_refuse_is_not_written(tmp_path):
    deep: list[object] = []
    for _ in range(20):
        deep = [deep]
    with pytest.raises(ValueError, match="nested at most 16 deep"):
        write_arrays(tmp_path / "a", ARRAYS, {"deep": deep})
    with pytest.raises(ValueError, match=r"a name must be .* got '\.\./x'"):
        write_arrays(tmp_path / "a", {"../x": ARRAYS["children_"]}, {})
    with pytest.raises(ValueError, match="must differ in more than case"):
        write_arrays(tmp_path / "a", {"x": ARRAYS["children_"], "X": ARRAYS["children_"]}, {})
    with pytest.raises(ValueError, match='must not have the key "arrays"'):
        write_arrays(tmp_path / "a", ARRAYS, {"arrays": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_arrays(tmp_path / "a", ARRAYS, {"score": float("nan")})
    with pytest.raises(ValueError, match="must be valid Unicode"):
        write_arrays(tmp_path / "a", ARRAYS, {"name": "\ud800"})
    with pytest.raises(TypeError, match="only JSON values, got set"):
        write_arrays(tmp_path / "a", ARRAYS, {"name": {1}})
    assert _names(tmp_path) == []


def test_a_missing_parent_and_a_nameless_path_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such directory; make it first"):
        write_arrays(tmp_path / "no" / "a", ARRAYS, {})
    with pytest.raises(ValueError, match="must end in a name"):
        write_arrays(tmp_path / "..", ARRAYS, {})
    with pytest.raises(FileNotFoundError, match="no such directory"):
        read_arrays(tmp_path / "a", SPECS)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file, but longtail writes directories"):
        read_arrays(tmp_path / "file", SPECS)


class TestWithoutExchange:
    """The same promises on file systems that cannot swap two directories."""

    @pytest.fixture(autouse=True)
    def _no_exchange(self, monkeypatch):
        monkeypatch.setattr(_os, "_renameat2", lambda *_: False)

    def test_the_old_directory_is_replaced(self, tmp_path):
        write_arrays(tmp_path / "a", ARRAYS, {"version": 1})
        write_arrays(tmp_path / "a", ARRAYS, {"version": 2}, overwrite=True)
        assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 2}
        assert _names(tmp_path) == ["a"]

    def test_after_a_crash_between_the_renames_the_old_one_is_read_and_put_back(self, tmp_path):
        write_arrays(tmp_path / "a", ARRAYS, {"version": 1})
        (tmp_path / "a").rename(tmp_path / ".a.longtail-old")
        assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 1}
        with pytest.raises(FileExistsError, match="pass overwrite=True"):
            write_arrays(tmp_path / "a", ARRAYS, {"version": 2})
        assert _names(tmp_path) == ["a"]

    def test_after_a_crash_before_the_removal_the_new_one_stays(self, tmp_path):
        write_arrays(tmp_path / "a", ARRAYS, {"version": 2})
        write_arrays(tmp_path / ".a.longtail-old", ARRAYS, {"version": 1})
        assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 2}
        write_arrays(tmp_path / "a", ARRAYS, {"version": 3}, overwrite=True)
        assert read_arrays(tmp_path / "a", SPECS)[0] == {"version": 3}
        assert _names(tmp_path) == ["a"]


def test_leftovers_of_a_crash_are_removed_by_the_next_write(tmp_path):
    (tmp_path / ".a.0.longtail-tmp").mkdir()
    (tmp_path / ".a.0.longtail-tmp" / "weights_.npy").write_text("half")
    write_arrays(tmp_path / "a", ARRAYS, {})
    assert _names(tmp_path) == ["a"]


def test_a_directory_that_another_writer_fills_is_left_alone(tmp_path):
    with publish.staged(tmp_path / "a") as other:
        (other / "half.npy").write_text("half")
        write_arrays(tmp_path / "a", ARRAYS, {"writer": 2})
        assert (other / "half.npy").read_text() == "half"
        (other / "half.npy").unlink()
        with pytest.raises(FileExistsError), publish.staged(tmp_path / "a"):
            pass
        write_arrays(tmp_path / "a", ARRAYS, {"writer": 3}, overwrite=True)
        (tmp_path / "a").rename(tmp_path / "b")  # make room: the outer one does not overwrite either
    assert _names(tmp_path) == ["a", "b"]


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_full_disk_is_told_with_the_path(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '.*/m'"), publish.staged(tmp_path / "m"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []
