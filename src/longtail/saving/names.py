"""Lists of names (labels, words, features): one JSON string per line; a name may hold anything, even a newline."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from longtail._array_files import ArrayDirectory
from longtail._array_files.specs import check_name, shown
from longtail._array_files.verification import check_sha256

MAX_BYTES = 1 << 30
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NamesClaim(NamedTuple):
    """What a manifest says of one list of names."""

    n_names: int
    size_bytes: int
    sha256: str


def write_names(folder: Path, lists: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Write each list to its file and return what the manifest says of it."""
    claims: dict[str, dict[str, Any]] = {}
    for attribute, names in lists.items():
        path = folder / f"{check_name(str(folder), attribute)}.jsonl"
        try:
            data = "".join(json.dumps(name, ensure_ascii=False) + "\n" for name in names).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{attribute} must be valid Unicode, got {shown(error.object[error.start])}") from None
        if len(data) > MAX_BYTES:
            raise ValueError(f"{attribute} must fit {MAX_BYTES} bytes, got {len(data)}")
        path.write_bytes(data)
        claims[attribute] = {
            "file": path.name,
            "n_names": len(names),
            "size_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    return claims


def check_names_claims(owner: str, claims: object) -> dict[str, NamesClaim]:
    """Check the manifest's part about names."""
    if not isinstance(claims, dict):
        raise ValueError(f'{owner}: "names" must be an object, got {shown(claims)}')
    checked: dict[str, NamesClaim] = {}
    for attribute, claim in claims.items():
        check_name(owner, attribute)
        keys = {"file", "n_names", "size_bytes", "sha256"}
        place = f'{owner}: "names": {attribute!r}'
        if not isinstance(claim, dict) or claim.keys() != keys:
            raise ValueError(f"{place} must have the keys {', '.join(sorted(keys))}; got {shown(claim)}")
        if claim["file"] != f"{attribute}.jsonl":
            raise ValueError(f"{place} must lie in its own file {attribute + '.jsonl'!r}, got {shown(claim['file'])}")
        for key in ("n_names", "size_bytes"):
            if type(claim[key]) is not int or claim[key] < 0:
                raise ValueError(f"{place}: {key} must be a whole number >= 0, got {shown(claim[key])}")
        if not isinstance(claim["sha256"], str) or _SHA256.fullmatch(claim["sha256"]) is None:
            raise ValueError(f"{place}: sha256 must be 64 hexadecimal digits, got {shown(claim['sha256'])}")
        checked[attribute] = NamesClaim(claim["n_names"], claim["size_bytes"], claim["sha256"])
    return checked


def read_names(directory: ArrayDirectory, attribute: str, claim: NamesClaim, *, verify: bool) -> list[str]:
    """Read one list and check it against its claim."""
    owner = str(directory.path / f"{attribute}.jsonl")
    data = directory.read_bytes(f"{attribute}.jsonl", max_bytes=min(MAX_BYTES, claim.size_bytes))
    if len(data) != claim.size_bytes:
        raise ValueError(f"{owner}: was cut short: must have {claim.size_bytes} bytes, got {len(data)}")
    if verify:
        check_sha256(owner, data, claim.sha256)
    n_lines = data.count(b"\n")
    if n_lines != claim.n_names or (data and not data.endswith(b"\n")):
        raise ValueError(f"{owner}: must have {claim.n_names} lines, got {n_lines}")
    try:
        # One list is parsed much faster than many lines. JSON has no bare newline inside a string, and each line must
        # give at least one value to stand between two commas: so the count below proves one string per line.
        names = json.loads(b"[" + data[:-1].replace(b"\n", b",") + b"]")
        if b"\\u" in data:
            "".join(name for name in names if isinstance(name, str)).encode()
    except RecursionError:
        raise ValueError(f"{owner}: every line must be one JSON string, got deep nesting") from None
    except UnicodeEncodeError:
        raise ValueError(f"{owner}: names must be valid Unicode, got half a surrogate pair") from None
    except ValueError as error:
        raise ValueError(f"{owner}: every line must be one JSON string: {error}") from None
    for name in names:
        if type(name) is not str:
            raise ValueError(f"{owner}: every line must be one JSON string, got {shown(name)}")
    if len(names) != claim.n_names:
        raise ValueError(f"{owner}: must have {claim.n_names} names, got {len(names)}")
    return list(names)
