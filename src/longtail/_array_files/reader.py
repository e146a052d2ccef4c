"""Read a directory of arrays: every claim is checked before it is used, values are mapped and not copied."""

import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from longtail import _os
from longtail._array_files import strict_json
from longtail._array_files.mapping import map_file
from longtail._array_files.npy import HEADER_MAX_BYTES, read_header
from longtail._array_files.publish import backup_of
from longtail._array_files.specs import DTYPES, MAX_NDIM, ArraySpec, check_name, shown
from longtail._array_files.verification import AT_ONCE_BYTES, Verification, check_sha256
from longtail._array_files.writer import check_file_names

Result = TypeVar("Result")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CLAIM_KEYS = {"file", "dtype", "shape", "size_bytes", "sha256"}
_N_TRIES = 10
_MAX_SIZE = 1 << 48


def read_arrays(
    path: str | os.PathLike[str], specs: Mapping[str, ArraySpec] | None, *, verify: bool = False
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read a directory that `write_arrays` wrote.

    Parameters
    ----------
    path : path
        The directory.
    specs : mapping of name to ArraySpec
        Exactly the arrays that must be there, and their rules. Only rules on values read them. None takes
        whatever the manifest names: for shards that this very run wrote.
    verify : bool, default False
        Read every byte and compare its SHA-256 with the manifest's.

    Returns
    -------
    meta : dict
        What was given to `write_arrays`; the caller checks it.
    arrays : dict of name to array
        Read-only, mapped: memory is filled as values are used (files under 32 KiB are read). They stay valid if
        the directory is replaced.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    ValueError
        If anything in it is not what it must be.
    """
    return read_directory(path, lambda directory: (directory.meta, directory.read(specs, verify=verify)))


def read_directory(path: str | os.PathLike[str], use: Callable[["ArrayDirectory"], Result]) -> Result:
    """Return ``use(directory)``, tried again if the directory is replaced by a writer meanwhile."""
    for n_tries in range(1, _N_TRIES + 1):
        with ArrayDirectory(Path(path), _open_folder(Path(path))) as directory:
            try:
                directory.read_manifest()
                return use(directory)
            except (OSError, ValueError):
                if directory.is_current() or n_tries == _N_TRIES:
                    raise
    raise AssertionError("unreachable: the last try returns or raises")


@dataclass(frozen=True)
class Claim:
    """What a manifest says of one array."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size_bytes: int
    sha256: str


class ArrayDirectory:
    """An open directory of arrays.

    All files are opened through one descriptor of the directory: should another process replace it meanwhile,
    what is read still comes from the one that was opened, never from a mix.
    """

    path: Path
    meta: dict[str, Any]
    claims: dict[str, Claim]

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; mapped arrays stay."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def is_current(self) -> bool:
        """Return whether this directory is still the one at its path."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def read_manifest(self) -> None:
        """Read and check the manifest; nothing else can be read before."""
        owner = str(self.path / "manifest.json")
        manifest = strict_json.parse_json(owner, self.read_bytes("manifest.json", max_bytes=strict_json.MAX_BYTES))
        self.claims = _check_claims(owner, manifest.pop("arrays", None))
        self.meta = manifest

    @contextmanager
    def folder(self, name: str) -> Iterator["ArrayDirectory"]:
        """Open the directory of arrays ``name`` inside this one."""
        path = self.path / check_name(str(self.path), name)
        with ArrayDirectory(path, self._open(name, is_folder=True)) as directory:
            directory.read_manifest()
            yield directory

    def size_bytes(self, file_name: str) -> int:
        """Return the size of a file."""
        descriptor = self._open(file_name)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def read_bytes(self, file_name: str, *, max_bytes: int) -> bytes:
        """Return a whole file of at most ``max_bytes``."""
        with os.fdopen(self._open(file_name), "rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > max_bytes:
                raise ValueError(f"{self.path / file_name}: must be at most {max_bytes} bytes, got {size_bytes}")
            return file.read(max_bytes)

    def read(
        self, specs: Mapping[str, ArraySpec] | None, *, verify: bool | Verification = False
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that ``specs`` names, mapped; see `read_arrays`.

        With a Verification, the checksums of large files are left to it.
        """
        if specs is None:
            specs = {name: ArraySpec(claim.dtype, shape=claim.shape) for name, claim in self.claims.items()}
        for name in specs.keys() - self.claims.keys():
            raise ValueError(f"{self.path / 'manifest.json'}: array {name!r} is missing; the directory is incomplete")
        for name in self.claims.keys() - specs.keys():
            raise ValueError(f"{self.path / 'manifest.json'}: array {name!r} is not known; it must not be there")
        for name, spec in specs.items():
            spec.check_form(f"{self.path / name}.npy", self.claims[name].dtype, self.claims[name].shape)
        owners: dict[tuple[int, int], str] = {}
        # All forms first, then values and checksums: what can be refused cheaply is refused before reading.
        files = {name: self._map(name, self.claims[name], owners) for name in specs}
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, spec in specs.items():
            owner, claim, (content, offset) = f"{self.path / name}.npy", self.claims[name], files[name]
            if isinstance(verify, Verification) and len(content) > AT_ONCE_BYTES:
                verify.add(owner, content, claim.sha256)
            elif verify:
                check_sha256(owner, content, claim.sha256)
            # Unlike ndarray(buffer=...), frombuffer keeps the view read-only: nobody can make the array writeable.
            arrays[name] = np.frombuffer(content, np.uint8)[offset:].view(claim.dtype).reshape(claim.shape)
            spec.check_values(owner, arrays[name])
        return arrays

    def _map(self, name: str, claim: Claim, owners: dict[tuple[int, int], str]) -> tuple[memoryview, int]:
        """Map the file of an array; also return where its values begin."""
        owner = f"{self.path / name}.npy"
        with os.fdopen(self._open(f"{name}.npy"), "rb") as file:
            status = os.fstat(file.fileno())
            other = owners.setdefault((status.st_dev, status.st_ino), name)
            if other != name:
                raise ValueError(f"{owner}: is the same file as {other}.npy; arrays must not overlap")
            if status.st_size != claim.size_bytes:
                problem = "was cut short" if status.st_size < claim.size_bytes else "is too long"
                raise ValueError(f"{owner}: {problem}: must have {claim.size_bytes} bytes, got {status.st_size}")
            dtype, shape, offset = read_header(owner, file.read(HEADER_MAX_BYTES))
            if (dtype, shape) != (claim.dtype, claim.shape):
                says = f"the manifest says {claim.dtype.name} {claim.shape}"
                raise ValueError(f"{owner}: {says}, the file's header {dtype.name} {shape}")
            expected = offset + dtype.itemsize * math.prod(shape)  # Python's integers do not overflow
            if expected != status.st_size:
                raise ValueError(f"{owner}: {dtype.name} {shape} needs {expected} bytes, the file has {status.st_size}")
            content = map_file(file, status.st_size)
        if len(content) != status.st_size:
            raise ValueError(f"{owner}: was cut short while it was read")
        return content, offset

    def _open(self, name: str, *, is_folder: bool = False) -> int:
        """Open one entry, which must be a plain file or directory: no link, device or pipe."""
        owner, kind = self.path / name, "directory" if is_folder else "file"
        is_kind = stat.S_ISDIR if is_folder else stat.S_ISREG
        try:
            mode = _os.entry_mode(name, self._descriptor)
            if stat.S_ISLNK(mode):
                raise ValueError(f"{owner}: is a symbolic link; a {kind} must be there itself, copy it")
            if not is_kind(mode):
                raise ValueError(f"{owner}: must be a {kind}, got {_kind(mode)}")
            descriptor = _os.open_entry(name, self._descriptor)
        except FileNotFoundError:
            raise ValueError(f"{owner}: is missing; {self.path} is incomplete or was not written by longtail") from None
        if not is_kind(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError(f"{owner}: must be a {kind}, and was exchanged for something else just now")
        return descriptor


def _open_folder(path: Path) -> int:
    # A replacement without RENAME_EXCHANGE may be cut in two: then the old one waits under another name.
    for place_of in 3 * (Path, backup_of):
        try:
            return _os.open_folder(place_of(path))
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            raise NotADirectoryError(f"{path} is a file, but longtail writes directories") from None
    raise FileNotFoundError(f"{path}: no such directory")


def _check_claims(owner: str, claims: object) -> dict[str, Claim]:
    if not isinstance(claims, dict):
        raise ValueError(f'{owner}: "arrays" must be an object, got {shown(claims)}')
    check_file_names(owner, claims)
    return {name: _check_claim(f'{owner}: "arrays": {name!r}', name, claim) for name, claim in claims.items()}


def _check_claim(owner: str, name: str, claim: object) -> Claim:
    if not isinstance(claim, dict) or claim.keys() != _CLAIM_KEYS:
        raise ValueError(f"{owner} must have the keys {', '.join(sorted(_CLAIM_KEYS))}; got {shown(claim)}")
    if claim["file"] != f"{name}.npy":
        raise ValueError(f"{owner} must lie in its own file {name + '.npy'!r}, got {shown(claim['file'])}")
    dtype, shape, size_bytes, sha256 = claim["dtype"], claim["shape"], claim["size_bytes"], claim["sha256"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"{owner}: dtype must be one of {', '.join(DTYPES)}; got {shown(dtype)}")
    if not isinstance(shape, list) or not all(_is_count(length) for length in shape):
        raise ValueError(f"{owner}: shape must be a list of whole numbers >= 0, got {shown(shape)}")
    if len(shape) > MAX_NDIM or math.prod(length or 1 for length in shape) >= _MAX_SIZE:
        raise ValueError(f"{owner}: at most {MAX_NDIM} dimensions and 2**48 values can be; got {shown(shape)}")
    if not _is_count(size_bytes):
        raise ValueError(f"{owner}: size_bytes must be a whole number >= 0, got {shown(size_bytes)}")
    if not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
        raise ValueError(f"{owner}: sha256 must be 64 hexadecimal digits, got {shown(sha256)}")
    return Claim(DTYPES[dtype], tuple(shape), size_bytes, sha256)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFREG: "a file",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")
