"""System calls that exist on POSIX systems only: descriptors, locks, renames, maps, disk space, processes, signals.

A port of the library to Windows replaces this module; `tests/test_portability.py` finds such calls elsewhere.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import weakref
from pathlib import Path

_ZEROS = bytes(1 << 20)
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCHANGE = 2
_MAP_FAILED = ctypes.c_void_p(-1).value
RELOAD = signal.SIGHUP
CHILD_ENDED = signal.SIGCHLD
KILL = signal.SIGKILL
_SUPERVISED = {CHILD_ENDED, RELOAD, signal.SIGTERM, signal.SIGINT}


def open_folder(path: Path, *, follow_link: bool = True) -> int:
    """Open a directory, to lock it or to open what is in it; raise NotADirectoryError for anything else."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    return os.open(path, flags if follow_link else flags | os.O_NOFOLLOW)


def open_entry(name: str, folder: int) -> int:
    """Open an entry of an open folder for reading. Follows no link and does not wait for the writer of a pipe."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


def entry_mode(name: str, folder: int) -> int:
    """Return the kind and permissions of an entry of an open folder, of the link itself if it is one."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode


def open_lock_file(path: Path) -> int:
    """Open a file to lock it; make it if it is not there."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def try_lock(descriptor: int, *, wait: bool = False) -> bool:
    """Lock an open file or folder for this process alone; return False if it is locked already, or wait for it.

    The lock belongs to the open file: a second `open` in the same process is refused too, and the kernel drops the
    lock when the process ends, however it ends. Raises OSError where the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def exchange(source: Path, target: Path) -> bool:
    """Swap two directories in one step; return False where kernel or file system cannot."""
    return _renameat2(source, target, _RENAME_EXCHANGE)


def rename_to_free(source: Path, target: Path) -> bool:
    """Rename, but raise FileExistsError if something is there; return False where kernel or file system cannot."""
    return _renameat2(source, target, _RENAME_NOREPLACE)


def _renameat2(source: Path, target: Path, flag: int) -> bool:
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return False
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_SUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(target))


def sync(path: Path) -> None:
    """Write a file or the entries of a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def map_readonly(descriptor: int, size_bytes: int) -> memoryview:
    """Map the first bytes of a file; the map stays until nothing refers to it.

    Python's own mmap keeps a descriptor open for each map, and a run may have thousands of shards.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    integer = ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, integer, integer, integer, ctypes.c_ssize_t]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    block = (ctypes.c_ubyte * size_bytes).from_address(address)
    # Not at exit: then other threads may still be using it, and the kernel cleans up anyway.
    weakref.finalize(block, libc.munmap, address, size_bytes).atexit = False
    return memoryview(block).toreadonly()


def fork() -> int:
    """Return the id of a copy of this process, and 0 in the copy."""
    return os.fork()


def block_signals() -> set[int]:
    """Keep the signals of a supervisor for `wait_for_signal`; return the mask for `unblock_signals`."""
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, _SUPERVISED)}


def unblock_signals(mask: set[int]) -> None:
    """Set the mask that `block_signals` found."""
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def wait_for_signal(seconds: float) -> int | None:
    """Wait for a blocked signal; return None if none arrives."""
    received = signal.sigtimedwait(_SUPERVISED, seconds)
    return None if received is None else received.si_signo


def ended_child() -> tuple[int, int] | None:
    """Return the process id and exit code of a child that has ended, if there is one."""
    process_id, status = os.waitpid(-1, os.WNOHANG)
    return (process_id, os.waitstatus_to_exitcode(status)) if process_id else None


def wait_for_child(process_id: int) -> None:
    """Wait until a child has ended."""
    os.waitpid(process_id, 0)


def end_process_after(seconds: float) -> None:
    """Let the kernel end this process after some time, whatever it does then; 0 cancels."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def physical_memory_bytes() -> float:
    """Return the memory of this machine; infinity where the system does not say."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return float("inf")
    return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")


def host_name() -> str:
    """Return the name of this machine."""
    return os.uname().nodename


def available_memory_bytes(root: Path = Path("/")) -> float:
    """Return how much memory this process can still get: what the system has, and the limit of its container."""
    limits = [float("inf")]
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(float(line.split()[1]) * 1024)
    except (OSError, ValueError, IndexError):
        pass
    try:
        cgroup = root / "sys/fs/cgroup"
        limits.append(float((cgroup / "memory.max").read_text()) - float((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):  # no container, or "max"
        pass
    if limits == [float("inf")]:
        limits.append(physical_memory_bytes() / 2)
    return max(0.0, min(limits))


def require_memory(owner: str, n_features: int, n_labels: int) -> None:
    """Raise MemoryError if not even a number or two for each feature and label would fit into memory."""
    least, free = 16.0 * n_features + 24.0 * n_labels, available_memory_bytes()
    if least > free:
        raise MemoryError(
            f"{owner}: {n_features:,} features and {n_labels:,} labels need at least {least / 1e9:.1f} GB of memory, "
            f"and {free / 1e9:.1f} GB are free; number features and labels without gaps"
        )
