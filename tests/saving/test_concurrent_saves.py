"""Several threads at one path: readers always see one whole model, writers never spoil each other's."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from longtail import _os
from longtail._array_files import ArraySpec, publish, read_arrays, write_arrays

SPECS = {name: ArraySpec(np.int64, ndim=1) for name in "abc"}


def write(path: Path, version: int, *, overwrite: bool = True) -> None:
    write_arrays(path, {name: np.full(5000, version) for name in "abc"}, {"version": version}, overwrite=overwrite)


def read(path: Path) -> int:
    meta, arrays = read_arrays(path, SPECS, verify=True)
    for array in arrays.values():
        np.testing.assert_array_equal(array, meta["version"])
    return int(meta["version"])


@pytest.fixture(params=["exchange", "no exchange"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "no exchange":
        monkeypatch.setattr(_os, "_renameat2", lambda *_: False)
    write(tmp_path / "m", 0)
    return tmp_path / "m"


def test_a_reader_never_sees_a_mix(path: Path) -> None:
    stop = threading.Event()

    def read_on() -> list[int]:
        seen = []
        while not stop.is_set():
            seen.append(read(path))
        return seen

    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read_on) for _ in range(2)]
        try:
            for version in range(1, 60):
                write(path, version)
        finally:
            stop.set()
        for reader in readers:
            seen = reader.result()
            assert seen == sorted(seen), "what was replaced does not come back"
    assert read(path) == 59


def test_writers_take_turns(path: Path) -> None:
    def write_some(first: int) -> None:
        for version in range(first, first + 15):
            write(path, version)

    with ThreadPoolExecutor() as pool:
        for writer in [pool.submit(write_some, first) for first in (100, 200, 300)]:
            writer.result()
    assert read(path) in (114, 214, 314)
    assert [entry.name for entry in path.parent.iterdir()] == ["m"]


def test_of_writers_that_must_not_overwrite_one_wins(path: Path) -> None:
    def write_new(version: int) -> bool:
        try:
            write(path.with_name("new"), version, overwrite=False)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor() as pool:
        won = list(pool.map(write_new, range(8)))
    assert won.count(True) == 1
    assert read(path.with_name("new")) == won.index(True)


def test_a_slot_that_a_replacement_has_left_belongs_to_who_takes_it_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_os, "_renameat2", lambda *_: False)
    write(tmp_path / "m", 0)
    rename, claimed = Path.rename, []
    with ExitStack() as locks:

        def rename_and_claim(source: Path, target: Path) -> Path:
            renamed = rename(source, target)
            if source.name == ".m.0.longtail-tmp":
                claimed.append(publish._claim_slot(tmp_path / "m", locks))
            return renamed

        monkeypatch.setattr(Path, "rename", rename_and_claim)
        write(tmp_path / "m", 1)
        assert claimed == [tmp_path / ".m.0.longtail-tmp"]
        assert claimed[0].is_dir(), "the other writer's directory is still there"
    assert read(tmp_path / "m") == 1
