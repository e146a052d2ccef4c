"""Hostile directories of arrays: each is refused with its own message, and before its bytes are read."""

import json
import os
import pickle
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longtail._array_files import ArraySpec, read_arrays, read_directory, write_arrays
from longtail._array_files.npy import write_header
from longtail._array_files.strict_json import parse_json

ARRAYS = {
    "weights_": np.linspace(-1, 1, 6, dtype=np.float32),
    "label_ids_": np.array([0, 3, 1], np.int32),
}
SPECS = {
    "weights_": ArraySpec(np.float32, ndim=1, finite=True),
    "label_ids_": ArraySpec(np.int32, shape=(3,), min=0, max=3),
}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "a", ARRAYS, {"kind": "test"})
    return tmp_path / "a"


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    edit(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def claim(**changes: Any) -> Callable[[Path], None]:
    """Change what the manifest says of weights_."""
    return lambda folder: edit_manifest(folder, lambda m: m["arrays"]["weights_"].update(changes))


def replace(array: Any, **changes: Any) -> Callable[[Path], None]:
    """Put another array in the file of weights_, and let the manifest agree on its size and ``changes``."""

    def attack(folder: Path) -> None:
        np.save(folder / "weights_.npy", array, allow_pickle=True)
        claim(size_bytes=(folder / "weights_.npy").stat().st_size, **changes)(folder)

    return attack


def patch(old: bytes, new: bytes) -> Callable[[Path], None]:
    """Change bytes of the file of weights_ without changing its size."""
    assert len(old) == len(new)

    def attack(folder: Path) -> None:
        data = (folder / "weights_.npy").read_bytes()
        assert old in data
        (folder / "weights_.npy").write_bytes(data.replace(old, new, 1))

    return attack


def resize(n_bytes: int, *, manifest_agrees: bool = False) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        size_bytes = (folder / "weights_.npy").stat().st_size + n_bytes
        os.truncate(folder / "weights_.npy", size_bytes)
        if manifest_agrees:
            claim(size_bytes=size_bytes)(folder)

    return attack


def rename_array(name: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        edit_manifest(folder, lambda m: m["arrays"].update({name: m["arrays"].pop("weights_")}))

    return attack


def link(kind: str) -> Callable[[Path], None]:
    def attack(folder: Path) -> None:
        file = folder / "weights_.npy"
        if kind == "symbolic":
            file.rename(folder.parent / "outside.npy")
            file.symlink_to("../outside.npy")
            return
        file.unlink()
        if kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        else:
            with socket.socket(socket.AF_UNIX) as end:
                end.bind(str(file))

    return attack


def manifest(text: str | bytes) -> Callable[[Path], None]:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / "manifest.json").write_bytes(data) and None


def bad_weights(value: float) -> np.ndarray:
    return np.array([1, 2, 3, 4, value, 6], np.float32)


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut short": (resize(-1), r"weights_.npy: was cut short: must have 152 bytes, got 151"),
    "cut inside the header": (resize(-100), r"weights_.npy: was cut short: must have 152 bytes, got 52"),
    "empty": (
        resize(-152, manifest_agrees=True),
        r"weights_.npy: not a .npy file: it must begin with .* got b''",
    ),
    "cut, and the manifest agrees": (
        resize(-4, manifest_agrees=True),
        r"weights_.npy: float32 \(6,\) needs 152 bytes, the file has 148",
    ),
    "oversized": (resize(1), r"weights_.npy: is too long: must have 152 bytes, got 153"),
    "oversized, and the manifest agrees": (
        resize(8, manifest_agrees=True),
        r"weights_.npy: float32 \(6,\) needs 152 bytes, the file has 160",
    ),
    "missing": (
        lambda folder: (folder / "weights_.npy").unlink(),
        r"weights_.npy: is missing; .* is incomplete",
    ),
    "symbolic link": (
        link("symbolic"),
        r"weights_.npy: is a symbolic link; a file must be there itself, copy it",
    ),
    "pipe": (link("pipe"), r"weights_.npy: must be a file, got a pipe"),
    "socket": (link("socket"), r"weights_.npy: must be a file, got a socket"),
    "directory": (link("folder"), r"weights_.npy: must be a file, got a directory"),
    "not npy": (patch(b"\x93NUMPY", b"PK\x03\x04PK"), r"weights_.npy: not a .npy file: it must begin with"),
    "future npy version": (
        patch(b"NUMPY\x01\x00", b"NUMPY\x03\x00"),
        r"weights_.npy: the .npy version .* got 3.0",
    ),
    "huge header": (
        patch(b"\x01\x00v\x00", b"\x01\x00\xf6\xff"),
        r"values must begin at a multiple of 64 .* 65536",
    ),
    "header past the end": (
        patch(b"\x01\x00v\x00", b"\x01\x00\xf6\x01"),
        r"header needs 512 bytes, .* has 152",
    ),
    "unaligned header": (
        patch(b"\x01\x00v\x00", b"\x01\x00u\x00"),
        r"values must begin at a multiple of 64 .* 127",
    ),
    "code in the header": (
        patch(b"'descr': '<f4', 'fort", b"'descr': exec('f(0)')"),
        r"weights_.npy: the header must be that of a plain array",
    ),
    "structured dtype": (
        replace(np.zeros(6, "i2,i2")),
        r"weights_.npy: the header must be that of a plain array",
    ),
    "pickle": (
        replace(np.array([pickle.dumps, {}], dtype=object)),
        r"weights_.npy: holds Python objects \(pickle\), which longtail never loads",
    ),
    "big-endian": (patch(b"<f4", b">f4"), r"weights_.npy: dtype must be one of .* little-endian; got '>f4'"),
    "complex": (patch(b"<f4", b"<c8"), r"weights_.npy: dtype must be one of .* got '<c8'"),
    "text": (replace(np.array(["abc"] * 6)), r"weights_.npy: dtype must be one of .* got '<U3'"),
    "Fortran order": (
        replace(np.asfortranarray(np.zeros((2, 3), np.float32))),
        r"weights_.npy: must be stored in C order, got Fortran order",
    ),
    "odd shape": (patch(b"(6,), }", b"(6,,), "), r"weights_.npy: the header must be that of a plain array"),
    "shape that is no tuple": (
        patch(b"(6,), }", b"(6 ), }"),
        r"the shape must be a tuple of whole numbers, got \(6 \)",
    ),
    "negative shape": (
        patch(b"(6,), } ", b"(-6,), }"),
        r"weights_.npy: the header must be that of a plain array",
    ),
    "too many dimensions": (
        replace(np.zeros((1,) * 5, np.float32)),
        r"must have at most 4 dimensions, got 5",
    ),
    "another dtype than the manifest's": (
        patch(b"<f4", b"<i4"),
        r"weights_.npy: the manifest says float32 \(6,\), the file's header int32 \(6,\)",
    ),
    "another shape than the manifest's": (
        patch(b"(6,)", b"(5,)"),
        r"weights_.npy: the manifest says float32 \(6,\), the file's header float32 \(5,\)",
    ),
    "wrong dtype": (
        replace(np.zeros(6, np.float64), dtype="float64"),
        r"weights_.npy must be float32, got float64",
    ),
    "wrong number of dimensions": (
        replace(np.zeros((2, 3), np.float32), shape=[2, 3]),
        r"weights_.npy must have 1 dimensions, got shape \(2, 3\)",
    ),
    "NaN": (replace(bad_weights(np.nan)), r"weights_.npy must hold finite numbers, got nan at 4"),
    "infinity": (replace(bad_weights(-np.inf)), r"weights_.npy must hold finite numbers, got -inf at 4"),
}

MANIFESTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (lambda folder: (folder / "manifest.json").unlink(), r"manifest.json: is missing"),
    "link": (
        lambda folder: (
            (folder / "manifest.json").rename(folder.parent / "m") and (folder / "manifest.json").symlink_to("../m")
        ),
        r"manifest.json: is a symbolic link",
    ),
    "empty": (manifest(""), r"manifest.json: not JSON: Expecting value"),
    "cut short": (manifest('{"kind": "te'), r"manifest.json: not JSON: Unterminated string"),
    "not UTF-8": (manifest(b'{"kind": "\xff"}'), r"manifest.json: must be UTF-8, got byte 0xff at 10"),
    "UTF-16": (manifest('{"kind": 1}'.encode("utf-16")), r"manifest.json: must be UTF-8, got byte 0xff at 0"),
    "byte order mark": (manifest(b"\xef\xbb\xbf{}"), r"manifest.json: not JSON: Unexpected UTF-8 BOM"),
    "list": (manifest("[]"), r"manifest.json: must hold a JSON object, got \[\]"),
    "deep list": (manifest("[" * 500_000), r"manifest.json: must be nested at most 16 deep"),
    "deep object": (manifest('{"a":' * 100_000 + "1" + "}" * 100_000), r"must be nested at most 16 deep"),
    "depth behind strings": (
        manifest('{"]": "\\"]]]", "a": ' + "[" * 16 + "]" * 16 + "}"),
        r"at most 16 deep",
    ),
    "quotes without end": (manifest('"\\' * 500_000), r"manifest.json: not JSON"),
    "huge integer": (
        manifest('{"n": ' + "9" * 900_000 + "}"),
        r"a whole number must fit 64 bits, got '999.*",
    ),
    "too great an integer": (
        manifest('{"n": 18446744073709551616}'),
        r"must fit 64 bits, got '18446744073709551616'",
    ),
    "infinite number": (manifest('{"n": 1e999}'), r"manifest.json: a number must be finite, got '1e999'"),
    "NaN": (manifest('{"n": NaN}'), r"manifest.json: NaN is not JSON; a number must be finite"),
    "Infinity": (manifest('{"n": -Infinity}'), r"manifest.json: -Infinity is not JSON"),
    "duplicate key": (
        manifest('{"arrays": {}, "a": 1, "arrays": {}}'),
        r"manifest.json: key 'arrays' appears twice",
    ),
    "many duplicate keys": (
        manifest("{" + ",".join(f'"{i % 60_000}":0' for i in range(80_000)) + "}"),
        r"manifest.json: key '0' appears twice",
    ),
    "lone surrogate": (
        manifest('{"n": "\\ud800"}'),
        r"manifest.json: text must be valid Unicode, got '\\ud800'",
    ),
    "comment": (manifest('{"n": 1} // hello'), r"manifest.json: not JSON: Extra data"),
    "no arrays": (manifest('{"kind": 1}'), r'manifest.json: "arrays" must be an object, got None'),
    "arrays as list": (manifest('{"arrays": []}'), r'manifest.json: "arrays" must be an object, got \[\]'),
    "array without claim": (
        manifest('{"arrays": {"weights_": 1}}'),
        r"'weights_' must have the keys .* got 1",
    ),
    "claim with one key more": (
        claim(offset=0),
        r"'weights_' must have the keys dtype, file, sha256, shape, size",
    ),
    "array missing": (
        lambda folder: edit_manifest(folder, lambda m: m["arrays"].pop("weights_")),
        r"manifest.json: array 'weights_' is missing; the directory is incomplete",
    ),
    "array unknown": (
        lambda folder: edit_manifest(
            folder, lambda m: m["arrays"].update(x={**m["arrays"]["weights_"], "file": "x.npy"})
        ),
        r"manifest.json: array 'x' is not known; it must not be there",
    ),
    "path traversal in a name": (
        rename_array("../../etc/passwd"),
        r"a name must be .* got '../../etc/passwd'",
    ),
    "absolute path as a name": (rename_array("/etc/passwd"), r"a name must be .* got '/etc/passwd'"),
    "null byte in a name": (rename_array("weights_\0"), r"a name must be .* got 'weights_\\x00'"),
    "newline in a name": (rename_array("weights_\n"), r"a name must be .* got 'weights_\\n'"),
    "dot as a name": (rename_array("."), r"a name must be .* got '.'"),
    "empty name": (rename_array(""), r"a name must be .* got ''"),
    "endless name": (rename_array("a" * 500_000), r"a name must be .* got 'aaaa.*\.\.\.aaa"),
    "letters of another script": (rename_array("wеights_"), r"a name must be .* got 'wеights_'"),
    "names that differ in case only": (rename_array("LABEL_IDS_"), r"names must differ in more than case"),
    "path traversal in a file name": (
        claim(file="../weights_.npy"),
        r"must lie in its own file 'weights_.npy', got '\.\.",
    ),
    "overlapping files": (
        claim(file="label_ids_.npy"),
        r"must lie in its own file 'weights_.npy', got 'label_ids_.npy'",
    ),
    "unknown dtype": (claim(dtype="object"), r"'weights_': dtype must be one of int8, .* got 'object'"),
    "dtype that is no text": (claim(dtype=["f4"]), r"'weights_': dtype must be one of int8, .* got \['f4'\]"),
    "shape that is no list": (
        claim(shape=6),
        r"'weights_': shape must be a list of whole numbers >= 0, got 6",
    ),
    "negative length": (
        claim(shape=[-6]),
        r"'weights_': shape must be a list of whole numbers >= 0, got \[-6\]",
    ),
    "length that is a truth": (
        claim(shape=[True]),
        r"'weights_': shape must be a list of whole numbers >= 0",
    ),
    "length that is a float": (claim(shape=[6.0]), r"'weights_': shape must be a list of whole numbers >= 0"),
    "shape that overflows": (
        claim(shape=[2**62, 2**62, 0]),
        r"at most 4 dimensions and 2\*\*48 values can be",
    ),
    "too many dimensions": (claim(shape=[1] * 5), r"at most 4 dimensions and 2\*\*48 values can be"),
    "negative size": (claim(size_bytes=-1), r"'weights_': size_bytes must be a whole number >= 0, got -1"),
    "size that lies": (
        claim(size_bytes=2**60),
        r"weights_.npy: was cut short: must have 1152921504606846976 bytes",
    ),
    "checksum that is none": (claim(sha256="../../x"), r"'weights_': sha256 must be 64 hexadecimal digits"),
}


@pytest.mark.parametrize(("attack", "message"), FILES.values(), ids=FILES)
def test_a_hostile_array_file_is_refused(good, attack, message):
    attack(good)
    with pytest.raises(ValueError, match=message):
        read_arrays(good, SPECS)


@pytest.mark.parametrize(("attack", "message"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_hostile_manifest_is_refused(good, attack, message):
    attack(good)
    with pytest.raises(ValueError, match=message) as caught:
        read_arrays(good, SPECS)
    assert len(str(caught.value)) < 1000


def test_every_attack_has_its_own_message():
    for attacks in (FILES, MANIFESTS):
        patterns = [message for _, message in attacks.values()]
        repeated = {pattern for pattern in patterns if patterns.count(pattern) > 1}
        # Headers that are no header at all may share the message that says so.
        assert {p for p in repeated if "plain array" not in p and "length" not in p} <= {
            r"at most 4 dimensions and 2\*\*48 values can be",
            r"'weights_': shape must be a list of whole numbers >= 0",
        }


def test_one_file_under_two_names_is_refused(tmp_path):
    write_arrays(tmp_path / "a", {"left_": ARRAYS["label_ids_"], "right_": ARRAYS["label_ids_"]}, {})
    (tmp_path / "a" / "right_.npy").unlink()
    (tmp_path / "a" / "right_.npy").hardlink_to(tmp_path / "a" / "left_.npy")
    with pytest.raises(ValueError, match=r"right_\.npy: is the same file as left_\.npy; arrays must not overlap"):
        read_arrays(tmp_path / "a", {"left_": SPECS["label_ids_"], "right_": SPECS["label_ids_"]})


@pytest.mark.parametrize("value", [-1, 4, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_refused(good, value):
    ids = ARRAYS["label_ids_"].copy()
    ids[1] = value
    np.save(good / "label_ids_.npy", ids)
    with pytest.raises(ValueError, match=rf"label_ids_.npy must hold numbers >= 0 and <= 3, got {value} at 1"):
        read_arrays(good, SPECS)


def test_a_bad_value_is_found_in_any_block(tmp_path):
    values = np.zeros(1_000_000, np.float32)
    values[987_654] = np.nan
    write_arrays(tmp_path / "a", {"x": values}, {})
    with pytest.raises(ValueError, match="must hold finite numbers, got nan at 987654"):
        read_arrays(tmp_path / "a", {"x": ArraySpec(np.float32, finite=True)})
    with pytest.raises(ValueError, match="must hold numbers >= 0, got nan at 987654"):
        read_arrays(tmp_path / "a", {"x": ArraySpec(np.float32, min=0)})


def test_wide_integers_are_compared_exactly(tmp_path):
    write_arrays(tmp_path / "a", {"x": np.array([2**53, 2**53 + 1], np.int64)}, {})
    read_arrays(tmp_path / "a", {"x": ArraySpec(np.int64, max=2**53 + 1)})
    with pytest.raises(ValueError, match=f"<= {2**53}, got {2**53 + 1} at 1"):
        read_arrays(tmp_path / "a", {"x": ArraySpec(np.int64, max=2**53)})


def test_a_changed_value_is_found_when_asked(good):
    patch(np.float32(1).tobytes(), np.float32(2).tobytes())(good)
    assert read_arrays(good, SPECS)[1]["weights_"][-1] == 2
    with pytest.raises(ValueError, match=r"weights_.npy: has changed: SHA-256 must be [0-9a-f]{64}, got "):
        read_arrays(good, SPECS, verify=True)


def test_a_link_to_the_whole_directory_inside_another_is_refused(good):
    # The path that the caller gives is the caller's business; what lies inside is the format's.
    write_arrays(good.parent / "b", ARRAYS, {})
    (good / "inner").symlink_to("../b")
    with pytest.raises(ValueError, match="inner: is a symbolic link; a directory must be there itself"):
        read_directory(good, lambda directory: directory.folder("inner").__enter__())
    with pytest.raises(ValueError, match=r"a name must be .* got '../b'"):
        read_directory(good, lambda directory: directory.folder("../b").__enter__())


class TestNothingIsReadInVain:
    """Sparse files of a terabyte: whoever reads them notices."""

    TERABYTE = 1 << 40

    @pytest.fixture(autouse=True)
    def _reads_little(self):
        before, resident = _n_read(), _n_resident()
        yield
        assert _n_read() - before < 1 << 20
        assert _n_resident() - resident < 32 << 20

    def test_a_terabyte_of_manifest_is_refused_by_its_size(self, good):
        os.truncate(good / "manifest.json", self.TERABYTE)
        with pytest.raises(ValueError, match=f"must be at most 1048576 bytes, got {self.TERABYTE}"):
            read_arrays(good, SPECS)

    def test_a_terabyte_in_an_array_file_is_refused_by_its_size(self, good):
        os.truncate(good / "weights_.npy", self.TERABYTE)
        with pytest.raises(ValueError, match="is too long"):
            read_arrays(good, SPECS, verify=True)

    def test_a_terabyte_that_breaks_another_rule_is_refused_by_that_rule(self, good):
        n_values = self._grow(good)
        os.truncate(good / "label_ids_.npy", 3)
        with pytest.raises(ValueError, match=r"label_ids_\.npy: was cut short"):
            read_arrays(good, SPECS, verify=True)
        with pytest.raises(ValueError, match=rf"must have shape \(6\), got \({n_values},\)"):
            read_arrays(good, {**SPECS, "weights_": ArraySpec(np.float32, shape=(6,), finite=True)}, verify=True)

    def test_a_terabyte_of_values_without_rules_is_mapped_at_once(self, good):
        n_values = self._grow(good)
        _, arrays = read_arrays(good, {**SPECS, "weights_": ArraySpec(np.float32, ndim=1)})
        assert arrays["weights_"].shape == (n_values,)
        assert arrays["weights_"][n_values // 2] == 0

    def _grow(self, folder: Path) -> int:
        n_values = self.TERABYTE // 4
        header = write_header(np.dtype("<f4"), (n_values,))
        (folder / "weights_.npy").write_bytes(header)
        os.truncate(folder / "weights_.npy", len(header) + 4 * n_values)
        claim(shape=[n_values], size_bytes=len(header) + 4 * n_values)(folder)
        return n_values


def test_json_of_the_greatest_size_is_parsed_in_linear_time():
    # In quadratic time this test would not end.
    for text in (
        '{"a":"' + "\\" * 999_999 + '"}',
        '{"a":' + '"\\"' * 300_000,
        "{" * 1_000_000,
        '"' * 1_000_001,
    ):
        with pytest.raises(ValueError):
            parse_json("text", text.encode())


def _n_read() -> int:
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


def _n_resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
