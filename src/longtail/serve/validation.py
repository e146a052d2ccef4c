"""Error texts for requests that do not match the schema, in the words of this service."""

from __future__ import annotations

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
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "list_type": "must be a list",
    "too_long": "must have at most {max_length:,} items",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
_NOT_AN_OBJECT = ("model_attributes_type", "model_type", "dict_type")


def describe(errors: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first few errors of a request in one line."""
    return "; ".join(dict.fromkeys(_describe_one(error) for error in errors[:_MAX_ERRORS]))


def _describe_one(error: Mapping[str, Any]) -> str:
    kind, place, context = error["type"], error["loc"][1:], error.get("ctx", {})
    if kind == "json_invalid":
        at = place[0] if place else 0
        return f"the body is not valid JSON at character {at}: {_lower_first(str(context.get('error', 'not JSON')))}"
    if kind in _NOT_AN_OBJECT and not place:
        return "the body must be a JSON object, sent with Content-Type: application/json"
    name = ".".join(map(str, place)) or "the body"
    text = _TEXTS.get(kind)
    return f"{name} {text.format(**context)}" if text else f"{name}: {_lower_first(error['msg'])}"


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
