"""What RayExecutor says before any cluster is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail.execution import choose_executor
from longtail.execution.mapped_files import find_file_part, open_file_part


def test_missing_ray_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'longtail\[ray\]'"):
        lt.Popularity().fit(np.eye(2), np.eye(2), executor="ray")


def test_longtail_does_not_import_ray() -> None:
    program = "import sys, longtail.execution, longtail.batch, longtail.gbdt; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("word", "address"), [("ray", None), ("auto", "auto"), ("ray://10.0.0.1:10001", "ray://10.0.0.1:10001")]
)
def test_words_for_ray(word: str, address: str | None) -> None:
    executor = choose_executor(word, 3)
    assert isinstance(executor, lt.RayExecutor)
    assert (executor.address, executor.n_local_cpus) == (address, 3)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="RayExecutor: n_cpus must be an int >= 1, got 0"):
        lt.RayExecutor(n_cpus=0)
    with pytest.raises(ValueError, match="RayExecutor: timeout_seconds"):
        lt.RayExecutor(timeout_seconds=0)


def test_a_mapped_array_is_known_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers.npy"
    np.save(path, np.arange(100_000))
    mapped = np.load(path, mmap_mode="r")
    part = find_file_part(mapped[500:90_000], tmp_path)
    assert part is not None
    np.testing.assert_array_equal(open_file_part(part), np.arange(500, 90_000))
    assert find_file_part(mapped, tmp_path / "elsewhere") is None
    assert find_file_part(np.array(mapped), tmp_path) is None
    np.save(path, np.arange(100_001))
    with pytest.raises(ValueError, match=r"numbers\.npy on .* is not the file that the run began with"):
        open_file_part(part)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="shared_storage must be mounted at the same path on every node"):
        open_file_part(part)
