"""A full disk while the model is merged is an OSError with one line, not a SIGBUS."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail.execution import empty_array
from tests.execution import fit_and_wait

UNSHARE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
TMPFS = "mount -t tmpfs -o size={size_bytes} longtail-test {place} && exec {command}"


def test_space_is_reserved_before_the_model_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, offset: int, n_bytes: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match=r"No space left on device: '.*run \(needs \d+ bytes for arrays of the model\)'"):
        lt.DiSMEC(n_jobs=1).fit(*fit_and_wait.make_data(), checkpoint=tmp_path / "run")
    monkeypatch.undo()
    lt.DiSMEC(n_jobs=1).fit(*fit_and_wait.make_data(), checkpoint=tmp_path / "run")


def test_space_is_written_where_it_cannot_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    array = empty_array(300_001, np.float64, tmp_path)
    array[:] = np.arange(300_001)
    np.testing.assert_array_equal(array, np.arange(300_001))


def test_scratch_arrays_leave_no_file(tmp_path: Path) -> None:
    array = empty_array(1000, np.int32, tmp_path)
    array[:] = 7
    assert not list(tmp_path.iterdir())
    assert array.flags.writeable
    assert empty_array(0, np.int32, tmp_path).shape == (0,)


def can_mount(place: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = [*UNSHARE, f"mount -t tmpfs longtail-test {place}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_disk_that_is_full_at_the_merge_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("this machine does not allow mounting a tmpfs")
    X, Y = fit_and_wait.make_data()
    lt.datasets.write_csr_directory(tmp_path / "data", X, Y)
    model = lt.DiSMEC(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "probe")
    # tmpfs counts pages of 4 KiB; shards fit, the merged model does not.
    n_shards = sum(-(-path.stat().st_size // 4096) * 4096 for path in (tmp_path / "probe").glob("**/*.*"))
    n_merged = model.index_weights_.nbytes + model.index_label_ids_.nbytes
    place = tmp_path / "small"
    place.mkdir()
    train = f"{sys.executable} -m longtail train data -o model -e DiSMEC --checkpoint {place}/run"
    mounted = TMPFS.format(size_bytes=n_shards + n_merged // 3, place=place, command=train)
    done = subprocess.run([*UNSHARE, mounted], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "bytes for arrays of the model" in done.stderr.splitlines()[-1]
