"""The table of public names agrees with what type checkers read, and with the package."""

from __future__ import annotations

import ast
from pathlib import Path

import longtail
from longtail._base import XMCClassifier
from longtail._names import ESTIMATORS, HOMES, MODULES


def _checked_imports() -> dict[str, str]:
    """Return the names that ``longtail/__init__.py`` imports for type checkers, with their modules."""
    tree = ast.parse(Path(longtail.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        name.name: node.module or "" for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names
    }


def test_type_checkers_read_the_same_names() -> None:
    assert _checked_imports() == HOMES | dict.fromkeys(MODULES, "longtail")
    assert set(longtail.__all__) == {*HOMES, *MODULES, "__version__"}


def test_the_estimators_are_estimators_and_all_of_them() -> None:
    public = {name: getattr(longtail, name) for name in HOMES}
    found = {name for name, item in public.items() if isinstance(item, type) and issubclass(item, XMCClassifier)}
    assert found == set(ESTIMATORS)
