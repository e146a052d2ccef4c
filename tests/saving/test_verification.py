"""Damaged bytes: found when a model is loaded, or before its next use."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import longtail as lt
from longtail._array_files import Verification, verification
from tests.cli.test_commands import longtail as run_command
from tests.contract.estimators import ESTIMATORS
from tests.models.make import make_labels, make_rows

ROWS = make_rows()


def damage(folder: Path) -> Path:
    """Flip the sign bit of the last value of the largest array of floats."""
    candidates = [path for path in folder.rglob("*.npy") if b"'<f4'" in path.read_bytes()[:128]]
    path = max(candidates, key=lambda path: path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x80
    path.write_bytes(content)
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = lt.DiSMEC(n_jobs=1).fit(ROWS, make_labels())
    lt.save(model, tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def all_in_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let even tiny files count as large."""
    monkeypatch.setattr("longtail._array_files.reader.AT_ONCE_BYTES", -1)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_flipped_bit_is_found_by_default(name: str, tmp_path: Path) -> None:
    lt.save(ESTIMATORS[name]().fit(ROWS, make_labels()), tmp_path / "m")
    path = damage(tmp_path / "m")
    with pytest.raises(lt.DamagedFileError, match=rf"{path.name}: has changed: SHA-256 must be .*; restore the file"):
        lt.load(tmp_path / "m")


def test_no_verification_loads_what_is_there(tmp_path: Path) -> None:
    lt.save(lt.LEML(n_jobs=1).fit(ROWS, make_labels()), tmp_path / "m")
    before = lt.load(tmp_path / "m").predict_top_k(ROWS).scores
    damage(tmp_path / "m")
    assert (lt.load(tmp_path / "m", verify=False).predict_top_k(ROWS).scores != before).any()


def test_verify_takes_three_values(saved: Path) -> None:
    with pytest.raises(ValueError, match="load: verify must be True, False or 'background', got 'later'"):
        lt.load(saved, verify="later")  # type: ignore[arg-type]


def wait(model: lt.DiSMEC) -> None:
    with pytest.raises(lt.DamagedFileError):
        model._fitted.facts.verification.wait()


@pytest.mark.filterwarnings("ignore:.*predictions made so far may be wrong")
def test_a_damaged_model_in_use_refuses_to_go_on(saved: Path, all_in_background: None, tmp_path: Path) -> None:
    before = lt.load(saved).predict_top_k(ROWS)
    path = damage(saved)
    model = lt.load(saved)  # returns at once
    wait(model)
    uses = {
        "predict_top_k": lambda: model.predict_top_k(ROWS),
        "predict": lambda: model.predict(ROWS),
        "save": lambda: lt.save(model, tmp_path / "copy"),
        "pickle": lambda: pickle.dumps(model),
        "remove_labels": lambda: model.remove_labels([0]),
        "other threads": lambda: model.with_threads(2).predict_top_k(ROWS),
    }
    for use in uses.values():
        with pytest.raises(lt.DamagedFileError, match=path.name):
            use()
    assert not (tmp_path / "copy").exists()
    # A new fit owns none of the damaged arrays.
    model.fit(ROWS, make_labels())
    np.testing.assert_array_equal(model.predict_top_k(ROWS).label_ids, before.label_ids)


def test_damage_in_the_background_gives_a_warning(saved: Path, all_in_background: None) -> None:
    damage(saved)
    with pytest.warns(RuntimeWarning, match="has changed.*predictions made so far may be wrong"):
        wait(lt.load(saved))


@pytest.mark.filterwarnings("ignore:.*predictions made so far may be wrong")
def test_damage_of_any_part_stops_a_tagger(tmp_path: Path, all_in_background: None) -> None:
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(["web server"], [["net"]])
    lt.save(tagger, tmp_path / "m")
    path = tmp_path / "m" / "vectorizer" / "idf_.npy"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    loaded = lt.load(tmp_path / "m")
    assert isinstance(loaded, lt.Tagger)
    wait(loaded.estimator)
    for use in (lambda: loaded.tag(["web"]), lambda: loaded.explain("web", "net"), lambda: loaded.card()):
        with pytest.raises(lt.DamagedFileError, match=r"idf_\.npy"):
            use()


def test_a_whole_model_is_verified_and_goes_on(saved: Path, all_in_background: None, tmp_path: Path) -> None:
    model = lt.load(saved)
    lt.save(model, tmp_path / "copy")
    assert model._fitted.facts.verification._work.files == []
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_top_k(ROWS).scores, model.predict_top_k(ROWS).scores)


def test_a_forked_process_verifies_for_itself() -> None:
    pending = Verification()
    content = memoryview(b"x" * 100)
    pending.add("file", content, "0" * 64)
    # As after a fork in the middle of the work: a thread object, but no thread.
    pending._thread, pending._process_id = threading.Thread(), os.getpid() + 1
    with pytest.warns(RuntimeWarning), pytest.raises(lt.DamagedFileError):
        pending.wait()


def test_an_unused_model_stops_its_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_CHUNK_BYTES", 1)
    pending = Verification()
    pending.add("file", memoryview(bytes(1 << 22)), "0" * 64)
    pending.start()
    thread = pending._thread
    assert thread is not None
    del pending
    gc.collect()
    thread.join(timeout=5)
    assert not thread.is_alive()


def test_without_threads_files_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pending = Verification()
    pending.add("file", memoryview(b"x"), "0" * 64)
    with pytest.warns(RuntimeWarning, match="has changed"):
        pending.start()
    with pytest.raises(lt.DamagedFileError):
        pending.check()


def test_a_short_script_does_not_end_in_silence(saved: Path) -> None:
    damage(saved)
    script = (
        "import sys, longtail as lt, longtail._array_files.reader as reader\n"
        "reader.AT_ONCE_BYTES = -1\n"
        "model = lt.load(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(saved)], capture_output=True, text=True, check=True)
    assert "has changed: SHA-256 must be" in done.stderr


def test_commands_verify_unless_told_not_to(tmp_path: Path) -> None:
    lt.save(lt.Popularity(n_jobs=1).fit(ROWS, make_labels()), tmp_path / "m")
    lt.datasets.write_xmc(tmp_path / "rows.txt", ROWS, make_labels())
    path = tmp_path / "m" / "shares_.npy"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    failed = run_command("predict", tmp_path / "m", tmp_path / "rows.txt", ok=False)
    assert "shares_.npy: has changed" in failed.stderr
    assert run_command("predict", tmp_path / "m", tmp_path / "rows.txt", "--no-verify").stdout


def test_checksums_cost_a_few_seconds_per_gigabyte() -> None:
    content = bytes(1 << 26)
    begin = time.process_time()
    with pytest.raises(lt.DamagedFileError):
        verification.check_sha256("file", content, "0" * 64)
    assert (time.process_time() - begin) * 16 < 20  # 1 s on machines with SHA instructions, 3 s without
