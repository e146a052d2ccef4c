"""The files of the web page, by their paths in the service."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import NamedTuple

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class PageFile(NamedTuple):
    """A file as it is sent."""

    content: bytes
    media_type: str


def _read() -> dict[str, PageFile]:
    files = {}
    for file in (resources.files("longtail.serve") / "page").iterdir():
        if (media_type := _TYPES.get(Path(file.name).suffix)) is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            files[path] = PageFile(file.read_bytes(), media_type)
    return files


PAGE_FILES = _read()
