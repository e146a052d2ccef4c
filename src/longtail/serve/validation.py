"""Error texts for requests that do not match the schema, in the words of this service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from longtail.decisions.utilities import UTILITIES

_MAX_ERRORS = 5
# By pydantic's error type; the values in braces come from the error's context.
_TEXTS = {
    "missing": "must be given",
    "extra_forbidden": "is not a known field",
    "string_type": "must be a string",
    "string_too_long": "must have at most {max_length:,} characters",
    # Utilities are the only field with a pattern.
    "string_pattern_mismatch": f"must be one of {', '.join(UTILITIES)}, with X from 0 to 10",
    "string_unicode": "must be valid Unicode",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "list_type": "must be a list",
    "too_long": "must have at most {max_length:,} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
_NOT_AN_OBJECT = ("model_attributes_type", "model_type", "dict_type")
# Where a field may have one of several types, pydantic gives an error for each, with the type behind the field's name.
_TYPE = re.compile(r"(bool|float|int|str)$|(literal|list|constrained)\W")


def describe(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first few errors of a request in one line."""
    found: dict[str, list[str]] = {}
    for error in errors[:_MAX_ERRORS]:
        name, text = _describe_one(error)
        found.setdefault(name, []).append(text)
    return "; ".join(f"{name}{_either(list(dict.fromkeys(texts)))}" for name, texts in found.items())


def _describe_one(error: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is wrong, and how."""
    kind, place, context = error["type"], error["loc"][1:], error.get("ctx", {})
    if kind == "json_invalid":
        at = place[0] if place else 0
        why = _lower_first(str(context.get("error", "not JSON")))
        return "the body", f" is not valid JSON at character {at}: {why}"
    if kind in _NOT_AN_OBJECT and not place:
        return "the body", " must be a JSON object, sent with Content-Type: application/json"
    if len(place) > 1 and _TYPE.match(str(place[-1])):
        place = place[:-1]
    name = ".".join(map(str, place)) or "the body"
    text = _TEXTS.get(kind)
    return name, f" {text.format(**context)}" if text else f": {_lower_first(error['msg'])}"


def _either(texts: list[str]) -> str:
    """Join "must be a number" and "must be 'auto'"."""
    first, *others = texts
    return " or ".join([first, *(text.strip().removeprefix("must be ") for text in others)])


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
