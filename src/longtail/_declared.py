"""Read declarations from ``Annotated`` fields: rules and search ranges of parameters, contents of fitted states.

A parameter is one line, ``cost: Annotated[float, Real(0, above=True), Between(0.1, 20.0, log=True)] = 1.0``: its type,
what it may be, where a search looks for it, its default.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

Annotations = dict[str, tuple[type[Any] | None, tuple[Any, ...]]]

_known: dict[type[Any], Annotations] = {}


def annotations_of(cls: type[Any]) -> Annotations:
    """Return, for every annotated name of a class and its bases, the plain type (if it is a class) and the metadata.

    A tuple among the metadata stands for its items.
    """
    if cls in _known:
        return _known[cls]
    found: Annotations = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        metadata: tuple[Any, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *rest = get_args(hint)
            metadata = tuple(part for item in rest for part in (item if isinstance(item, tuple) else (item,)))
        found[name] = (hint if isinstance(hint, type) else None, metadata)
    _known[cls] = found
    return found


class Collected:
    """A read-only class attribute: {name: metadata of one kind} over all annotated names of the class."""

    def __init__(self, *kinds: type[Any], single: bool = False) -> None:
        self._kinds, self._single = kinds, single

    def __get__(self, _instance: object, cls: type[Any]) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        for name, (_, metadata) in annotations_of(cls).items():
            items = tuple(item for item in metadata if isinstance(item, self._kinds))
            if items:
                chosen[name] = items[0] if self._single else items
        return chosen
