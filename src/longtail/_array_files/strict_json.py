"""JSON for files that may be hostile: bounded size, depth and numbers, no key twice, only the standard."""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from longtail._array_files.specs import shown

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
_LEAST_INT, _GREATEST_INT = -(1 << 63), (1 << 64) - 1
# Possessive, and happy without the closing quote: linear time whatever the text.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


def dump_json(owner: str, value: dict[str, Any]) -> bytes:
    """Return ``value`` as UTF-8 text that `parse_json` accepts; raise now what readers would refuse."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_to_python)
    try:
        data = text.encode() + b"\n"
    except UnicodeEncodeError as error:
        raise ValueError(f"{owner}: text must be valid Unicode, got {shown(error.object)}") from None
    parse_json(owner, data)
    return data


def parse_json(owner: str, data: bytes, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the object in ``data``, or raise a ValueError that says which limit or rule it breaks."""
    if len(data) > max_bytes:
        raise ValueError(f"{owner}: must be at most {max_bytes} bytes of JSON, got {len(data)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{owner}: must be UTF-8, got byte 0x{data[error.start]:02x} at {error.start}") from None
    _check_depth(owner, text)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            twice = Counter(name for name, _ in items).most_common(1)[0][0]
            raise _RuleError(f"{owner}: key {shown(twice)} appears twice")
        return found

    def integer(digits: str) -> int:
        if len(digits) > 20 or not _LEAST_INT <= int(digits) <= _GREATEST_INT:
            raise _RuleError(f"{owner}: a whole number must fit 64 bits, got {shown(digits)}")
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise _RuleError(f"{owner}: a number must be finite, got {shown(digits)}")
        return value

    def constant(name: str) -> NoReturn:
        raise _RuleError(f"{owner}: {name} is not JSON; a number must be finite")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=real, parse_constant=constant)
    except _RuleError as error:
        raise ValueError(str(error)) from None
    except ValueError as error:
        raise ValueError(f"{owner}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{owner}: must hold a JSON object, got {shown(value)}")
    if "\\u" in text:  # the only way to a lone surrogate, which no file or terminal takes
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{owner}: text must be valid Unicode, got {shown(error.object[error.start])}") from None
    return value


def _check_depth(owner: str, text: str) -> None:
    depth = 0
    for match in re.finditer(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if match.group() in "[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"{owner}: must be nested at most {MAX_DEPTH} deep")


def _to_python(value: object) -> object:
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    raise TypeError(f"a manifest holds only JSON values, got {type(value).__name__}")


class _RuleError(Exception):
    """Told apart from json's own ValueError, whose text is about syntax."""
