"""GBDTSparse on a cluster: a worker that dies takes its block of columns with it, and the model is the same."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import longtail as lt
from tests.cluster.conftest import LocalCluster

pytestmark = pytest.mark.cluster


def make_model() -> lt.GBDTSparse:
    return lt.GBDTSparse(n_trees=8, min_leaf_size=2, max_depth=4, projection="none", n_jobs=1)


@pytest.fixture(scope="module")
def data() -> Any:
    made = lt.datasets.make_synthetic(n_rows=200, n_features=30, n_labels=20, labels_per_row=2)
    return made.X.toarray(), made.Y


def is_of_this_test(process_id: int) -> bool:
    """Whether a process descends from this one: others may use Ray on this machine."""
    while process_id > 1:
        if process_id == os.getpid():
            return True
        process_id = int(Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def kill_a_block(checkpoint: Path) -> None:
    """Kill one of the actors when some trees are finished."""
    until = time.monotonic() + 60
    while len(list(checkpoint.glob("shard-*"))) < 4 and time.monotonic() < until:
        time.sleep(0.005)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            process_id = int(path.parent.name)
            if path.read_bytes().startswith(b"ray::ActorHost") and is_of_this_test(process_id):
                os.kill(process_id, signal.SIGKILL)
                return


def test_a_killed_block_is_made_anew_and_the_model_is_the_same(
    cluster: LocalCluster, data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.grow(2)
    here = make_model().fit(*data)
    killer = threading.Thread(target=kill_a_block, args=(tmp_path,))
    killer.start()
    there = make_model().fit(*data, executor=lt.RayExecutor(address=cluster.address), checkpoint=tmp_path)
    killer.join()
    assert "lost a worker" in caplog.text
    for part in here._fitted_arrays():
        assert getattr(here, part).tobytes() == getattr(there, part).tobytes(), part


def test_trees_of_a_checkpoint_are_not_grown_again(cluster: LocalCluster, data: Any, tmp_path: Path) -> None:
    def stop_half_way(done: int, total: int) -> bool:
        return done < 4

    executor = lt.RayExecutor(address=cluster.address)
    with pytest.raises(lt.Stopped):
        make_model().fit(*data, executor=executor, checkpoint=tmp_path, progress=stop_half_way)
    finished = {path: path.stat().st_ino for path in tmp_path.glob("shard-????????")}
    assert len(finished) >= 4
    there = make_model().fit(*data, executor=executor, checkpoint=tmp_path)
    assert all(path.stat().st_ino == inode for path, inode in finished.items())
    here = make_model().fit(*data)
    for part in here._fitted_arrays():
        assert getattr(here, part).tobytes() == getattr(there, part).tobytes(), part
