"""Feedback in one SQLite file: written to disk before `add` returns, by any number of processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from longtail import _os
from longtail.feedback.record import Feedback, labels_as_json

_APPLICATION_ID = 0x4C546662  # "LTfb"
_FORMAT = 1
_BUSY_SECONDS = 10.0
_PAGE_BYTES = 4096
_ROWS_PER_READ = 500
_SCHEMA = """
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    text TEXT NOT NULL,
    text_key TEXT NOT NULL,
    accepted TEXT NOT NULL,
    rejected TEXT NOT NULL,
    added TEXT NOT NULL,
    complete INTEGER NOT NULL,
    author TEXT,
    version TEXT
) STRICT;
CREATE INDEX feedback_author ON feedback (author) WHERE author IS NOT NULL;
CREATE INDEX feedback_text_key ON feedback (text_key);
"""
_CONTENT = "text, accepted, rejected, added, complete, author, version"
_FULL = {sqlite3.SQLITE_FULL: "the disk or the feedback file is full", sqlite3.SQLITE_IOERR: "the disk failed"}
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class ConflictError(ValueError):
    """The id is taken by other feedback."""


class Stored(NamedTuple):
    """Feedback with its place in the file."""

    number: int
    created_at: str
    feedback: Feedback

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, one line of an export."""
        return {"number": self.number, "created_at": self.created_at, **self.feedback.as_json()}


def feedback_path(model: str | os.PathLike[str]) -> Path:
    """Return where the feedback of a saved model is: one file beside it."""
    path = Path(os.path.normpath(model))
    return path.with_name(path.name + ".feedback.sqlite")


class FeedbackStore:
    """Feedback in one SQLite file (write-ahead log); `add` returns when the operating system has it on disk.

    One object serves all threads of a process; after a fork, every process opens the file for itself.

    Parameters
    ----------
    path : path
        Made when it is not there, unless `must_exist`.
    max_bytes : int, default 1 GiB
        The file never grows beyond this: then `add` raises OSError.
    must_exist : bool, default False
        Raise FileNotFoundError instead of making a file.

    Examples
    --------
    >>> import longtail as lt, tempfile
    >>> store = lt.FeedbackStore(tempfile.mkdtemp() + "/tags.model.feedback.sqlite")
    >>> store.add(lt.Feedback(text="a web server", accepted=["net"], id="1"))
    True
    >>> store.add(lt.Feedback(text="a web server", accepted=["net"], id="1"))
    False
    >>> store.count()
    1
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 1 << 30, must_exist: bool = False) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._opened = (0, 0)  # process and inode that the connection belongs to
        if must_exist and not self.path.is_file():
            raise FileNotFoundError(f"{self.path}: there is no feedback; serve the model with --feedback")
        with self._open():
            pass
        self.close()  # opened again by the process that uses it, which may be a fork of this one

    def add(self, feedback: Feedback) -> bool:
        """Store feedback; return False if it was there already.

        Raises
        ------
        ConflictError
            If the id is taken by other feedback.
        OSError
            If the disk is full (ENOSPC) or other processes kept the file locked (EAGAIN). Nothing was changed then.
        """
        return self.add_all([feedback]) == 1

    def add_all(self, feedback: Iterable[Feedback]) -> int:
        """Store several at once, all or none; return how many were not there already. Raises what `add` raises."""
        with self._transaction() as connection:
            return sum(_insert(connection, item) for item in feedback)

    def delete(self, *, feedback_id: str | None = None, author: str | None = None) -> int:
        """Delete what has this id, or everything by this author; return how many were deleted.

        The texts are overwritten in the file, not only marked as free.
        """
        if (feedback_id is None) == (author is None):
            raise ValueError("FeedbackStore: delete takes a feedback_id or an author, and only one of them")
        with self._transaction() as connection:
            column, value = ("id", feedback_id) if author is None else ("author", author)
            n_deleted = connection.execute(f"DELETE FROM feedback WHERE {column} = ?", (value,)).rowcount
        with self._open() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # the log holds the texts, too
        return n_deleted

    def count(self, *, author: str | None = None) -> int:
        """Return how much feedback there is, altogether or by one author."""
        with self._open() as connection:
            where, values = ("", ()) if author is None else (" WHERE author = ?", (author,))
            return int(connection.execute(f"SELECT COUNT(*) FROM feedback{where}", values).fetchone()[0])

    def read(self, *, after: int = 0, limit: int = _ROWS_PER_READ) -> list[Stored]:
        """Return feedback in the order in which it came, from the number behind `after` on."""
        with self._open() as connection:
            rows = connection.execute(
                f"SELECT number, id, created_at, {_CONTENT} FROM feedback WHERE number > ? ORDER BY number LIMIT ?",
                (after, limit),
            ).fetchall()
        return [_stored(row) for row in rows]

    def __iter__(self) -> Iterator[Stored]:
        """Iterate over all feedback, a few hundred at a time, so that no lock is held meanwhile."""
        after = 0
        while rows := self.read(after=after):
            yield from rows
            after = rows[-1].number

    def text_keys(self) -> set[str]:
        """Return the keys of all texts that have feedback."""
        with self._open() as connection:
            return {row[0] for row in connection.execute("SELECT DISTINCT text_key FROM feedback")}

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._connection is not None and self._opened[0] == os.getpid():
                self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit at the end of the block; undo everything if it fails."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Hold this process' connection, and report SQLite's errors as OSError."""
        with self._lock:
            try:
                opened = (os.getpid(), self._inode())
                if self._connection is None or self._opened != opened:  # forked, or somebody removed the file
                    self._connection = self._connect()
                    self._opened = (os.getpid(), self._inode())
                yield self._connection
            except sqlite3.DatabaseError as error:
                raise _as_os_error(error, self.path) from error

    def _inode(self) -> int:
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return 0

    def _connect(self) -> sqlite3.Connection:
        is_new = not self.path.exists()
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise OSError(f"{self.path}: this file system does not support SQLite's write-ahead log")
            connection.execute("PRAGMA synchronous = FULL")  # fsync at each commit
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute(f"PRAGMA max_page_count = {max(16, self._max_bytes // _PAGE_BYTES)}")
            self._check_or_make(connection)
        except BaseException:
            connection.close()
            raise
        if is_new:
            _os.sync(self.path.parent)  # the name of the new file
        return connection

    def _check_or_make(self, connection: sqlite3.Connection) -> None:
        if _identity(connection) == (0, 0):
            connection.execute("BEGIN IMMEDIATE")
            try:
                n_tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
                if n_tables == 0 and _identity(connection) == (0, 0):  # another process may have been faster
                    for statement in filter(str.strip, _SCHEMA.split(";")):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version = {_FORMAT}")
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        if _identity(connection) != (_APPLICATION_ID, _FORMAT):
            raise ValueError(f"{self.path}: must be a feedback file of format {_FORMAT}, got another SQLite file")


def _insert(connection: sqlite3.Connection, feedback: Feedback) -> bool:
    content = (
        feedback.text,
        labels_as_json(feedback.accepted),
        labels_as_json(feedback.rejected),
        labels_as_json(feedback.added),
        int(feedback.complete),
        feedback.author,
        feedback.version,
    )
    known = connection.execute(f"SELECT {_CONTENT} FROM feedback WHERE id = ?", (feedback.id,)).fetchone()
    if known is not None:
        if known != content:
            raise ConflictError(f"Feedback: id must be new, got {feedback.id!r}, which has other content")
        return False
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    connection.execute(
        f"INSERT INTO feedback (id, created_at, text_key, {_CONTENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (feedback.id, now, feedback.text_key, *content),
    )
    return True


def _identity(connection: sqlite3.Connection) -> tuple[int, int]:
    return (
        connection.execute("PRAGMA application_id").fetchone()[0],
        connection.execute("PRAGMA user_version").fetchone()[0],
    )


def _stored(row: tuple[Any, ...]) -> Stored:
    number, feedback_id, created_at, text, accepted, rejected, added, complete, author, version = row
    return Stored(
        number,
        created_at,
        Feedback(
            id=feedback_id,
            text=text,
            accepted=json.loads(accepted),
            rejected=json.loads(rejected),
            added=json.loads(added),
            complete=bool(complete),
            author=author,
            version=version,
        ),
    )


def _as_os_error(error: sqlite3.DatabaseError, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the primary code
    if code in _FULL:
        return OSError(errno.ENOSPC, f"{_FULL[code]}; what was stored before is kept", str(path))
    if code in _BUSY:
        return OSError(errno.EAGAIN, "other processes keep the feedback file locked; try again", str(path))
    if code in _DAMAGED:
        return ValueError(f"{path}: must be a feedback file, got a damaged or other file ({error})")
    return OSError(errno.EIO, f"the feedback file cannot be used: {error}", str(path))
