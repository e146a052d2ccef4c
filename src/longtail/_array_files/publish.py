"""Put a finished directory in place; a crash at any moment leaves the old one or the new one, never a mix.

A directory is built beside its place, in ``.<name>.<slot>.longtail-tmp``, synced to disk and then renamed:

    nothing there yet      rename(tmp, path), refused by the kernel if something has appeared
    one to be replaced     renameat2(tmp, path, RENAME_EXCHANGE), then the old one, now at tmp, is removed
    no RENAME_EXCHANGE     rename(path, ".<name>.longtail-old"), rename(tmp, path), remove the old one; after
    (NFS, some FUSE)       a crash between the two renames readers use the old one where it is, and the next
                           writer puts it back

Whoever holds flock on a directory is at work in it; the kernel drops the lock with the process. A slot that
can be locked was left behind by a crash, and the next write to the same path removes it. Without flock
leftovers stay, each in its own slot: untidy, never wrong.
"""

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path

from longtail import _os

_N_SLOTS = 1000
_OWN_FILE = re.compile(r"manifest\.json|[A-Za-z][A-Za-z0-9_]{0,63}\.(?:npy|jsonl)")
# Files of a model hub that lie beside a model: they stay when the model is replaced. `.cache` is where the hub's client
# notes what it has downloaded.
_COMPANIONS = ("README.md", "LICENSE", "config.json", ".gitattributes", ".gitignore")
_COMPANION_FOLDER = ".cache"
_OWN_FOLDER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@contextmanager
def staged(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give an empty directory to fill; put it at ``path`` when the block ends well, drop it when it does not.

    Raises
    ------
    FileExistsError
        If ``path`` exists and ``overwrite`` is false, or if longtail did not write what exists there.
    """
    target = check_target(path, overwrite=overwrite)
    with ExitStack() as locks:
        folder = _claim_slot(target, locks)
        leftover: Path | None = folder  # the unfinished directory after an error, the old one after a replacement
        try:
            yield folder
            _copy_companions(target, folder)
            _sync_tree(folder)
            leftover = _publish(folder, target, overwrite=overwrite, locks=locks)
        except OSError as error:
            if error.filename is None and error.errno is not None:  # a full disk says so without a name
                error.filename = str(target)
            raise
        finally:
            if leftover is not None:
                shutil.rmtree(leftover, ignore_errors=True)
        _os.sync(target.parent)


def check_target(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Raise what `staged` would raise for this path, before anything long begins; return the path, absolute."""
    target = Path(path)
    if target.name in ("", ".."):
        raise ValueError(f"{target}: the path must end in a name, to write beside it first")
    target = target.parent.resolve() / target.name
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such directory; make it first, then write {target.name!r} in it")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{target.parent}: may not be written to; choose another path")
    _recover(target)
    _check_replaceable(target, overwrite=overwrite)
    return target


def backup_of(target: Path) -> Path:
    """Return where the old directory lies between the two renames where there is no RENAME_EXCHANGE."""
    return target.with_name(f".{target.name}.longtail-old")


def _claim_slot(target: Path, locks: ExitStack) -> Path:
    for slot in range(_N_SLOTS):
        folder = target.with_name(f".{target.name}.{slot}.longtail-tmp")
        with ExitStack() as own:
            if _exists(folder) and _lock(folder, own, wait=False) is _Lock.HELD:
                shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        # Busy: between mkdir and lock another writer took this one for a leftover.
        if _lock(folder, locks, wait=False) is not _Lock.BUSY:
            return folder
    raise FileExistsError(f"{target.parent} is full of leftovers; remove .{target.name}.*.longtail-tmp from it")


def _publish(folder: Path, target: Path, *, overwrite: bool, locks: ExitStack) -> Path | None:
    """Rename ``folder`` to ``target``; return where the old directory is now, if there was one."""
    while True:
        _recover(target)
        if not _exists(target):
            if _rename_to_free(folder, target):
                return None
            continue
        _check_replaceable(target, overwrite=overwrite)
        # The old directory is removed under its own lock, so that no other writer takes it for a leftover.
        if _lock(target, locks, wait=True) is _Lock.BUSY:
            continue
        if _os.exchange(folder, target):
            return folder
        if _replace_in_steps(folder, target):
            # The old one is removed where it lies: the slot is free now, and may be another writer's already.
            return backup_of(target)


def _replace_in_steps(folder: Path, target: Path) -> bool:
    """Replace by two renames; false if between the two another writer put its own directory there."""
    backup = backup_of(target)
    target.rename(backup)
    try:
        if _rename_to_free(folder, target):
            return True
    except OSError:
        backup.rename(target)
        raise
    shutil.rmtree(backup)
    return False


def _recover(target: Path) -> None:
    """Finish or undo a replacement that a crash cut in two."""
    backup = backup_of(target)
    while _exists(backup):
        with ExitStack() as lock:
            if _lock(backup, lock, wait=True) is _Lock.BUSY:
                continue
            if _exists(target):
                shutil.rmtree(backup)
            else:
                backup.rename(target)


def _check_replaceable(target: Path, *, overwrite: bool) -> None:
    with suppress(FileNotFoundError):  # another writer moves it away this very moment: then nothing of it can be lost
        _check_there(target, overwrite=overwrite)


def _check_there(target: Path, *, overwrite: bool) -> None:
    if not _exists(target):
        return
    if not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace it")
    if not stat.S_ISDIR(target.lstat().st_mode):
        kind = "symbolic link" if target.is_symlink() else "file"
        raise FileExistsError(
            f"{target} is a {kind}, not a directory that longtail wrote; remove it or choose another path"
        )
    with ExitStack() as lock:  # or a directory that another writer has moved away and empties would look foreign
        if _lock(target, lock, wait=True) is _Lock.BUSY:
            return
        foreign = _foreign_entry(target, is_top=True)
    if foreign is not None:
        raise FileExistsError(f"{foreign} was not written by longtail; move it away or choose another path")


def _foreign_entry(folder: Path, *, is_top: bool) -> Path | None:
    """Return something that would be lost with ``folder`` though longtail did not write it."""
    entries = list(os.scandir(folder))
    names = {entry.name for entry in entries}
    if is_top and "manifest.json" not in names and not names <= {*_COMPANIONS, _COMPANION_FOLDER}:
        return folder
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            if is_top and entry.name == _COMPANION_FOLDER:
                continue
            found = _foreign_entry(path, is_top=False) if _OWN_FOLDER.fullmatch(entry.name) else path
            if found is not None:
                return found
        elif _OWN_FILE.fullmatch(entry.name) is None and not (is_top and entry.name in _COMPANIONS):
            return path
    return None


def _copy_companions(source: Path, folder: Path) -> None:
    """Copy them; those already in ``folder`` may be links to the very same files, or to an earlier model's."""
    for name in _COMPANIONS:
        if _exists(source / name):
            (folder / name).unlink(missing_ok=True)
            shutil.copyfile(source / name, folder / name, follow_symlinks=False)
    if (source / _COMPANION_FOLDER).is_dir():
        shutil.rmtree(folder / _COMPANION_FOLDER, ignore_errors=True)
        shutil.copytree(source / _COMPANION_FOLDER, folder / _COMPANION_FOLDER, symlinks=True)


class _Lock(Enum):
    HELD = auto()
    BUSY = auto()  # somebody else's, or no longer at its path
    UNKNOWN = auto()  # this file system has no flock on directories


def _lock(folder: Path, locks: ExitStack, *, wait: bool) -> _Lock:
    """Lock ``folder`` until ``locks`` closes."""
    try:
        descriptor = _os.open_folder(folder, follow_link=False)
    except FileNotFoundError:
        return _Lock.BUSY
    locks.callback(os.close, descriptor)
    try:
        if not _os.try_lock(descriptor, wait=wait):
            return _Lock.BUSY
    except OSError:
        return _Lock.UNKNOWN
    locks.callback(_os.unlock, descriptor)
    try:
        is_there = os.path.samestat(os.fstat(descriptor), os.lstat(folder))
    except FileNotFoundError:
        is_there = False
    return _Lock.HELD if is_there else _Lock.BUSY


def _rename_to_free(folder: Path, target: Path) -> bool:
    """Rename, but replace nothing; false if something is there."""
    try:
        if _os.rename_to_free(folder, target):
            return True
    except FileExistsError:
        return False
    if _exists(target):
        return False
    try:
        folder.rename(target)  # at worst this replaces an empty directory that has just appeared
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise
    return True


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _sync_tree(folder: Path) -> None:
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            _os.sync(Path(parent, name))
        _os.sync(Path(parent))
