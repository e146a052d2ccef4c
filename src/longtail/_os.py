"""System calls that exist on POSIX systems only: file locks and reserved disk space.

A port to Windows replaces this module and nothing else.
"""

from __future__ import annotations

import errno
import fcntl
import os

_ZEROS = bytes(1 << 20)
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone; return False if it is locked already.

    The lock belongs to the open file: a second `open` in the same process is refused too, and the kernel drops the
    lock when the process ends, however it ends. Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock. Closing is not enough: a child forked meanwhile holds the same open file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def reserve_space(descriptor: int, n_bytes: int) -> None:
    """Allocate the first `n_bytes` of an empty file on disk; raise OSError if there is no room.

    Without this, a full disk is noticed only when a page of a mapped file is written, and the kernel answers with
    SIGBUS, which no program can handle well.
    """
    try:
        os.posix_fallocate(descriptor, 0, n_bytes)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        for first in range(0, n_bytes, len(_ZEROS)):
            chunk = memoryview(_ZEROS)[: n_bytes - first]
            while chunk:
                chunk = chunk[os.write(descriptor, chunk) :]


def host_name() -> str:
    """Return the name of this machine."""
    return os.uname().nodename
