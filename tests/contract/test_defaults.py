"""A default is written once: in the annotated field of the Python class. C++ has none, and docstrings agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import longtail as lt
from longtail.saving.registry import HOMES, find_class

ROOT = Path(__file__).parents[2]
# A number, a word in quotation marks, None, True or False after "default", and further ones of the same line.
VALUE = r'(?:-?\d[\d_.e-]*\d|-?\d|"[^"]*"|None|True|False)'
CLASSES = [name for name in [*HOMES, "Auto"] if name != "Tagger"]


def structs() -> list[tuple[str, str]]:
    found = []
    for path in sorted((ROOT / "cpp").glob("*/*.hpp")):
        text = path.read_text()
        for match in re.finditer(
            r"^struct (\w*(?:Config|Params|Limits)|OvaStart|Goal|Link) \{\n(.*?)^\};", text, re.M | re.S
        ):
            found.append((f"{path.relative_to(ROOT)}: {match[1]}", match[2]))
    return found


@pytest.mark.skipif(not (ROOT / "cpp").exists(), reason="needs the sources")
def test_settings_in_cpp_have_no_defaults_of_their_own() -> None:
    found = structs()
    assert len(found) >= 12
    set_here = [
        f"{owner}: {line.strip()}"
        for owner, body in found
        for line in body.splitlines()
        if re.match(r"\s+[\w:<>]+ \w+( = |\{[^}])", line)
    ]
    assert set_here == []


def documented(cls: type[Any]) -> dict[str, str]:
    """Return the defaults that a docstring names, by parameter: ``a, b : int, default 1 and 2``.

    A default that is an estimator is left out: the field holds None in its place.
    """
    text = (cls.__doc__ or "").split("Attributes\n")[0].split("Examples\n")[0]
    found: dict[str, str] = {}
    for match in re.finditer(r"^    (\w+(?:, \w+)*) : .*?\bdefault (?!\w+\()(.*)$", text, re.M):
        names = match[1].split(", ")
        values = re.findall(VALUE, match[2])[: len(names)]
        found |= dict(zip(names, values if len(values) == len(names) else values[:1] * len(names), strict=True))
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_docstrings_name_the_defaults_that_hold(name: str) -> None:
    cls = lt.Auto if name == "Auto" else find_class("test", name)[0]
    defaults = cls._defaults()
    wrong = {}
    for parameter, value in documented(cls).items():
        expected = defaults[parameter]
        read: Any = {"None": None, "True": True, "False": False}.get(value, value.strip('"'))
        if isinstance(expected, int | float) and not isinstance(expected, bool):
            read = float(value.replace("_", ""))
        if read != expected:
            wrong[parameter] = (value, expected)
    assert wrong == {}
