"""Feedback is stored once, survives other processes and full disks, and can be deleted."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import longtail as lt
from longtail.feedback import ConflictError, feedback_path


def made(number: int = 0, **fields: object) -> lt.Feedback:
    values = {"text": f"text {number}", "accepted": ["a"], "id": str(number), **fields}
    return lt.Feedback(**values)


@pytest.fixture
def store(tmp_path: Path) -> lt.FeedbackStore:
    return lt.FeedbackStore(tmp_path / "m.feedback.sqlite")


def test_the_file_lies_beside_the_model(tmp_path: Path) -> None:
    assert feedback_path(f"{tmp_path}/tags.model/") == tmp_path / "tags.model.feedback.sqlite"


def test_everything_that_was_stored_comes_back(store: lt.FeedbackStore) -> None:
    given = lt.Feedback(
        text='tabs\tand "quotes" \0 \N{SNOWMAN}\n',
        accepted=["a;b", "ä"],
        rejected=["r"],
        added=["new"],
        complete=True,
        author="Anna",
        version="abc",
    )
    assert store.add(given)
    (found,) = store
    assert found.feedback == given
    assert found.as_json()["labels"] == ["a;b", "ä", "new"]
    assert found.created_at.endswith("+00:00")


def test_the_same_id_is_stored_once(store: lt.FeedbackStore) -> None:
    assert store.add(made())
    assert not store.add(made())
    with pytest.raises(ConflictError, match="id must be new, got '0', which has other content"):
        store.add(made(accepted=["b"]))
    assert store.count() == 1


def test_feedback_is_deleted_by_id_and_author_and_overwritten(store: lt.FeedbackStore) -> None:
    for number in range(6):
        store.add(made(number, author="anna" if number % 2 else None, text=f"secret word {number}"))
    assert store.delete(feedback_id="0") == 1
    assert store.delete(feedback_id="0") == 0
    assert store.delete(author="anna") == 3
    assert [stored.feedback.id for stored in store] == ["2", "4"]
    content = b"".join(path.read_bytes() for path in store.path.parent.iterdir())
    assert b"secret word 2" in content
    assert b"secret word 1" not in content
    with pytest.raises(ValueError, match="a feedback_id or an author"):
        store.delete()


def test_numbers_are_never_used_again(store: lt.FeedbackStore) -> None:
    for number in range(3):
        store.add(made(number))
    store.delete(feedback_id="2")
    store.add(made(3))
    assert [stored.number for stored in store] == [1, 2, 4]
    assert [stored.number for stored in store.read(after=1, limit=1)] == [2]


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"accepted": "net"}, TypeError, "accepted must be a list of label names, got 'net'"),
        ({"accepted": ["a"], "rejected": ["a"]}, ValueError, "right or wrong, got 'a' as both"),
        ({"accepted": []}, ValueError, "must not all be empty; set complete"),
        ({"accepted": [""]}, ValueError, "a label of accepted must have 1 to"),
        ({"accepted": list(map(str, range(1001)))}, ValueError, "at most 1,000 labels, got 1,001"),
        ({"text": "\ud800"}, ValueError, "text must be valid Unicode"),
        ({"text": None}, TypeError, "text must be a str, got None"),
        ({"id": ""}, ValueError, "id must have 1 to 100 characters, got 0"),
        ({"author": "x" * 201}, ValueError, "author must have 1 to 200 characters, got 201"),
    ],
)
def test_mistakes_are_named(fields: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        made(**fields)


def test_a_text_without_labels_can_be_confirmed(store: lt.FeedbackStore) -> None:
    assert store.add(made(accepted=[], complete=True))


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"these are notes of mine" * 100)
    with pytest.raises(ValueError, match="must be a feedback file, got a damaged or other file"):
        lt.FeedbackStore(path)
    assert path.read_bytes() == b"these are notes of mine" * 100
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE feedback (a)")
    connection.close()
    with pytest.raises(ValueError, match="got another SQLite file"):
        lt.FeedbackStore(other)
    with pytest.raises(FileNotFoundError, match="there is no feedback"):
        lt.FeedbackStore(tmp_path / "nosuch", must_exist=True)
    assert not (tmp_path / "nosuch").exists()


def test_a_removed_file_is_made_again(store: lt.FeedbackStore) -> None:
    store.add(made(0))
    for path in store.path.parent.iterdir():
        path.unlink()
    store.add(made(1))
    assert [stored.feedback.id for stored in lt.FeedbackStore(store.path)] == ["1"]


def test_the_file_does_not_grow_beyond_its_limit(tmp_path: Path) -> None:
    store = lt.FeedbackStore(tmp_path / "f", max_bytes=1 << 20)

    def fill() -> None:
        for number in range(1000):
            store.add(made(number, text="x" * 10_000))

    with pytest.raises(OSError, match="is full; what was stored before is kept") as caught:
        fill()
    assert caught.value.errno == errno.ENOSPC
    assert store.path.stat().st_size <= 1 << 20
    ids = [int(stored.feedback.id) for stored in store]
    assert ids == list(range(len(ids)))
    assert len(ids) > 50
    store.delete(feedback_id="0")
    assert store.add(made(2000, text="x" * 5_000)), "deleted feedback makes room"


def _write_many(path: Path, first: int) -> None:
    store = lt.FeedbackStore(path)
    for number in range(first, first + 50):
        store.add(made(number))


def test_two_processes_write_into_one_file(store: lt.FeedbackStore) -> None:
    store.add(made(1000))  # an open connection that the children inherit and must not use
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write_many, args=(store.path, first)) for first in (0, 25, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    ids = [stored.feedback.id for stored in store]
    assert sorted(ids, key=int) == [str(number) for number in (*range(75), *range(100, 150), 1000)]


_WRITER = """
import sys, longtail as lt
store = lt.FeedbackStore(sys.argv[1])
for number in range(100_000):
    store.add(lt.Feedback(text="x" * 2000, accepted=["a"], id=str(number)))
    print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill(tmp_path: Path) -> None:
    path = tmp_path / "f"
    process = subprocess.Popen([sys.executable, "-c", _WRITER, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 40:
            process.send_signal(signal.SIGKILL)
            break
    last = int(([line, *process.stdout.read().split()])[-1])
    process.wait(30)
    process.stdout.close()
    ids = [int(stored.feedback.id) for stored in lt.FeedbackStore(path)]
    assert ids in (list(range(last + 1)), list(range(last + 2)))  # the last one may not have been printed


_FILL = """
import sys, longtail as lt
store = lt.FeedbackStore(sys.argv[1] + "/f")
n_stored = 0
try:
    for number in range(100_000):
        store.add(lt.Feedback(text="x" * 20_000, accepted=["a"], id=str(number)))
        n_stored += 1
except OSError as error:
    print(error.errno, n_stored, store.count(), len(list(lt.FeedbackStore(sys.argv[1] + "/f"))))
"""
_MOUNT = "mount -t tmpfs -o size=2m longtail-test {0} && exec {1} -c '{2}' {0}"


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "--map-root-user", "--mount", "true"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="needs a mount namespace for a small file system")
def test_a_full_disk_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    command = _MOUNT.format(tmp_path, sys.executable, _FILL)
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    code, *counts = map(int, done.stdout.split())
    assert code == errno.ENOSPC, done.stderr
    assert counts[0] > 20
    assert counts[0] == counts[1] == counts[2]
